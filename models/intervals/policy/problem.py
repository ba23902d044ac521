"""Migration under a transition matrix of node counts ([Ding2015], section 5.2): the problem and its check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.models import guards
from keyshift.models.errors import InputError
from keyshift.models.intervals.exact_arithmetic import exact_number
from keyshift.models.intervals.partition import InIntervals, require_intervals
from keyshift.models.intervals.policy.table import NOT_ASKED, PolicyTable
from keyshift.models.intervals.policy.transitions import Transitions, read_transitions
from keyshift.models.intervals.records import Table, record_of_policy, table_of_policy
from keyshift.models.intervals.step.problem import IntervalMigration
from keyshift.models.problem import CheckReport, Violation
from keyshift.models.records import Record
from keyshift.models.workload import IntArray, Workload


@dataclass(frozen=True, eq=False)
class MigrationPolicy(InIntervals):
    r"""Decide every migration of an operator whose node count follows a Markov chain, and move little state.

    States: (n, P), n nodes and a partition P of the tasks into at most n intervals, each within the load limit (3) of
    `IntervalMigration` for n nodes. The next count n' is revealed, with probability :math:`M_{n n'}`, THEN the next
    partition P' is chosen; :math:`c(P, P')` is the least state that must move between them. The optimal values solve

    .. math::

        (1) \quad V(n, P) = \sum_{n'} M_{n n'} \; \min_{P' \text{ of class } n'} \; c(P, P') + \gamma \, V(n', P')

    and the linear program: maximise :math:`\sum V(n, P)` subject to

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
        With the field, the position and the value that are wrong.

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

    workload: Workload
    transitions: Transitions
    tau: float | Fraction
    discount: float
    nodes_after: int | None = None

    def __post_init__(self) -> None:
        self._require_workload()
        require_intervals(self.workload)
        self._put("transitions", read_transitions(self.transitions))
        self._put("tau", exact_number("tau", self.tau))
        self._put("discount", guards.real("discount", self.discount, optional=False))
        if self.discount >= 1:
            raise InputError(f"discount = {self.discount} must be below 1: undiscounted costs have no end")
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
        """The rows of the counts that can come, ascending; the others restrict nothing, feasible or not."""
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
        """The decision depends on the node count that comes; by default the likeliest."""
        likely = self.first_row
        return self.workload, self.decision(assignment, nodes_after or max(likely, key=lambda n: (likely[n], -n)))

    def starts(self, nodes: int) -> IntArray:
        """Leftmost start of an interval within the limit for this many nodes, for every end, shape (m + 1,)."""
        return self.prefix.starts(self.prefix.limit(Fraction(self.tau), nodes))

    def first_step(self, nodes_after: int) -> IntervalMigration:
        """The single step from now to a node count."""
        return IntervalMigration(self.workload, nodes_after, self.tau)

    def decision(self, assignment: np.ndarray, nodes_after: int) -> IntArray:
        """The node of each task after the first step, if this is the next node count."""
        if nodes_after not in self.first_row:
            raise InputError(f"nodes_after = {nodes_after} has no probability now")
        return np.asarray(assignment[0, self.counts.index(nodes_after)])

    # What every problem answers ---------------------------------------------------------------------------------

    def canonical(self, assignment: Any) -> np.ndarray:
        try:
            given = np.array(assignment)
        except ValueError:
            raise InputError("assignment must be an array of node numbers") from None
        expected = f"(states, {len(self.counts)}, {self.workload.key_groups})"
        if given.ndim != 3 or given.shape[0] < 1 or given.shape[1:] != (len(self.counts), self.workload.key_groups):
            raise InputError(
                f"assignment has shape {given.shape}, expected {expected}: one row for each state and count"
            )
        if not np.issubdtype(given.dtype, np.integer):
            if not np.issubdtype(given.dtype, np.floating) or (given != np.floor(given)).any():
                raise InputError("assignment must be an array of node numbers")
            given = given.astype(np.int64)
        most = self.workload.nodes + max(self.counts)
        wrong = (given < NOT_ASKED) | (given >= most)
        if wrong.any():
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
        return record_of_policy(self)

    def recorded(self, assignment: np.ndarray) -> Table:
        """The decisions of each state that the policy meets."""
        return table_of_policy(self, assignment)

    def conflicts(self) -> list[str]:
        """For each node count that can come and cannot carry the tasks: what blocks, and the smallest feasible tau."""
        found = []
        for n in self.reachable:
            blocked = self.prefix.conflict(Fraction(self.tau), n)
            if blocked is not None:
                found.append(f"{n} nodes: {blocked}")
        return found
