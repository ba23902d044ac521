"""A known sequence of interval migrations ([Ding2015], section 5.1): the problem and its check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.base.labels import in_time, ordered
from keyshift.models.errors import InputError
from keyshift.models.intervals.exact_arithmetic import exact_number, read_count
from keyshift.models.intervals.partition import KnownCounts, broken_rules, cuts_of, interval_metrics, spread
from keyshift.models.intervals.step import IntervalMigration, step_from_now
from keyshift.models.problem import Violation, read_assignment
from keyshift.models.workload import FloatArray, IntArray, Workload, grown


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
    def node_numbers(self) -> int:
        """How many node numbers there are: the current nodes, and one for each node that is ever added."""
        before = (int(self.workload.kept.sum()), *self.counts[:-1])
        return self.workload.nodes + sum(max(0, n - b) for b, n in zip(before, self.counts, strict=True))

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
            try:
                read.append(read_assignment(row, self.workload.key_groups, self.node_numbers, self.workload.keys))
            except InputError as error:
                raise InputError(f"step {t}: {error}") from None
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
    return [i for i in range(problem.node_numbers) if i >= w.nodes or not w.draining[i]]


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
