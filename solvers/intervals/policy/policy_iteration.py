"""Policy iteration over partitions that are written out, all of them or some, with a certified interval."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


Target = tuple[Any, IntArray]
"""Which rows of a class are partners - numbers, or a slice for all -, and their values in whole numbers."""


@dataclass
class PolicyIteration:
    """Policy iteration with a certified interval on the optimal values.

    Given some partitions of every class in `classes`, it is the same about policies that stay within them.

    One round sweeps over all pairs (n, n') with n != n' of positive probability (for n' = n staying is optimal), class by
    class: a class takes its greedy decisions, then a few steps of evaluation tell the classes that follow. MacQueen's
    interval around TV holds the optimal values: what a pair's partners can have fallen by since its sweep, and what
    whole-number arithmetic can have rounded, is added to it.

    In late rounds only few values still fall. A partner whose value fell by no more than the others' of its class, up to
    `slack`, can be better than the present one by `slack` at most, so that sweeps over the others are enough (action
    elimination). What is lost that way is counted, and added to the interval.
    """

    problem: MigrationPolicy
    threads: int = 1
    classes: dict[int, PartitionClass] = field(default_factory=dict)
    ruler: Ruler = field(init=False)
    value: dict[int, FloatArray] = field(init=False)
    choice: dict[tuple[int, int], np.ndarray] = field(init=False)
    cost: dict[tuple[int, int], FloatArray] = field(init=False)
    low: float = -math.inf
    high: float = math.inf
    rounds: int = 0
    slack: float = 0.0

    def __post_init__(self) -> None:
        p = self.problem
        self.classes = self.classes or {n: enumerate_class(p.starts(n), n) for n in p.reachable}
        self.ruler = Ruler(p.workload.state, max(c.size for c in self.classes.values()))
        self.value = {n: np.zeros(c.size) for n, c in self.classes.items()}
        self.pairs = [(n, after) for n, row in p.reachable.items() for after in row if after != n]
        self.choice, self.cost = {}, {}
        self._seen: dict[tuple[int, int], FloatArray] = {}  # the values of its partners at a pair's last sweep
        self._lost: dict[tuple[int, int], float] = {}
        self._needs: dict[tuple[int, int], int] = {}

    @property
    def gap(self) -> float:
        """Width of the certified interval, in units of state."""
        return self.high - self.low

    def round(self, budget: Budget, anew: bool = False) -> bool:
        """One sweep over all pairs; False if the budget ended in between, and nothing is changed.

        With `anew` it depends on the values alone, and not on earlier rounds.
        """
        before = self.value, self.choice, self.cost, self._seen, self._lost
        self.choice, self.cost, self._seen, self._lost = ({} if anew else dict(held) for held in before[1:])
        for n in self.classes:
            if not self._improve(n, budget):
                self.value, self.choice, self.cost, self._seen, self._lost = before
                return False
            self.evaluate(0.0, budget, most=2)
        self._certify()
        self.rounds += 1
        return True

    def _improve(self, n: int, budget: Budget) -> bool:
        """Greedy decisions of a class; False if the budget ended in between."""
        gamma, unit = self.problem.discount, self.ruler.unit
        base = min(float(v.min()) for v in self.value.values())  # what all share needs no room in whole numbers
        mine = [after for before, after in self.pairs if before == n]
        chosen = {after: self._to_sweep(n, after) for after in mine}
        target = {}
        for after, (rows, _) in chosen.items():
            target[after] = rows, self.ruler.whole(gamma * (self.value[after][rows] - base))
        found = dict(self.sweeps(n, target, budget))
        for after, (rows, lost) in chosen.items():
            if (best := found.get(after)) is not None:
                partner = best.partner if isinstance(rows, slice) else rows[best.partner].astype(np.int32)
                moved = best.cost * unit
                if lost > 0:  # the present partner, unless another one is better
                    kept, known = self.choice[n, after], self.cost[n, after]
                    now = known + gamma * self.value[after].take(kept)
                    better = best.total * unit + gamma * base < now - unit
                    partner, moved = np.where(better, partner, kept), np.where(better, moved, known)
                self.choice[n, after], self.cost[n, after] = partner, moved
            elif target[after][1].size:
                return False
            self._seen[n, after], self._lost[n, after] = self.value[after], lost
        return True

    def _to_sweep(self, n: int, after: int) -> tuple[Any, float]:
        """The partners to sweep over, and what has been lost by leaving out others since the last sweep over all."""
        lost = self._lost.get((n, after), 0.0) + self.slack
        if (n, after) not in self._seen or not 0 < lost <= 10 * self.slack:
            return slice(None), 0.0
        fallen = self.value[after] - self._seen[n, after]
        rows = np.flatnonzero(self.problem.discount * (fallen.max() - fallen) > self.slack)
        return (slice(None), 0.0) if 2 * rows.size > fallen.size else (rows, lost)

    def _certify(self) -> None:
        """TV, and the interval around it."""
        gamma = self.problem.discount
        updated = {n: row.get(n, 0.0) * gamma * self.value[n] for n, row in self.problem.reachable.items()}
        below = {n: value.copy() for n, value in updated.items()}
        for n, after in self.pairs:
            now, seen, partner = self.value[after], self._seen[n, after], self.choice[n, after]
            least = gamma * float((now - seen).min()) - self._lost[n, after]
            chance, cost = self.problem.transitions[n][after], self.cost[n, after]
            updated[n] += chance * (cost + gamma * now.take(partner))
            below[n] += chance * (cost + gamma * seen.take(partner) + least)
        low = macqueen_interval((below[n] - v for n, v in self.value.items()), gamma)[0]
        high = macqueen_interval((updated[n] - v for n, v in self.value.items()), gamma)[1]
        rounding = (self.ruler.unit + self.ruler.error + 1e-15 * self.problem.scale) / (1 - gamma)
        self.low = low - max(float((updated[n] - below[n]).max()) for n in updated) - rounding
        self.high, self.value = high + rounding, updated

    def sweeps(self, n: int, target: dict[int, Target], budget: Budget) -> Iterator[tuple[int, Best]]:
        """The sweeps of a class, by next count; fewer if the budget ends, none over no partners."""
        mine = [after for after, (_, values) in target.items() if values.size]

        def found(after: int) -> Best | None:
            slots = np.empty((4, self._need(n, after)), dtype=np.int64)
            rows, values = target[after]
            with suppress(LimitReached):
                return until_limit(
                    budget, self.ruler.sweep, self.classes[n], self.classes[after].rows[rows], values, slots
                )
            return None

        with ThreadPoolExecutor(self.threads) as pool:
            for after, best in zip(mine, (pool.map if self.threads > 1 else map)(found, mine), strict=True):
                if best is not None:
                    yield after, best

    def _need(self, n: int, after: int) -> int:
        if (n, after) not in self._needs:
            self._needs[n, after] = self.ruler.need(self.classes[n], self.classes[after].rows)
        return self._needs[n, after]

    def evaluate(self, precision: float, budget: Budget, most: int = 60) -> None:
        """Move the values towards those of the greedy policy: the interval holds for the next round's values only.

        What all values of a class have in common is solved for: how classes follow each other does not depend on the policy.
        Classes without decisions yet keep their values.
        """
        gamma = self.problem.discount
        missing = {n for n, after in self.pairs if (n, after) not in self.choice}
        if not (moving := [n for n in self.classes if n not in missing]):
            return
        expected = {n: np.zeros(self.classes[n].size) for n in moving}
        for n, after in self.choice:
            expected[n] += self.problem.transitions[n][after] * self.cost[n, after]
        follow = np.array([[gamma * self.problem.transitions[n].get(after, 0.0) for after in moving] for n in moving])
        common_to_shift = np.linalg.solve(np.eye(len(moving)) - follow, follow)
        for _ in range(most):
            made = {n: self._one_step(n, expected[n]) for n in moving}
            ends = [(float((made[n] - self.value[n]).min()), float((made[n] - self.value[n]).max())) for n in moving]
            common = np.array([(low + high) / 2 for low, high in ends])
            shift = common_to_shift @ common
            self.value = self.value | {n: made[n] + shift[i] for i, n in enumerate(moving)}
            if gamma / (1 - gamma) * max(high - low for low, high in ends) <= precision or budget.expired:
                break

    def _one_step(self, n: int, expected: FloatArray) -> FloatArray:
        gamma, row = self.problem.discount, self.problem.transitions[n]
        made = expected + gamma * row.get(n, 0.0) * self.value[n]
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
        goal, gamma = tolerance * self.problem.scale, self.problem.discount
        self.slack = 0.05 * goal * (1 - gamma)
        least, stalled = math.inf, 0
        if checkpoint is not None and checkpoint.exists():
            header, self.value = read_progress(checkpoint, self.fingerprint(), self.sizes())
            self.rounds, least, stalled = header.rounds, header.least, header.stalled
        certain = self.value
        while self.round(budget, anew=checkpoint is not None):  # as one that goes on from the checkpoint
            certain = self.value
            budget.report(note=f"round {self.rounds}: values certain within {self.gap:.3g}")
            least, stalled = min(least, self.gap), 0 if self.gap < 0.99 * least else stalled + 1
            # Without progress for so many rounds: rounding keeps a very high discount from being certain.
            if self.gap <= goal or stalled == 5 or budget.expired:
                return
            self.evaluate(max(1e-5 * self.gap * min(1.0, self.gap / self.problem.scale), 0.002 * goal), budget)
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
