"""Sequences beyond enumeration: the best way through some partitions of each class, to which every round adds."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.base.guards import Count, Share
from keyshift.models.intervals import MigrationSequence
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.band_kernels import weights
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.intervals.partitions import Ruler, some_of_class
from keyshift.solvers.intervals.potentials.two_partitions_kernels import best_next
from keyshift.solvers.intervals.ssm import cuts_in_time, keepable, sequence_bound
from keyshift.solvers.threads import until_limit


def restricted_sequence(
    problem: MigrationSequence,
    *,
    budget: Budget,
    seed: int = 0,
    partitions: Count = 400,
    noise: Share = 0.5,
    patience: Count = 40,
) -> Answer:
    """Look ahead through all steps, but only over some partitions of each class: the best way through them, exactly.

    It begins with optimal single steps from now to every count, and from there to all the counts before and after.
    A round adds, for every step, what lies between the partitions before and after on the best way so far, with
    jittered states: the best of `best_next` where an interval is worth the most that it shares with one of
    the partition after, times a random weight, and the single step back from there. Of a class with too many the half
    with the cheapest ways through them stays. No guarantee; the bound is `sequence_bound`.

    Parameters
    ----------
    partitions : int
        About this many partitions of each class at most.
    noise : float
        In a round every state is multiplied by up to 1 +- noise.
    patience : int
        It ends after so many rounds without a better way.
    """
    rng, ways = np.random.default_rng(seed), _Ways(problem, partitions, budget)
    state, bound, in_vain = problem.workload.state, sequence_bound(problem, budget.part(0.3)), 0
    ways.begin()
    least, best = ways.cheapest()
    # With more tasks no partitions are added between others: what every interval is worth would not fit into memory.
    few = len(ways.counts) == 1 or state.size > 5_000
    with suppress(LimitReached):
        while in_vain < patience and least > bound and not few:
            ways.add_between(best, state * (1 + noise * rng.uniform(-1, 1, state.size)), rng)
            in_vain += 1
            value, way = ways.cheapest()
            if value < least:
                least, best, in_vain = value, way, 0
            budget.tick()
    steps = iter(best)
    rows, cuts = [], best[0]
    for t, nodes in enumerate(problem.counts):
        if t == 0 or nodes != problem.counts[t - 1]:
            cuts = next(steps)
        rows.append(cuts)
    why = budget.why if budget.expired else "completed"
    return Answer(realise(problem, rows), bound, why)


class _Ways:
    """Partitions of every class, and the cheapest ways through them from now over all steps that change the count."""

    def __init__(self, problem: MigrationSequence, most: int, budget: Budget) -> None:
        w, self.budget = problem.workload, budget
        self.counts = [n for t, n in enumerate(problem.counts) if t == 0 or n != problem.counts[t - 1]]
        self.state, self.tasks, self.most = w.state, w.key_groups, most
        self.starts = {n: problem.starts(n) for n in self.counts}
        self.now, self.stays = cuts_of(w.current), ~w.draining[w.current]
        self.some: dict[int, dict[bytes, IntArray]] = {n: {} for n in self.counts}

    def _meet(self, nodes: int, cuts: IntArray) -> IntArray:
        return self.some[nodes].setdefault(cuts.tobytes(), cuts)

    def _step(self, cuts: IntArray, nodes: int, state: FloatArray) -> IntArray:
        """Add the optimal single step from these cuts."""
        prefix, intervals = weights(state).prefix, min(nodes, self.tasks)
        return self._meet(nodes, cuts_in_time(self.starts[nodes], cuts, prefix, intervals, self.budget))

    def begin(self) -> None:
        """Single steps from now to every count, and from there to all the counts after and before; the first way at least."""
        last = len(self.counts)
        for t in range(last):
            cuts = reached = self._step(self.now, self.counts[t], self.state * self.stays)
            for u in range(t + 1, last):
                cuts = self._step(cuts, self.counts[u], self.state)
            for u in range(t - 1, -1, -1):
                reached = self._step(reached, self.counts[u], self.state)
                if self.budget.expired:
                    return
            if self.budget.expired:
                return

    def add_between(self, way: list[IntArray], state: FloatArray, rng: np.random.Generator) -> None:
        """For every step, partitions between those before and after it on this way."""
        for t, (nodes, after) in enumerate(zip(self.counts, [*way[1:], None], strict=True)):
            self.budget.tick()
            stays = state if t else state * self.stays
            prefix = np.concatenate(([0.0], np.cumsum(state)))
            worth = np.zeros((self.tasks + 1, self.tasks + 1))
            if after is not None:
                self._step(after, nodes, state)
                worth = rng.choice([0.0, 0.5, 1.0]) * _shared(after, prefix, self.budget)
            kept = np.concatenate(([0.0], np.cumsum(stays)))
            before = way[t - 1] if t else self.now
            most = min(nodes, self.tasks)
            _, found = until_limit(
                self.budget, best_next, self.starts[nodes], before, kept, -worth, most, steps=self.tasks**2 * most
            )
            self._meet(nodes, found)

    def cheapest(self) -> tuple[float, list[IntArray]]:
        """The state that the cheapest way moves, and its partitions; the costliest half of a class with too many is dropped."""
        classes = {n: some_of_class(self.starts[n], n, some.values()) for n, some in self.some.items()}
        ruler = Ruler(self.state, max(c.size for c in classes.values()))
        layers = [classes[n] for n in self.counts]
        kept = np.concatenate(([0], np.cumsum(np.where(self.stays, np.diff(ruler.prefix), 0))))
        behind = [ruler.from_one(self.now, layers[0], kept)]
        for before, here in pairwise(layers):
            behind.append(ruler.sweep(here, before.rows, behind[-1]).total)
        through, ahead = [behind[-1]], np.zeros_like(behind[-1])
        partners = []
        for here, after, cost in zip(layers[-2::-1], layers[:0:-1], behind[-2::-1], strict=True):
            best = ruler.sweep(here, after.rows, ahead)
            ahead = best.total
            through.append(cost + ahead)
            partners.append(best.partner)
        through.reverse()
        at = int(np.argmin(through[0]))
        way = [layers[0].cuts(at)]
        for layer, partner in zip(layers[1:], reversed(partners), strict=True):
            at = int(partner[at])
            way.append(layer.cuts(at))
        self._drop(through)
        return float(through[0].min()) * ruler.unit, way

    def _drop(self, through: list[FloatArray]) -> None:
        """Of each class with too many the half with the cheapest ways through them stays."""
        for n in [n for n, some in self.some.items() if len(some) > self.most]:
            least = np.min([cost for m, cost in zip(self.counts, through, strict=True) if m == n], axis=0)
            every = some_of_class(self.starts[n], n, self.some[n].values())
            stay = [every.cuts(int(i)) for i in np.argsort(least, kind="stable")[: (self.most + 1) // 2]]
            self.some[n] = {cuts.tobytes(): cuts for cuts in stay}


def _shared(cuts: IntArray, prefix: FloatArray, budget: Budget) -> FloatArray:
    """The most state that an interval shares with one interval of a partition, by start and end."""
    most = np.zeros((prefix.size, prefix.size))
    for left, right in pairwise(cuts):
        budget.tick()
        within = prefix[np.clip(np.arange(prefix.size), left, right)]
        most = np.maximum(most, within - within[:, None])
    return most


# A known sequence step by step, blind to what follows; and the assignments of any sequence of partitions ---------------


def realise(problem: MigrationSequence, partitions: list[IntArray], state: FloatArray | None = None) -> np.ndarray:
    """The assignment after each step when the steps lead through these partitions, each labelled for least movement.

    `state` replaces the workload's sizes where these are capped.
    """
    w = problem.workload
    state = w.state if state is None else state
    owners = Owners.now(w)
    prefix = keepable(problem.first_step(), state).prefix
    rows = []
    for cuts, nodes in zip(partitions, problem.counts, strict=True):
        rows.append(owners.migrate(cuts, nodes, prefix))
        prefix = weights(state).prefix
    return np.stack(rows)


def repeated_ssm(problem: MigrationSequence, *, budget: Budget, seed: int = 0) -> Answer:
    """Optimal single-step migration at every step, blind to what follows. No guarantee; the bound is `sequence_bound`."""
    cuts, w = cuts_of(problem.workload.current), problem.workload
    prefix = keepable(problem.first_step()).prefix
    found = []
    for nodes in problem.counts:
        intervals = min(nodes, w.key_groups)
        cuts = cuts_in_time(problem.starts(nodes), cuts, prefix, intervals, budget)
        prefix = weights(w.state).prefix
        found.append(cuts)
    return Answer(realise(problem, found), sequence_bound(problem, budget))
