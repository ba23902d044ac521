"""Policy iteration over partitions that are written out, all of them or some, with a certified interval."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached, Termination
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.intervals.policy.transitions import macqueen_interval
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.owners import close
from keyshift.solvers.intervals.partitions import Best, PartitionClass, Ruler, count_partitions, enumerate_class
from keyshift.solvers.intervals.policy.saved_policy import Policy, read_progress, write_progress
from keyshift.solvers.threads import until_limit

TOLERANCE = 1e-7
"""How certain the values have to be, as a share of all the state, unless a caller says otherwise."""
MOST_STATES = 100_000
"""Partitions that a policy may visit for it to be written out as an assignment, unless a caller says otherwise."""


def census(problem: MigrationPolicy, most: int = 1 << 62) -> dict[int, int]:
    """Number of partitions of every class, without enumerating them; not exact above `most`."""
    return {n: count_partitions(problem.starts(n), n, most)[0] for n in problem.reachable}


@dataclass
class PolicyIteration:
    """Policy iteration with a certified interval on the optimal values.

    Given some partitions of every class in `classes`, it is the same about policies that stay within them.

    One round sweeps over all pairs (n, n') with n != n' of positive probability (for n' = n staying is optimal),
    which gives TV and the greedy policy, and then evaluates that policy. MacQueen's interval around TV holds the optimal
    values; what whole-number arithmetic can have rounded is added to it.
    """

    problem: MigrationPolicy
    threads: int = 1
    classes: dict[int, PartitionClass] = field(default_factory=dict)
    ruler: Ruler = field(init=False)
    value: dict[int, FloatArray] = field(init=False)
    choice: dict[tuple[int, int], np.ndarray] = field(init=False)
    low: float = -math.inf
    high: float = math.inf
    rounds: int = 0

    def __post_init__(self) -> None:
        p = self.problem
        self.classes = self.classes or {n: enumerate_class(p.starts(n), n) for n in p.reachable}
        self.ruler = Ruler(p.workload.state, max(c.size for c in self.classes.values()))
        self.value = {n: np.zeros(c.size) for n, c in self.classes.items()}
        self.pairs = [(n, after) for n, row in p.reachable.items() for after in row if after != n]
        self.choice = {}
        self._needs: dict[tuple[int, int], int] = {}

    @property
    def gap(self) -> float:
        """Width of the certified interval, in units of state."""
        return self.high - self.low

    def round(self, budget: Budget) -> bool:
        """One sweep over all pairs, then evaluation; False if the budget ended in between, and nothing is changed."""
        gamma, unit = self.problem.discount, self.ruler.unit
        base = min(float(v.min()) for v in self.value.values())  # what all share needs no room in whole numbers
        target = {n: self.ruler.whole(gamma * (v - base)) for n, v in self.value.items()}
        updated = {n: np.zeros(c.size) for n, c in self.classes.items()}
        expected = {n: np.zeros(c.size) for n, c in self.classes.items()}
        choice: dict[tuple[int, int], np.ndarray] = {}

        for (n, after), best in self.sweeps(target, budget):
            chance = self.problem.transitions[n][after]
            updated[n] += chance * (best.total * unit + gamma * base)
            expected[n] += chance * (best.cost * unit)
            choice[n, after] = best.partner
        for n, row in self.problem.reachable.items():
            updated[n] += row.get(n, 0.0) * gamma * self.value[n]
        if len(choice) < len(self.pairs):
            return False
        least, most = macqueen_interval((updated[n] - v for n, v in self.value.items()), gamma)
        rounding = (unit + self.ruler.error + 1e-15 * self.problem.scale) / (1 - gamma)
        self.low, self.high = least - rounding, most + rounding
        self.value, self.choice, self.expected = updated, choice, expected
        self.rounds += 1
        return True

    def sweeps(self, target: dict[int, IntArray], budget: Budget) -> Iterator[tuple[tuple[int, int], Best]]:
        """The sweeps of one round, pair by pair in a fixed order; fewer if the budget ends."""
        largest_first = sorted(self.classes, key=lambda n: -self.classes[n].size)
        if self.threads == 1:
            for n in largest_first:
                yield from self._sweeps_of(n, target, budget)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            for done in pool.map(lambda n: list(self._sweeps_of(n, target, budget)), largest_first):
                yield from done

    def _sweeps_of(self, n: int, target: dict[int, IntArray], budget: Budget) -> Iterator[tuple[tuple[int, int], Best]]:
        mine = [after for before, after in self.pairs if before == n]
        slots = np.empty((4, max((self._need(n, after) for after in mine), default=0)), dtype=np.int64)
        for after in mine:
            try:
                found = until_limit(
                    budget, self.ruler.sweep, self.classes[n], self.classes[after].rows, target[after], slots
                )
            except LimitReached:
                return
            yield (n, after), found

    def _need(self, n: int, after: int) -> int:
        if (n, after) not in self._needs:
            self._needs[n, after] = self.ruler.need(self.classes[n], self.classes[after].rows)
        return self._needs[n, after]

    def evaluate(self, precision: float, budget: Budget, most: int = 60) -> None:
        """Move the values towards those of the greedy policy: the interval holds for the next round's values only."""
        gamma = self.problem.discount
        lever = gamma / (1 - gamma)
        for _ in range(most):
            after = {n: self._one_step(n) for n in self.classes}
            changes = [after[n] - v for n, v in self.value.items()]
            low, high = min(float(c.min()) for c in changes), max(float(c.max()) for c in changes)
            shift = lever * (low + high) / 2
            self.value = {n: v + shift for n, v in after.items()}
            if lever * (high - low) <= precision or budget.expired:
                break

    def _one_step(self, n: int) -> FloatArray:
        gamma, row = self.problem.discount, self.problem.transitions[n]
        made = self.expected[n] + gamma * row.get(n, 0.0) * self.value[n]
        for after, chance in row.items():
            if after != n:
                made += gamma * chance * self.value[after].take(self.choice[n, after])
        return made

    def run(self, budget: Budget, tolerance: float, checkpoint: Path | None = None) -> None:
        """Iterate until the certified interval is narrower than `tolerance` times all the state.

        The values are written to the checkpoint after every round, and read from it before the first: the interval
        holds wherever they come from. Where the budget ends within a round, the values are those of the round before,
        which its interval is certain of.
        """
        goal = tolerance * self.problem.scale
        least, stalled = math.inf, 0
        if checkpoint is not None and checkpoint.exists():
            header, self.value = read_progress(checkpoint, self.fingerprint(), self.sizes())
            self.rounds, least, stalled = header.rounds, header.least, header.stalled
        certain = self.value
        while self.round(budget):
            certain = self.value
            budget.report(note=f"round {self.rounds}: values certain within {self.gap:.3g}")
            least, stalled = min(least, self.gap), 0 if self.gap < 0.99 * least else stalled + 1
            # Without progress for so many rounds: rounding keeps a very high discount from being certain.
            if self.gap <= goal or stalled == 5 or budget.expired:
                return
            self.evaluate(0.1 * goal, budget)
            if checkpoint is not None and not budget.expired:
                write_progress(checkpoint, self.fingerprint(), self.value, self.rounds, stalled, least)
        self.value = certain

    def sizes(self) -> dict[int, int]:
        """Number of partitions of every class."""
        return {n: c.size for n, c in self.classes.items()}

    def fingerprint(self) -> str:
        """A hash of all that the values depend on."""
        p = self.problem
        digest = hashlib.sha256(np.ascontiguousarray(p.workload.state, dtype=np.float64).tobytes())
        digest.update(repr([(n, sorted(row.items())) for n, row in p.transitions.items()]).encode())
        digest.update(repr(p.discount).encode())
        for c in self.classes.values():
            digest.update(c.starts.tobytes())
        return digest.hexdigest()

    def policy(self) -> Policy:
        """The policy found so far."""
        ruler = self.ruler
        return Policy(
            self.classes, self.choice, self.value, self.low, self.high, self.problem.discount, ruler.prefix, ruler.unit
        )


def first_costs(problem: MigrationPolicy, policy: Policy, nodes_after: int) -> FloatArray:
    """State moved in the first step, plus the discounted value of where it leads, for every row of a class."""
    w = problem.workload
    whole = np.diff(policy.prefix)
    whole[w.draining[w.current]] = 0
    return policy.costs(cuts_of(w.current), nodes_after, np.concatenate(([0], np.cumsum(whole))))


def proven(problem: MigrationPolicy, answer: Answer) -> Termination:
    """Whether the certified interval is narrow enough to call the answer optimal."""
    if answer.assignment is None or answer.bound is None:
        return "gap"
    value = problem.objective(problem.canonical(answer.assignment))
    return "optimal" if value - answer.bound <= problem.tolerance_of(value) else "gap"


def answer_of(
    problem: MigrationPolicy, policy: Policy, error: float, most_states: int, proven_bound: float | None = None
) -> Answer:
    """The closed table of a policy, and the certified lower bound on the expected discounted state moved.

    The bound is put together from the policy's interval, unless one is given: where its partitions are not all of them.
    """
    best: dict[int, IntArray] = {}
    bound = 0.0
    for after, chance in problem.first_row.items():
        costs = first_costs(problem, policy, after)
        best[after] = policy.classes[after].cuts(int(np.argmin(costs)))
        bound += chance * (float(costs.min()) + problem.discount * policy.low - error)
    bound = bound if proven_bound is None else proven_bound
    details = {
        "policy": policy,
        "value_gap": policy.high - policy.low,
        "partitions": sum(c.size for c in policy.classes.values()),
    }
    assignment = close(problem, best.__getitem__, policy.decide, Budget(None), most_states)
    if assignment is None:
        said = (
            f"the policy visits over {most_states} partitions, or 2 GB; it is in details['policy'], its value unchecked"
        )
        return Answer(None, max(0.0, bound), "completed", said, details)
    return Answer(assignment, max(0.0, bound), "completed", details=details)
