"""Optimal single-step interval migration ([Ding2015], section 4): the problem and its check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.models.base import guards
from keyshift.models.intervals.exact_arithmetic import exact_number
from keyshift.models.intervals.partition import InIntervals, KnownCounts, broken_rules, cuts_of, interval_metrics
from keyshift.models.problem import Limit, Violation, read_assignment
from keyshift.models.workload import FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class IntervalMigration(KnownCounts):
    r"""Cut the tasks into intervals for another number of nodes, and move as little state as possible.

    Sets and data: tasks (key groups) k = 0..m-1 in order, of load :math:`w_k` (last window) and state :math:`s_k`;
    :math:`q_k` the node that runs k now, each node one interval; :math:`n'` the number of nodes after the migration;
    nodes i: the current ones, some of which may drain, and new ones, which get the next numbers.

    Variables: :math:`x_{ki} \in \{0, 1\}`, whether k runs on i afterwards; :math:`b_{ki} \in \{0, 1\}`, whether the
    interval of i begins at k; :math:`v_k \in \{0, 1\}`, whether k moves.

    .. math::

        \min \; \sum_k s_k v_k \quad \text{subject to}

        (1) \quad & \sum_i x_{ki} = 1                              && \text{for every } k \\
        (2a) \quad & x_{ki} - x_{k-1,i} \le b_{ki} \le \tfrac{1}{2} (x_{ki} + 1 - x_{k-1,i})
                                                                   && \text{for every } i, k, \; x_{-1,i} = 0 \\
        (2b) \quad & \sum_k b_{ki} \le 1                           && \text{for every } i \\
        (3) \quad & x_{li} + x_{ki} \le 1                          && \text{for every } i, k, \; l = l(k) \\
        (4) \quad & \sum_{k,i} b_{ki} \le n'                       && \text{at most } n' \text{ nodes carry tasks} \\
        (5) \quad & x_{ki} = 0                                     && \text{for every draining } i \\
        (6) \quad & v_k = 1 - x_{k q_k}                             && \text{for every } k

    (3) says that no node carries more than :math:`(1 + \tau) W / n'`, :math:`W = \sum_k w_k`. A node's tasks are
    consecutive, so no node may hold both k and the last task l(k) before it from which the tasks up to k are too heavy;
    where there is none, there is no row. Solvers need (2a) and (6) from below alone.

    `objective` is the state moved, in units of state. An interval may be empty.

    Parameters
    ----------
    workload : Workload
        m tasks on n equal nodes; in `current` each node runs consecutive tasks.
    nodes_after : int
        Number of nodes afterwards, n' >= 1.
    tau : float, int, str or Fraction
        A node may carry 1 + tau times the mean, >= 0. A float means the decimal it prints as.

    Raises
    ------
    InputError
        Names the field and the value that are wrong; also raised when `current` is not in intervals.

    Notes
    -----
    Source: Ding, Fu, Ma, Winslett, Yang, Zhang, Chao, *Efficient Operator State Migration for Cloud-Based Data Stream
    Management Systems*, 2015, Definition 4.1. The load test is exact: a float64 load is the fraction it stands for.
    Departures from the print: its experiments call 1 + tau "tau" (1.2 there is 0.2 here); draining nodes are ours.
    """

    name: ClassVar[str] = "interval-migration"
    note_on_plans: ClassVar[str] = (
        "Flink cannot place ranges freely: its parallelism alone decides which ranges there are; `keyshift import flink "
        "--advise` says what each costs."
    )

    workload: Workload
    nodes_after: int
    tau: float | Fraction

    def __post_init__(self) -> None:
        self._require_intervals()
        nodes_after = guards.whole("nodes_after", self.nodes_after, least=1, optional=False)
        self._put("nodes_after", nodes_after)
        self._put("tau", exact_number("tau", self.tau))

    # Data of the formulation ------------------------------------------------------------------------------------

    @cached_property
    def limit(self) -> int:
        """The limit of (3), rounded down to a whole load, in the units of `prefix`."""
        return self.prefix.limit(Fraction(self.tau), self.nodes_after)

    @cached_property
    def starts(self) -> IntArray:
        """Leftmost start of an interval within the limit, for every end 0..m, shape (m + 1,)."""
        return self.prefix.starts(self.limit)

    @property
    def certain_counts(self) -> tuple[int, ...]:
        return (self.nodes_after,)

    @classmethod
    def _counted(cls, workload: Workload, tau: Fraction, counts: Sequence[int], options: Mapping[str, Any]) -> Self:
        return cls(workload, counts[0], tau, **options)

    @property
    def limits(self) -> list[Limit]:
        return [*super().limits, Limit.of(self, "nodes_after", whole=True, ordered=False)]

    @property
    def node_numbers(self) -> int:
        """How many node numbers there are: the current nodes, and new ones if the kept nodes are too few."""
        return self.workload.nodes + max(0, self.nodes_after - int(self.workload.kept.sum()))

    @cached_property
    def old_cuts(self) -> IntArray:
        """Where the current intervals begin and end; nodes without tasks are left out."""
        return cuts_of(self.workload.current)

    @property
    def old_nodes(self) -> IntArray:
        """The node of each of these intervals."""
        return self.workload.current[self.old_cuts[:-1]]

    @property
    def keepable_state(self) -> FloatArray:
        """State that need not move, shape (m,): the state of the tasks on nodes that do not drain."""
        w = self.workload
        return w.state if w.kept.all() else np.where(w.draining[w.current], 0.0, w.state)

    def first_step(self, nodes_after: int) -> IntervalMigration:
        """The single step to another number of nodes, which sequences and policies have, too."""
        return step_from_now(self, nodes_after)

    # What every problem answers ---------------------------------------------------------------------------------

    def canonical(self, assignment: Any) -> np.ndarray:
        return read_assignment(assignment, self.workload.key_groups, self.node_numbers, self.workload.keys)

    def objective(self, assignment: np.ndarray) -> float:
        return float(self.workload.state[assignment != self.workload.current].sum())

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        return interval_metrics(self.workload, self.workload.current, assignment, self.nodes_after)

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return broken_rules(self.workload, self.prefix, self.limit, self.nodes_after, assignment)

    def _when(self, nodes: int) -> str:
        return ""


def step_from_now(problem: InIntervals, nodes_after: int) -> IntervalMigration:
    """The single step of another problem to a number of nodes; exact sums take long to make, and are shared."""
    made = IntervalMigration(problem.workload, nodes_after, problem.tau)
    made.__dict__["prefix"] = problem.prefix
    return made
