"""Migration under a transition matrix of node counts ([Ding2015], section 5.2): the problem and its check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.models.base import guards
from keyshift.models.base.lazily import sp
from keyshift.models.errors import InputError, refusing
from keyshift.models.intervals.partition import InIntervals, Table, cuts_of, exact_number, record_of
from keyshift.models.intervals.policy.transitions import Transitions, macqueen_interval, read_transitions
from keyshift.models.intervals.step import IntervalMigration, step_from_now
from keyshift.models.problem import CheckReport, Violation
from keyshift.models.records import Record, text
from keyshift.models.workload import FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class MigrationPolicy(InIntervals):
    r"""Decide every migration of an operator whose node count follows a Markov chain, so that little state moves in expectation.

    States: (n, P), n nodes and a partition P of the tasks into at most n intervals, each within the load limit (3) of
    `IntervalMigration` for n nodes. The next count n' is revealed, with probability :math:`M_{n n'}`, THEN the next
    partition P' is chosen; :math:`c(P, P')` is the least state that must move between them. The optimal values solve

    .. math::

        (1) \quad V(n, P) = \sum_{n'} M_{n n'} \; \min_{P' \text{ of class } n'} \; c(P, P') + \gamma \, V(n', P')

    A linear program has the same values.

    Variables: the values :math:`V_s \ge 0` of the states s = (n, P), and :math:`Q_b \ge 0` of the branches b = (n, P, n').

    It maximises :math:`\sum V(n, P)` subject to

    .. math::

        (2) \quad & V(n, P) = \sum_{n'} M_{n n'} \, Q(n, P, n')     && \text{for every state} \\
        (3) \quad & Q(n, P, n') \le c(P, P') + \gamma \, V(n', P')  && \text{for every state, } n' \text{ and } P'

    The answer is a closed policy. An assignment has shape (states, counts, m): entry [r, j] gives each task's node
    when, in state r, the next count is ``counts[j]``; -1 throughout where that has no probability. State 0 is now, with
    the workload's own node numbers. The others are the partitions that the decisions lead to, numbered in the order in
    which a reader of the table meets them; their intervals lie on nodes 0, 1, 2, ... in order. `objective` is the
    expected discounted state moved from state 0 on, this step included.

    Parameters
    ----------
    workload : Workload
        m tasks on n equal nodes; in `current` each node runs consecutive tasks. Loads and states stay the same.
    transitions : mapping {n: {n': probability}}, or DataFrame
        The migration transition matrix, with or without a diagonal. Counts that cannot come from now on need no
        feasible partition.
    tau : float, int, str or Fraction
        A node may carry 1 + tau times the mean, >= 0. A float means the decimal it prints as.
    discount : float
        Gamma, 0 <= gamma < 1: what a unit of state moved one step later weighs. 0 is single-step migration.
    nodes_after : int, optional
        The next node count, where it is already revealed. By default it is drawn from the row of the present count.

    Raises
    ------
    InputError
        Names the field, the position and the value that are wrong.

    Notes
    -----
    Source: [Ding2015], section 5.2. Departures from the print: Figure 9 sums over P' with weight
    M[n, n'] where only the minimum makes sense (its weights do not even sum to 1, so it diverges); Definition 5.3
    averages clairvoyant optima, which is a strict lower bound on what a controller can reach that learns the counts
    one by one; Definition 5.4 does not discount the projected cost, so that gamma = 0 would not be single-step
    migration as section 6 says it is.
    """

    name: ClassVar[str] = "migration-policy"
    in_steps: ClassVar[bool] = True
    objective_name: ClassVar[str] = "expected discounted state moved"
    step: ClassVar[float] = 0.0  # expected and discounted state is no sum of whole numbers

    workload: Workload
    transitions: Transitions
    tau: float | Fraction
    discount: float
    nodes_after: int | None = None

    def __post_init__(self) -> None:
        self._require_intervals()
        self._put("transitions", read_transitions(self.transitions))
        self._put("tau", exact_number("tau", self.tau))
        self._put("discount", guards.real("discount", self.discount, optional=False))
        if self.discount >= 1:
            raise InputError(f"discount = {self.discount} must be below 1, since undiscounted costs are infinite")
        self._put("nodes_after", guards.whole("nodes_after", self.nodes_after, least=1))
        if self.nodes_after is not None and self.nodes_after not in self.transitions:
            raise InputError(f"nodes_after = {self.nodes_after} has no row in transitions")
        if self.nodes_after is None and self.nodes_now not in self.transitions:
            raise InputError(f"transitions has no row for the {self.nodes_now} nodes of now; give one, or nodes_after")

    # Data of the formulation ------------------------------------------------------------------------------------

    @property
    def nodes_now(self) -> int:
        """Nodes that are kept, empty ones included."""
        return int(self.workload.kept.sum())

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """All node counts of the matrix, ascending: the second axis of an assignment."""
        return tuple(self.transitions)

    @property
    def first_row(self) -> dict[int, float]:
        """Probabilities of the next node count."""
        return {self.nodes_after: 1.0} if self.nodes_after is not None else dict(self.transitions[self.nodes_now])

    @cached_property
    def reachable(self) -> Transitions:
        """The rows of the node counts that can occur, in ascending order; the others do not matter."""
        found, waiting = set(self.first_row), list(self.first_row)
        while waiting:
            new = set(self.transitions[waiting.pop()]) - found
            found |= new
            waiting += new
        return MappingProxyType({n: row for n, row in self.transitions.items() if n in found})

    @property
    def certain_counts(self) -> tuple[int, ...]:
        return tuple(self.reachable)

    @classmethod
    def _counted(cls, workload: Workload, tau: Fraction, counts: Sequence[int], options: Mapping[str, Any]) -> Self:
        return cls(workload, tau=tau, nodes_after=counts[0], **options)

    def reached(
        self, assignment: np.ndarray, step: int = 0, nodes_after: int | None = None
    ) -> tuple[Workload, IntArray]:
        """The decision for a next node count, by default the most likely one."""
        likely = self.first_row
        return self.workload, self.decision(assignment, nodes_after or max(likely, key=lambda n: (likely[n], -n)))

    def starts(self, nodes: int) -> IntArray:
        """Leftmost start of an interval within the limit for this many nodes, for every end, shape (m + 1,)."""
        return self.prefix.starts(self.prefix.limit(Fraction(self.tau), nodes))

    def first_step(self, nodes_after: int) -> IntervalMigration:
        """The single step from now to a node count."""
        return step_from_now(self, nodes_after)

    def decision(self, assignment: np.ndarray, nodes_after: int) -> IntArray:
        """The node of each task after the first step, if this is the next node count."""
        if nodes_after not in self.first_row:
            raise InputError(f"nodes_after = {nodes_after} has no probability now")
        return np.asarray(assignment[0, self.counts.index(nodes_after)])

    # What every problem answers ---------------------------------------------------------------------------------

    def canonical(self, assignment: Any) -> np.ndarray:
        with refusing("assignment must be an array of node numbers", ValueError):
            given = np.array(assignment)
        expected = f"(states, {len(self.counts)}, {self.workload.key_groups})"
        if given.ndim != 3 or given.shape[0] < 1 or given.shape[1:] != (len(self.counts), self.workload.key_groups):
            said = f"assignment has shape {given.shape}, expected {expected}: one row for each state and count"
            raise InputError(said)
        if not np.issubdtype(given.dtype, np.integer):
            if not np.issubdtype(given.dtype, np.floating) or (given != np.floor(given)).any():
                raise InputError("assignment must be an array of node numbers")
            given = given.astype(np.int64)
        most = self.workload.nodes + max(self.counts)
        if given.size and (given.min() < NOT_ASKED or given.max() >= most):
            wrong = (given < NOT_ASKED) | (given >= most)
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise InputError(f"assignment[{', '.join(map(str, where))}] = {given[where]} is not a node")
        return given

    def table(self, assignment: np.ndarray) -> PolicyTable:
        """The Markov chain that a canonical assignment makes."""
        return PolicyTable(self, assignment)

    def objective(self, assignment: np.ndarray) -> float:
        return self.table(assignment).value

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        return self.table(assignment).metrics

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return self.table(assignment).violations()

    def check(self, assignment: Any) -> CheckReport:
        table = self.table(self.canonical(assignment))  # once for all that is asked of it
        broken = tuple(table.violations())
        return CheckReport(not broken, broken, table.value, table.metrics)

    def record(self) -> Record:
        """A mode for each number of nodes that may come."""
        rows, first = _exact_rows(self.transitions), _first_row(self)
        mode: dict[int, int] = {}
        waiting = list(first)
        while waiting:
            if (n := waiting.pop(0)) not in mode:
                mode[n] = 1 + len(mode)
                waiting += rows[n]
        stated = [(self.nodes_now, first), *((n, rows[n]) for n in mode)]
        modes = [[n, [[mode[after], text(p)] for after, p in row.items()]] for n, row in stated]
        return record_of(self, modes, text(Fraction(repr(self.discount))))

    def recorded(self, assignment: np.ndarray) -> Table:
        """The decisions of each state that can be reached, for the numbers of nodes that may follow."""
        rows = _exact_rows(self.transitions)
        made, states, seen = [], [list(_first_row(self))], set()
        for decisions, followed in zip(assignment, states, strict=False):
            chosen = [decisions[self.counts.index(n)] for n in followed]
            made.append([decided.tolist() for decided in chosen])
            for n, decided in zip(followed, chosen, strict=True):
                state = n, tuple(cuts_of(decided).tolist())
                if state not in seen:
                    seen.add(state)
                    states.append(list(rows[n]))
        return made


# As certificates state it -------------------------------------------------------------------------------------------


def _first_row(problem: MigrationPolicy) -> dict[int, Fraction]:
    if problem.nodes_after is not None:
        return {problem.nodes_after: Fraction(1)}
    return _exact_rows(problem.transitions)[problem.nodes_now]


def _exact_rows(transitions: Mapping[int, Mapping[int, float]]) -> dict[int, dict[int, Fraction]]:
    """The transition matrix in fractions, each row rescaled so that it sums to 1: floats need not."""
    made = {}
    for n, row in transitions.items():
        chances = {after: Fraction(repr(float(p))) for after, p in row.items()}
        total = sum(chances.values())
        made[n] = {after: p / total for after, p in chances.items()}
    return made


# A policy read from an assignment, as a Markov chain: the check of `MigrationPolicy` -----------------------------------

NOT_ASKED = -1
"""An assignment has this entry where a node count never comes in a state."""


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
                self.broken.append(Violation("closed", f"state {r} is not reached by any row before its own", r))
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
        """Expected discounted state moved from state 0 on, to 1e-13 of all the state.

        Decisions that lead to no row of the table count as the end of all movement.
        """
        gamma, expected = self.problem.discount, self.expected
        known = (self.chance > 0) & (self.target < expected.size)
        rows, _ = np.nonzero(known)
        from scipy.sparse.linalg import splu

        step = sp.csr_array((self.chance[known], (rows, self.target[known])), shape=(expected.size, expected.size))
        value = expected
        if value.size <= 1_000:  # a chain that goes round and round converges slowly
            value = splu(sp.eye_array(value.size, format="csc") - gamma * step.tocsc()).solve(expected)
        for _ in range(100_000):
            after = expected + gamma * (step @ value)
            low, high = macqueen_interval([after - value], gamma)
            value = after if self.broken else after + (low + high) / 2  # MacQueen's shift needs rows that sum to 1
            reachable = 1e-15 * float(np.abs(value).max())  # what rounding leaves of the difference
            if high - low <= max(1e-13 * self.problem.scale, reachable / (1 - gamma)):
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
        for j, n in enumerate(problem.counts):
            at = np.flatnonzero(asked[:, j])
            if at.size == 0:
                continue
            begins = np.ones((at.size, tasks), dtype=bool)
            begins[:, 1:] = self.changes[at, j]
            row, begun = np.nonzero(begins)  # the intervals, by decision
            ended = (np.append(begun[1:], 0) - 1) % tasks
            node, first = self.assignment[at[row], j, begun], np.flatnonzero(begun == 0)
            heavy = np.logical_or.reduceat(begun < problem.starts(n)[1:][ended], first)
            span = int(np.ptp(node)) + 1
            distinct = np.bincount(np.unique(row * span + (node - node.min())) // span)
            lowest, highest = np.minimum.reduceat(node, first), np.maximum.reduceat(node, first)
            available = np.array([max(self.classes[r], n) if r else self._numbers_now(n) for r in at.tolist()])
            wrong = (
                ("asked", "has no node for some task", lowest < 0),
                ("intervals", "gives a node two intervals", distinct != np.bincount(row)),
                ("load", "overloads a node", heavy),
                ("nodes_after", "uses too many nodes", distinct > n),
                ("node_numbers", "uses a node number that does not exist", highest >= available),
                ("draining", "uses a draining node", self._onto_draining(at, node[row == 0])),
            )
            broken += [
                Violation(rule, f"state {at[i]}: the decision for {n} nodes {said}", int(at[i]))
                for rule, said, bad in wrong
                for i in np.flatnonzero(bad)
            ]
        return broken

    def _numbers_now(self, nodes_after: int) -> int:
        return self.problem.workload.nodes + max(0, nodes_after - self.problem.nodes_now)

    def _onto_draining(self, at: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Of the decisions only the first, from now, may use a node that drains; its nodes are given."""
        bad = np.zeros(at.size, dtype=bool)
        if at[0] == 0:
            known = nodes[(nodes >= 0) & (nodes < self.problem.workload.nodes)]
            bad[0] = bool(self.problem.workload.draining[known].any())
        return bad
