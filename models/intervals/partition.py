"""Intervals of tasks: their loads in exact arithmetic, and the rules that every assignment to intervals keeps.

Positions 0..m lie between the m tasks; an interval of tasks is [a, b) with 0 <= a <= b <= m.

A partition is written as its cuts: positions 0 = c[0] < c[1] < ... < c[-1] = m. Empty intervals leave no trace.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.models import records
from keyshift.models.base.figures import apart
from keyshift.models.base.guards import fraction, whole
from keyshift.models.base.integers import whole_numbers
from keyshift.models.base.names import Names
from keyshift.models.errors import InputError, refusing
from keyshift.models.problem import Limit, MovesState, Violation, below_step
from keyshift.models.workload import FloatArray, IntArray, Workload


def exact_number(name: str, value: Any) -> Fraction:
    """Read a finite number >= 0 exactly: a float means the decimal it prints as, so 0.3 is 3/10.

    The float nearest to 0.3 lies below it, and a node that is filled exactly to 1.3 times the mean would fail by it.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction | np.number):
        raise InputError(f"{name} = {value!r} must be a number")
    if isinstance(value, str):
        value = fraction(name, value)
    with refusing(f"{name} = {value!r} must be a finite number", ValueError):
        number = Fraction(value) if isinstance(value, int | Fraction) else Fraction(repr(float(value)))
    if number < 0:
        raise InputError(f"{name} = {value} must be at least 0")
    return number


def read_count(name: str, value: Any) -> int:
    """Read a number of nodes, >= 1, also as the text that JSON, headers of CSV and the shell make of it."""
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, str) and number.strip().isdecimal() and len(number) < 20:
        number = int(number)
    return whole(name, number, least=1, optional=False)


class Prefix:
    """Prefix sums of the tasks' loads, exactly, and the answers about them that a load limit needs.

    Parameters
    ----------
    load : ndarray, shape (m,)
        Loads >= 0. Whole units are ``load * 2**shift``.
    """

    def __init__(self, load: FloatArray) -> None:
        numbers, self.shift = whole_numbers(load)
        self.tasks = load.size
        self._starts: dict[int, IntArray] = {}
        self.heaviest = int(max(numbers))
        self.sums: IntArray | list[int]
        if isinstance(numbers, list):
            self.sums = list(accumulate(numbers, initial=0))
        else:
            self.sums = np.concatenate(([0], np.cumsum(numbers)))

    @property
    def total(self) -> int:
        """Load of all tasks, in whole units."""
        return int(self.sums[-1])

    @cached_property
    def _search(self) -> Sequence[int]:
        return self.sums if isinstance(self.sums, list) else self.sums.tolist()

    def limit(self, tau: Fraction, nodes: int) -> int:
        """The largest whole load that does not exceed (1 + tau) * total / nodes."""
        return math.floor((1 + tau) * self.total / nodes)

    def in_units(self, whole: int) -> float:
        """Whole units back in the load's own."""
        return float(Fraction(whole, 2**self.shift))

    def starts(self, limit: int) -> IntArray:
        """For every position x the leftmost start of an interval [start, x) within the limit, shape (m + 1,).

        It is x itself where already task x - 1 alone exceeds the limit.
        """
        if limit not in self._starts:
            self._starts[limit] = self._leftmost(limit)
        return self._starts[limit]

    def _leftmost(self, limit: int) -> IntArray:
        if not isinstance(self.sums, list):
            return np.searchsorted(self.sums, self.sums - min(limit, self.total), side="left").astype(np.int64)
        made, start, sums = np.empty(self.tasks + 1, dtype=np.int64), 0, self.sums
        for x, s in enumerate(sums):
            while sums[start] < s - limit:
                start += 1
            made[x] = start
        return made

    def reach(self, position: int, limit: int) -> int:
        """The rightmost end of an interval [position, end) within the limit; position itself if there is none."""
        return bisect_right(self._search, self._search[position] + limit) - 1

    def least_intervals(self, limit: int, most: int) -> tuple[int, int]:
        """Cut greedily from the left, at most this many times: (intervals used, position reached)."""
        position = used = 0
        while position < self.tasks and used < most:
            further = self.reach(position, limit)
            if further == position:
                break
            position, used = further, used + 1
        return used, position

    def least_limit(self, intervals: int) -> int:
        """The smallest limit under which this many intervals cover all tasks (bisection over whole numbers)."""
        low, high = max(self.heaviest, -(-self.total // intervals)), self.total
        while low < high:
            middle = (low + high) // 2
            if self.least_intervals(middle, intervals)[1] == self.tasks:
                high = middle
            else:
                low = middle + 1
        return low

    def smallest_tau(self, nodes: int) -> Fraction:
        """The smallest tau >= 0 for which this many nodes can carry all tasks in intervals."""
        if self.total == 0:
            return Fraction(0)
        return max(Fraction(0), Fraction(self.least_limit(nodes) * nodes, self.total) - 1)

    def conflict(self, tau: Fraction, nodes: int, names: Names) -> str | None:
        """Why this many nodes cannot carry all tasks: the task or the prefix that blocks; None when they can."""
        limit = self.limit(tau, nodes)
        _, position = self.least_intervals(limit, nodes)
        if position == self.tasks:
            return None
        allowed = f"a node may carry {float((1 + tau) * self.total / nodes / 2**self.shift):g}"
        if self.heaviest > limit:
            k = next(k for k in range(self.tasks) if self.sums[k + 1] - self.sums[k] > limit)
            blocked = f"task {names[k]} alone has load {self.in_units(int(self.sums[k + 1] - self.sums[k])):g}"
        else:
            s = "s" * (nodes != 1)
            carried = f"tasks {names[0]} to {names[position - 1]} of {self.tasks}"
            blocked = f"{nodes} node{s} filled in order carry {carried} and no more"
        needed = decimal_above(self.smallest_tau(nodes))
        return f"{allowed} at tau = {float(tau):g}, but {blocked}; the smallest feasible tau is {needed}"


def decimal_above(number: Fraction) -> str:
    """A short decimal that is not below the fraction, with the fraction where it is not the same."""
    above = Fraction(math.ceil(number * 10**6), 10**6)
    shown = f"{float(above):.6f}".rstrip("0").rstrip(".")
    exactly = f" (exactly {number})" if above != number and number.denominator < 10**6 else ""
    return f"{shown}{exactly}"


class InIntervals(MovesState):
    """Common parts of the problems about intervals: the load test, its limit tau, and how a replay poses them."""

    objective_name: ClassVar[str] = "state moved"
    aim: ClassVar[str] = "theta"
    chooses_nodes: ClassVar[bool] = True
    ruleless: ClassVar[str] = (
        "each node runs an interval of consecutive tasks, so where one task runs depends on its neighbours, and rules about "
        "single tasks, sets or racks have nothing to choose"
    )

    workload: Workload
    tau: float | Fraction

    def played(self) -> str:
        return (
            "Nodes hold intervals of consecutive key groups, so none is moved by itself here: the page shows the loads, the "
            "moves and the figures of each answer instead."
        )

    def _require_intervals(self) -> None:
        """Refuse a workload whose nodes are not equal, or whose current assignment is not in intervals."""
        self._require_workload()
        self._require_equal_nodes("interval migration needs equal nodes")
        if torn := torn_node(self.workload.current):
            node, task = torn
            said = f"current[{task}] = {node} begins a second interval of node {self.workload.node(node)}"
            raise InputError(f"{said}: each node must run consecutive tasks")

    @property
    @abstractmethod
    def certain_counts(self) -> Iterable[int]:
        """The numbers of nodes for which there must be a partition."""

    @classmethod
    @abstractmethod
    def _counted(cls, workload: Workload, tau: Fraction, counts: Sequence[int], options: Mapping[str, Any]) -> Self:
        """The problem when the next numbers of nodes are these."""

    @cached_property
    def prefix(self) -> Prefix:
        """Exact prefix sums of the loads."""
        return Prefix(self.workload.last_load)

    @property
    def smallest_tau(self) -> Fraction:
        """The smallest tau for which these numbers of nodes can carry the tasks; not monotone in the number of nodes."""
        return max(self.prefix.smallest_tau(n) for n in dict.fromkeys(self.certain_counts))

    def conflicts(self) -> list[str]:
        """For each number of nodes that cannot carry the tasks, however cut: the reason, and the smallest feasible tau."""
        found = (
            (n, self.prefix.conflict(Fraction(self.tau), n, self.workload.names_of_key_groups))
            for n in dict.fromkeys(self.certain_counts)
        )
        return [f"{self._when(n)}{blocked}" for n, blocked in found if blocked is not None]

    def _when(self, nodes: int) -> str:
        """How a conflict says when there are so many nodes."""
        return f"{nodes} nodes: "

    @property
    def limits(self) -> list[Limit]:
        """Tau: whether any partition fits is arithmetic on the loads alone."""
        tau = Fraction(self.tau)
        ends = max(tau, Fraction(max(self.certain_counts)))
        return [replace(Limit.of(self, "tau", ends=ends, step=0.01), value=tau, arithmetic=lambda: self.smallest_tau)]

    @classmethod
    def in_period(cls, workload: Workload, options: Mapping[str, Any], counts: Sequence[int] = ()) -> tuple[Self, str]:
        """As posed, for the numbers of nodes given; a tau too small for the period's loads is raised to the smallest feasible."""
        for name in {"nodes_after", "node_counts"} & set(options):
            said = f"{name} comes from the replay, period by period: give the counts as scaling=NodeCounts(...)"
            raise InputError(said)
        if "tau" not in options:
            raise InputError(f"{cls.name} needs tau")
        rest = {name: value for name, value in options.items() if name != "tau"}
        posed = cls._counted(workload, Fraction(exact_number("tau", options["tau"])), counts, rest)
        raised = posed.smallest_tau > posed.tau
        return (replace(posed, tau=posed.smallest_tau), "tau") if raised else (posed, "")  # type: ignore[type-var]


class KnownCounts(InIntervals):
    """One change of the number of nodes, or a known sequence of changes; their decisions, as certificates state them."""

    def tolerance_of(self, objective: float) -> float:
        """A millionth of the objective; methods count state in whole units that are fine enough for that."""
        return below_step(1e-6 * min(objective, self.scale), self.step)

    def record(self) -> records.Record:
        """One number of nodes after another."""
        numbers = [int(self.workload.kept.sum()), *self.certain_counts]
        last = len(numbers) - 1
        return record_of(self, [[n, [[t + 1, 1]] if t < last else []] for t, n in enumerate(numbers)])

    def recorded(self, assignment: np.ndarray) -> Table:
        """Each decision with the nodes before it numbered from left to right; after the last nothing is decided."""
        rows: Table = []
        known: dict[int, int] | None = None
        for decided in np.atleast_2d(assignment).tolist():
            if known is not None:
                for i in decided:
                    known.setdefault(i, len(known))
            rows.append([decided if known is None else [known[i] for i in decided]])
            known = {i: at for at, i in enumerate(dict.fromkeys(decided))}
        return [*rows, []]


def cuts_of(assignment: np.ndarray) -> IntArray:
    """Positions where the node changes, with 0 and m at the ends."""
    changes = np.flatnonzero(assignment[1:] != assignment[:-1]) + 1
    return np.concatenate(([0], changes, [assignment.size])).astype(np.int64)


def spread(cuts: IntArray, nodes: IntArray) -> IntArray:
    """The node of each task, from cuts and the node of each interval."""
    return np.repeat(nodes, np.diff(cuts))


def torn_node(assignment: np.ndarray) -> tuple[int, int] | None:
    """The first node with tasks in more than one interval, and the task where its second begins; None if none."""
    cuts = cuts_of(assignment)
    labels = assignment[cuts[:-1]]
    first_seen = np.unique(labels, return_index=True)[1]
    if first_seen.size == labels.size:
        return None
    repeated = np.ones(labels.size, dtype=bool)
    repeated[first_seen] = False
    at = int(np.argmax(repeated))
    return int(labels[at]), int(cuts[at])


def broken_rules(
    workload: Workload, prefix: Prefix, limit: int, nodes_after: int, assignment: np.ndarray, step: str = ""
) -> list[Violation]:
    """The rules (2)-(5) of `IntervalMigration` that one assignment breaks."""
    cuts = cuts_of(assignment)
    labels = assignment[cuts[:-1]]
    broken = []
    if torn := torn_node(assignment):  # (2)
        node, task = torn
        said = f"{step}node {workload.node(node)} begins a second interval at task {workload.key(task)}"
        broken.append(Violation("intervals", said, node))
    loads: dict[int, int] = {}
    for node, a, b in zip(labels.tolist(), cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        loads[node] = loads.get(node, 0) + int(prefix.sums[b]) - int(prefix.sums[a])
    for node, load in loads.items():  # (3)
        if load > limit:
            carried, most = apart(prefix.in_units(load), prefix.in_units(limit))
            said = f"{step}node {workload.node(node)} carries {carried}, the limit is {most}"
            broken.append(Violation("load", said, node, prefix.in_units(load - limit)))
    if len(loads) > nodes_after:  # (4)
        said = f"{step}{len(loads)} nodes carry tasks, the limit is {nodes_after}"
        broken.append(Violation("nodes_after", said, amount=len(loads) - nodes_after))
    drained = sorted(n for n in loads if n < workload.nodes and workload.draining[n])  # (5)
    said = "carries tasks, but it is draining"
    return broken + [Violation("draining", f"{step}node {workload.node(node)} {said}", node) for node in drained]


def interval_metrics(workload: Workload, before: np.ndarray, after: np.ndarray, nodes_after: int) -> dict[str, float]:
    """State moved, tasks moved, nodes in use and the largest relative load of one step."""
    moved = before != after
    loads = np.bincount(after, weights=workload.last_load)
    mean = float(workload.last_load.sum()) / nodes_after
    return {
        "state_moved": float(workload.state[moved].sum()),
        "migrations": float(moved.sum()),
        "nodes_used": float((np.bincount(after) > 0).sum()),
        "max_load": float(loads.max()),
        "max_load_over_mean": float(loads.max()) / mean if mean > 0 else 0.0,
    }


# As certificates state them: modes, and decisions on nodes numbered from left to right -----------------------------------

Table = list[list[list[int]]]


def record_of(problem: Any, modes: list[Any], discount: int | str = 1) -> records.Record:
    """Each mode has its number of nodes, and the modes that may follow with their chances; the first is now."""
    rows = [records.row(records.amounts(problem.workload.last_load))]
    placed = records.placed(problem.workload, rows)
    return {**placed, "tau": records.text(problem.tau), "modes": modes, "discount": discount}
