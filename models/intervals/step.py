"""Interval migration, one step and a known sequence ([Ding2015], sections 4 and 5.1): the problems and their checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.base import guards
from keyshift.models.base.labels import in_time, ordered
from keyshift.models.errors import InputError, naming
from keyshift.models.intervals.partition import (
    InIntervals,
    KnownCounts,
    broken_rules,
    cuts_of,
    exact_number,
    interval_metrics,
    read_count,
    spread,
)
from keyshift.models.problem import Limit, Violation, read_assignment
from keyshift.models.workload import FloatArray, IntArray, Workload, grown


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
    def places(self) -> int:
        """How many node numbers there are: the current nodes, and new ones if the kept nodes are too few."""
        return self.workload.nodes + max(0, self.nodes_after - int(self.workload.kept.sum()))

    node_numbers = places  # its name in releases

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
        """The single step to another number of nodes, which sequences and policies need as well."""
        return step_from_now(self, nodes_after)

    # What every problem answers ---------------------------------------------------------------------------------

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


# A known sequence of interval migrations ([Ding2015], section 5.1): the problem and its check -------------------------


@dataclass(frozen=True, eq=False)
class MigrationSequence(KnownCounts):
    r"""Migrate through a known sequence of node counts, and move as little state as possible in total.

    With :math:`x^0` the assignment of now, the variables of `IntervalMigration` for every step t = 1..p, and its rules
    (1)-(5) with :math:`n_t` for :math:`n'`:

    .. math::

        \min \; \sum_{t=1}^{p} \sum_k s_k \, v^t_k \quad \text{subject to (1)-(5) for every } t \text{ and}

        (6) \quad x^{t-1}_{ki} - x^t_{ki} \le v^t_k \le 2 - x^{t-1}_{ki} - x^t_{ki} \qquad \text{for every } i, k, t > 1

    where :math:`v^1` is the v of `IntervalMigration`.

    `objective` is the state moved over the whole sequence. An assignment has shape (p, m): the node of each task after
    each step. Nodes keep their numbers, new ones take the next.

    Parameters
    ----------
    workload : Workload
        m tasks on n equal nodes; in `current` each node runs consecutive tasks. Loads and states stay the same.
    node_counts : sequence of int, or str
        Number of nodes after each step, each >= 1; the shell writes ``3,4``.
    tau : float, int, str or Fraction
        A node may carry 1 + tau times the mean, >= 0. A float means the decimal it prints as.

    Raises
    ------
    InputError
        Names the field, the position and the value that are wrong.

    Notes
    -----
    Source: [Ding2015], section 5.1 (OMS). Only partitions matter to later steps, not which node has which
    interval (Lemma 5.1), and staying put is optimal where the count does not change, because the state moved
    between partitions is a metric. The "alternative" of Table 3 (total 9 in print) costs 10 in
    intervals, and is not optimal: the optimum is 6.
    """

    name: ClassVar[str] = "migration-sequence"
    in_steps: ClassVar[bool] = True

    workload: Workload
    node_counts: Sequence[int] | ArrayLike | str
    tau: float | Fraction

    def __post_init__(self) -> None:
        self._require_intervals()
        stated: Any = in_time("node_counts", self.node_counts)
        stated = stated.split(",") if isinstance(stated, str) else stated
        if np.ndim(stated) != 1 or not len(stated):
            raise InputError(f"node_counts = {self.node_counts!r} must be a sequence of at least one number of nodes")
        self._put("node_counts", tuple(read_count(f"node_counts[{t}]", n) for t, n in enumerate(stated)))
        self._put("tau", exact_number("tau", self.tau))

    # Data of the formulation ------------------------------------------------------------------------------------

    @property
    def counts(self) -> tuple[int, ...]:
        """`node_counts` as validated."""
        return self.node_counts  # type: ignore[return-value]

    @property
    def certain_counts(self) -> tuple[int, ...]:
        return self.counts

    @classmethod
    def _counted(cls, workload: Workload, tau: Fraction, counts: Sequence[int], options: Mapping[str, Any]) -> Self:
        return cls(workload, tuple(counts), tau, **options)

    def reached(
        self, assignment: np.ndarray, step: int = 0, nodes_after: int | None = None
    ) -> tuple[Workload, IntArray]:
        """One row for each step."""
        if not 0 <= step < len(assignment):
            raise InputError(f"step = {step}: the sequence has the steps 0 to {len(assignment) - 1}")
        if step == 0:
            return self.workload, assignment[0]
        before = grown(self.workload, int(assignment[:step].max()) + 1)
        return before.replace(current=assignment[step - 1]), assignment[step]

    def limit(self, nodes: int) -> int:
        """The load that a node may carry if there are this many nodes, in the units of `prefix`."""
        return self.prefix.limit(Fraction(self.tau), nodes)

    def starts(self, nodes: int) -> IntArray:
        """Leftmost start of an interval within the limit for this many nodes, for every end, shape (m + 1,)."""
        return self.prefix.starts(self.limit(nodes))

    @property
    def places(self) -> int:
        """How many node numbers there are: the current nodes, and one for each node that is ever added."""
        before = (int(self.workload.kept.sum()), *self.counts[:-1])
        return self.workload.nodes + sum(max(0, n - b) for b, n in zip(before, self.counts, strict=True))

    node_numbers = places  # its name in releases

    def first_step(self, nodes_after: int | None = None) -> IntervalMigration:
        """The single step from now to the first node count, or to another."""
        return step_from_now(self, nodes_after or self.counts[0])

    # What every problem answers ---------------------------------------------------------------------------------

    def canonical(self, assignment: Any) -> np.ndarray:
        rows = np.asarray(ordered("assignment", assignment, self.workload.keys, self.workload.key_groups))
        expected = (len(self.counts), self.workload.key_groups)
        if rows.shape != expected:
            raise InputError(f"assignment has shape {rows.shape}, expected {expected}: one row for each step")
        read = []
        for t, row in enumerate(rows):
            with naming(f"step {t}"):
                read.append(read_assignment(row, self.workload.key_groups, self.places, self.workload.keys))
        return np.stack(read)

    def steps(self, assignment: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Assignment before and after each step."""
        rows = [self.workload.current, *assignment]
        return list(pairwise(rows))

    def objective(self, assignment: np.ndarray) -> float:
        return float(sum(self.workload.state[before != after].sum() for before, after in self.steps(assignment)))

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        each = [
            interval_metrics(self.workload, before, after, n)
            for (before, after), n in zip(self.steps(assignment), self.counts, strict=True)
        ]
        return {
            "state_moved": self.objective(assignment),
            "migrations": sum(step["migrations"] for step in each),
            "largest_step": max(step["state_moved"] for step in each),
            "max_load_over_mean": max(step["max_load_over_mean"] for step in each),
        }

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return [
            broken
            for t, (row, n) in enumerate(zip(assignment, self.counts, strict=True))
            for broken in broken_rules(self.workload, self.prefix, self.limit(n), n, row, f"step {t}: ")
        ]

    def _when(self, nodes: int) -> str:
        return f"step {self.counts.index(nodes)} ({nodes} nodes): "


# What the statements of intervals share: the steps, the nodes that are open, and the way from cuts back to an assignmen


def steps_of(problem: IntervalMigration | MigrationSequence) -> list[tuple[int, int]]:
    """For each step: the number of nodes, and the whole load that each may carry."""
    return [(n, problem.prefix.limit(Fraction(problem.tau), n)) for n in problem.certain_counts]


def open_nodes(problem: IntervalMigration | MigrationSequence) -> list[int]:
    """(5) The node numbers that may carry tasks: all but the draining ones."""
    w = problem.workload
    return [i for i in range(problem.places) if i >= w.nodes or not w.draining[i]]


def partners(before: IntArray, cuts: IntArray, state: FloatArray) -> IntArray:
    """For each interval the old node that it stays on, so that most state stays in all; -1 for none.

    Parameters
    ----------
    before : ndarray, shape (m,)
        The node of each task, each node one interval.
    cuts : ndarray
        The new intervals' ends, from 0 to m.
    state : ndarray, shape (m,)
        What a task is worth that stays; 0 where it has to leave.
    """
    old = cuts_of(before)
    new, stays, overlap = heaviest_matching(cuts, old, state)
    found = np.full(cuts.size - 1, -1, dtype=np.int64)
    found[new[overlap > 0]] = before[old[stays[overlap > 0]]]
    return found


def heaviest_matching(one: ArrayLike, other: ArrayLike, state: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Intervals of two partitions matched for the most state in common, by the Hungarian method; and how much each pair has."""
    from scipy.optimize import linear_sum_assignment

    one, other = np.asarray(one), np.asarray(other)
    sums = np.concatenate(([0.0], np.cumsum(state)))
    left = np.maximum.outer(one[:-1], other[:-1])
    overlap = sums[np.maximum(np.minimum.outer(one[1:], other[1:]), left)] - sums[left]
    first, second = linear_sum_assignment(overlap, maximize=True)
    return first, second, overlap[first, second]


def labelled(before: IntArray, cuts: IntArray, state: FloatArray, open_nodes: Iterable[int]) -> IntArray:
    """The assignment to a partition that keeps most state in place; intervals that keep nothing take the lowest free nodes."""
    nodes = partners(before, cuts, state)
    taken = set(nodes.tolist())
    free = [i for i in open_nodes if i not in taken]
    lost = np.flatnonzero(nodes < 0)
    nodes[lost] = free[: lost.size]
    return spread(cuts, nodes)
