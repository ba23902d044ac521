"""A policy read from an assignment, as a Markov chain: the check of `MigrationPolicy`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from keyshift.models.intervals.policy import macqueen
from keyshift.models.problem import Violation
from keyshift.models.workload import FloatArray

if TYPE_CHECKING:
    from keyshift.models.intervals.policy.problem import MigrationPolicy

NOT_ASKED = -1
"""An assignment has this entry where a node count never comes in a state."""
FEW_STATES = 1_000
"""A linear system of this few states is solved directly."""
PRECISION = 1e-13
"""How exactly a policy is valued, as a fraction of all the state."""


class PolicyTable:
    """A policy read from an assignment: which state each decision leads to, at what cost, and what breaks a rule."""

    def __init__(self, problem: MigrationPolicy, assignment: np.ndarray) -> None:
        self.problem, self.assignment = problem, assignment
        states, counts, tasks = assignment.shape
        changes = assignment[:, :, 1:] != assignment[:, :, :-1]
        self.changes = changes
        self.patterns = np.packbits(changes, axis=2) if tasks > 1 else np.zeros((states, counts, 1), np.uint8)
        self.target = np.full((states, counts), -1, dtype=np.int64)
        self.chance = np.zeros((states, counts))
        self.broken: list[Violation] = []
        self._number_states()
        self._value_steps()

    def _number_states(self) -> None:
        """Number the partitions in reading order, and find the probabilities of every state."""
        p = self.problem
        column = {n: j for j, n in enumerate(p.counts)}
        self.classes = [p.nodes_now]
        self.origin: list[tuple[int, int]] = [(-1, -1)]
        met: dict[tuple[int, bytes], int] = {}
        rows = {n: [(column[after], chance) for after, chance in row.items()] for n, row in p.transitions.items()}
        first = [(column[after], chance) for after, chance in p.first_row.items()]
        for r in range(self.assignment.shape[0]):
            if r >= len(self.classes):
                self.broken.append(Violation("closed", f"state {r} is met nowhere before its row", r))
                break
            for j, chance in rows[self.classes[r]] if r > 0 else first:
                self.chance[r, j] = chance
                key = (p.counts[j], self.patterns[r, j].tobytes())
                if key not in met:
                    met[key] = len(self.classes)
                    self.classes.append(p.counts[j])
                    self.origin.append((r, j))
                self.target[r, j] = met[key]
        if len(self.classes) > self.assignment.shape[0]:
            r, j = self.origin[self.assignment.shape[0]]
            said = f"state {r} with {p.counts[j]} nodes next leads to a partition that has no row"
            self.broken.append(Violation("closed", said, r))

    def _value_steps(self) -> None:
        """State moved by every decision, and its expectation in every state."""
        states = self.assignment.shape[0]
        before = np.empty((states, self.assignment.shape[2]), dtype=np.int64)
        before[0] = self.problem.workload.current
        for r in range(1, min(states, len(self.classes))):
            i, j = self.origin[r]
            before[r, 0] = 0
            np.cumsum(self.changes[i, j], out=before[r, 1:])
        before[len(self.classes) :] = 0
        self.before = before
        asked = self.chance > 0
        self.cost = np.zeros(asked.shape)
        weights = self.problem.workload.state
        for j in range(asked.shape[1]):
            at = np.flatnonzero(asked[:, j])
            self.cost[at, j] = (self.assignment[at, j, :] != before[at]) @ weights
        self.expected: FloatArray = (self.chance * self.cost).sum(axis=1)

    @cached_property
    def value(self) -> float:
        """Expected discounted state moved from state 0 on, to `PRECISION` of all the state.

        Decisions that lead to no row of the table count as the end of all movement.
        """
        gamma, expected = self.problem.discount, self.expected
        known = (self.chance > 0) & (self.target < expected.size)
        rows, _ = np.nonzero(known)
        import scipy.sparse as sp
        from scipy.sparse.linalg import splu

        step = sp.csr_array((self.chance[known], (rows, self.target[known])), shape=(expected.size, expected.size))
        value = expected
        if value.size <= FEW_STATES:  # a chain that goes round and round converges slowly
            value = splu(sp.eye_array(value.size, format="csc") - gamma * step.tocsc()).solve(expected)
        for _ in range(100_000):
            after = expected + gamma * (step @ value)
            low, high = macqueen.interval([after - value], gamma)
            value = after if self.broken else after + (low + high) / 2  # MacQueen's shift needs rows that sum to 1
            reachable = 1e-15 * float(np.abs(value).max())  # what rounding leaves of the difference
            if high - low <= max(PRECISION * self.problem.scale, reachable / (1 - gamma)):
                break
        return float(value[0])

    @property
    def metrics(self) -> dict[str, float]:
        """The figures of the policy by their public names."""
        return {
            "state_moved": float(self.expected[0]),  # in the first step
            "states": float(self.assignment.shape[0]),
            "expected_discounted_state_moved": self.value,
        }

    def violations(self) -> list[Violation]:
        """The rules that single decisions break, and whether the table is closed."""
        return [*self.broken, *self._bad_decisions()]

    def _bad_decisions(self) -> list[Violation]:
        problem, broken = self.problem, []
        asked = self.chance > 0
        tasks = self.assignment.shape[2]
        places = np.arange(1, tasks + 1)
        for j, n in enumerate(problem.counts):
            at = np.flatnonzero(asked[:, j])
            labels = self.assignment[at, j, :]
            begins = np.ones((at.size, tasks), dtype=bool)
            begins[:, 1:] = self.changes[at, j]
            ends = np.ones((at.size, tasks), dtype=bool)
            ends[:, :-1] = begins[:, 1:]
            begun = np.maximum.accumulate(np.where(begins, places - 1, 0), axis=1)
            heavy = (ends & (begun < problem.starts(n)[1:])).any(axis=1)
            ordered = np.sort(labels, axis=1)
            distinct = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
            available = np.array([max(self.classes[r], n) if r else self._numbers_now(n) for r in at.tolist()])
            wrong = {
                "asked": (labels < 0).any(axis=1),
                "intervals": distinct != begins.sum(axis=1),
                "load": heavy,
                "nodes_after": distinct > n,
                "node_numbers": labels.max(axis=1, initial=-1) >= available,
                "draining": self._onto_draining(at, labels),
            }
            said = {
                "asked": "has no node for some task",
                "intervals": "gives a node two intervals",
                "load": "overloads a node",
                "nodes_after": "uses too many nodes",
                "node_numbers": "uses a node number that does not exist",
                "draining": "uses a draining node",
            }
            broken += [
                Violation(rule, f"state {at[i]}: the decision for {n} nodes {said[rule]}", int(at[i]))
                for rule, bad in wrong.items()
                for i in np.flatnonzero(bad)
            ]
        return broken

    def _numbers_now(self, nodes_after: int) -> int:
        return self.problem.workload.nodes + max(0, nodes_after - self.problem.nodes_now)

    def _onto_draining(self, at: np.ndarray, labels: np.ndarray) -> np.ndarray:
        bad = np.zeros(at.size, dtype=bool)
        if at.size and at[0] == 0:
            nodes = labels[0][(labels[0] >= 0) & (labels[0] < self.problem.workload.nodes)]
            bad[0] = bool(self.problem.workload.draining[nodes].any())
        return bad
