"""Where a plan leads, and the nodes' loads before it, after each of its phases and in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.figures import apart
from keyshift.models.files.problem import pose
from keyshift.models.problem import SLACK, Problem, Violation
from keyshift.models.rules.lowered import Lowered, labels_of
from keyshift.models.solution import Solution
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class Target:
    """A workload, the assignment to reach, shape (p,), and what is known of it."""

    workload: Workload
    target: IntArray
    method: str
    status: str
    objective: float | None
    bound: float | None
    measure: str
    may_leave: bool
    value: Callable[[IntArray], float]

    def gains(self, moving: IntArray) -> FloatArray:
        """Worth of every move in the unit of the measure, shape (e,): by how much it would rise if the move were undone.

        A gain may be negative: the move then serves another purpose, or none. Gains do not add up: two moves may be worth
        something only together.
        """
        w, measure = self.workload, _MEASURES.get(self.measure)
        if measure is not None:
            return measure(w, w.current, self.target, moving, self.may_leave)
        now, found = self.value(self.target), np.empty(moving.size)
        for position, k in enumerate(moving.tolist()):
            undone = self.target.copy()
            undone[k] = w.current[k]
            found[position] = self.value(undone) - now
        return found


def read_target(problem: Problem, solution: Any, step: int = 0, nodes_after: int | None = None) -> Target:
    """Check a solution or an assignment, and read the move to carry out from it.

    Raises
    ------
    InputError
        For a problem that moves no key groups, a solution without assignment, an assignment that breaks a rule.
    """
    workload = getattr(problem, "workload", None)
    if not isinstance(workload, Workload):
        raise InputError(f"{problem.name} places messages, not key groups with state: there is nothing to carry out")
    if isinstance(solution, Solution):
        if solution.assignment is None:
            raise InputError(f"the solution holds no assignment: {solution!r}")
        report = solution.problem.check(solution.assignment)
        assignment, found = solution.assignment, (solution.method, solution.status, solution.objective, solution.bound)
    else:
        assignment = problem.canonical(solution)
        report = problem.check(assignment)
        found = ("given", "feasible", report.objective, None)
    if not report.feasible:
        raise InputError(f"the assignment breaks a rule: {report.violations[0]}")
    workload, target = problem.reached(assignment, step, nodes_after)
    measure = problem.worth or problem.objective_name
    return Target(workload, target, *found, measure, problem.chooses_nodes, problem.objective)


@dataclass(frozen=True, eq=False)
class Way:
    """The nodes that a plan touches, new ones included, and how good a distribution of load over them is.

    Attributes
    ----------
    load : ndarray, shape (p,)
        Load of every key group, last window.
    capacity : ndarray, shape (n,)
        A new node is as large as the largest there is.
    leaving : ndarray of bool, shape (n,)
        Nodes that drain, or that the problem may give up: being empty is what is wanted of them.
    before, after : ndarray, shape (n,)
        Loads of the nodes.
    """

    load: FloatArray
    capacity: FloatArray
    leaving: BoolArray
    before: FloatArray
    after: FloatArray

    @classmethod
    def of(cls, workload: Workload, current: IntArray, target: IntArray, may_leave: bool = False) -> Way:
        """From one assignment to another, which may use nodes that the workload does not have yet.

        With `may_leave`, a node that the plan empties is taken to leave; else only a draining one is.
        """
        n = max(workload.nodes, int(current.max()) + 1, int(target.max()) + 1)
        new = n - workload.nodes
        capacity = np.concatenate([workload.capacity, np.full(new, workload.capacity.max())])
        draining = np.concatenate([workload.draining, np.zeros(new, dtype=bool)])
        emptied = np.zeros(n, dtype=bool)
        if may_leave:
            emptied = (np.bincount(current, minlength=n) > 0) & (np.bincount(target, minlength=n) == 0)
        load = workload.last_load
        before, after = (np.bincount(a, weights=load, minlength=n) for a in (current, target))
        return cls(load, capacity, draining | emptied, before, after)

    @property
    def nodes(self) -> int:
        """Nodes, new ones included."""
        return int(self.capacity.size)

    @cached_property
    def mean(self) -> float:
        """Load per unit of capacity over the nodes that stay."""
        return float(self.load.sum() / self.capacity[~self.leaving].sum())

    def deviation(self, loads: FloatArray, nodes: IntArray | slice = np.s_[:]) -> FloatArray:
        """How far loads of some nodes, shape (..., n), are from the mean: upwards alone on nodes that leave."""
        away = loads / self.capacity[nodes] - self.mean
        return np.where(self.leaving[nodes], np.maximum(away, 0.0), np.abs(away))

    def distance(self, loads: FloatArray) -> FloatArray:
        """Load distance of some node loads, shape (..., n): both ways on nodes that stay, upwards on those that leave."""
        return self.deviation(loads).max(axis=-1)

    def distances(self, loads: FloatArray, moved: FloatArray, source: IntArray, target: IntArray) -> FloatArray:
        """Load distance of the nodes' loads after each of some moves alone, of loads `moved`, shape (e,)."""
        before = self.deviation(loads)
        top = np.argsort(-before)[:3, None]  # of three nodes, one at least is neither source nor target
        others = np.where((top != source) & (top != target), before[top], 0.0).max(axis=0)
        sent, taken = self.deviation(loads[source] - moved, source), self.deviation(loads[target] + moved, target)
        return np.maximum(others, np.maximum(sent, taken))


# A phase of a plan: moves that may run at the same time ----------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """Moves that may run at the same time. The next phase begins when all of them have ended.

    Attributes
    ----------
    number : int
        From 0.
    moves : tuple of int
        Rows of `Plan.moves`.
    start, end : float
        Seconds from the start of the plan.
    bound : float
        No schedule of these moves is shorter, in seconds.
    load_distance : float
        After the phase, in units of load.
    """

    number: int
    moves: tuple[int, ...]
    start: float
    end: float
    bound: float
    load_distance: float

    @property
    def seconds(self) -> float:
        """How long the phase takes."""
        return self.end - self.start


# The worth of each move of a plan: by how much the objective would rise if it alone were undone ------------------------

Gains = Callable[[Workload, IntArray, IntArray, IntArray, bool], FloatArray]


def _load_distance(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    return distance_gains(Way.of(workload, current, target, may_leave), current, target, moving)


def distance_gains(way: Way, current: IntArray, target: IntArray, moving: IntArray) -> FloatArray:
    """By how much the load distance would rise if a move alone were undone, shape (e,)."""
    undone = way.distances(way.after, way.load[moving], target[moving], current[moving])
    return undone - way.distance(way.after)


def _imbalance(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    # With L the load of the target without the move undone: (L - y)^2 + (M + y)^2 - L^2 - M^2 = 2 y (M - L + y).
    kept = workload.kept
    loads = np.array([np.bincount(target, weights=row, minlength=workload.nodes) for row in workload.load])
    load = workload.load[:, moving]
    here, there = loads[:, target[moving]], loads[:, current[moving]]
    mean = (workload.load.sum(axis=1) / kept.sum())[:, None]
    lost = np.where(kept[target[moving]], (here - load - mean) ** 2 - (here - mean) ** 2, 0.0)
    won = np.where(kept[current[moving]], (there + load - mean) ** 2 - (there - mean) ** 2, 0.0)
    return (lost + won).sum(axis=0) / kept.sum()


def _remote_traffic(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    import scipy.sparse as sp

    both = sp.csr_array(workload.traffic + workload.traffic.T)  # type: ignore[union-attr]
    both = both - sp.diags_array(both.diagonal())
    found = np.empty(moving.size)
    for position, k in enumerate(moving.tolist()):
        partners = slice(both.indptr[k], both.indptr[k + 1])
        ends, tuples = target[both.indices[partners]], both.data[partners]
        found[position] = tuples[ends == target[k]].sum() - tuples[ends == current[k]].sum()
    return found


_MEASURES: dict[str, Gains] = {
    "load distance": _load_distance,
    "imbalance": _imbalance,
    "remote traffic": _remote_traffic,
}


# The rules of a cluster on the way -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RuledWay:
    r"""The rooms that several units of moves share, and could break together between the first move of a plan and the last.

    A key group counts where it comes from until it has moved, and where it goes to from the moment it begins: once in a domain
    that holds both. Key groups that rules keep together move as one. With :math:`h_r` the weight in a room, and :math:`in_{ur}`
    and :math:`out_{ur}` what a unit u of moves brings into it and takes out, a phase of units U keeps the rules, however its
    moves overlap, if for every room r

    .. math:: (1) \quad h_r + \sum_{u \in U} in_{ur} \le most_r, \qquad h_r - \sum_{u \in U} out_{ur} \ge least_r

    A room that is exceeded before the plan or after it must at least go no higher in between. Nothing else can break half-way:
    closed nodes and budgets of moves only tell the first state from the last.

    Attributes
    ----------
    unit : ndarray of int, shape (e,)
        The unit that each move belongs to.
    held, least, most : ndarray, shape (rooms,)
    touched : tuple of (rooms, in, out)
        Of each unit.
    """

    unit: IntArray
    held: FloatArray
    least: FloatArray
    most: FloatArray
    touched: tuple[tuple[IntArray, FloatArray, FloatArray], ...]

    @classmethod
    def of(cls, lowered: Lowered, current: IntArray, target: IntArray, moving: IntArray) -> RuledWay:
        """The rules' rooms on the way from one assignment to another; `moving` are the key groups that move."""
        unit = np.unique(labels_of(lowered.merged, current.size)[moving], return_inverse=True)[1]
        count = int(unit.max(initial=-1)) + 1
        of_key_group = np.full(current.size, -1)
        of_key_group[moving] = unit
        rows: list[tuple[float, float, float, FloatArray, FloatArray, IntArray]] = []
        for room in lowered.rooms:
            mine = of_key_group[room.key_groups]
            source, goal = (room.domain[where[room.key_groups]] for where in (current, target))
            crossing = (mine >= 0) & (source != goal)
            if len(set(mine[crossing].tolist())) < 2:
                continue
            before, after = room.held(current), room.held(target)
            for d in np.unique(np.concatenate([source[crossing], goal[crossing]])):
                if d < 0:
                    continue
                into, out = (
                    np.bincount(mine[at], room.weights[at], count)
                    for at in (crossing & (goal == d), crossing & (source == d))
                )
                units = np.flatnonzero((into > 0) | (out > 0))
                most = max(float(room.most[d]), before[d], after[d])
                least = min(float(room.least[d]), before[d], after[d])
                if units.size > 1 and (before[d] + into.sum() > most * (1 + SLACK) or before[d] - out.sum() < least):
                    rows.append((before[d], least, most, into[units], out[units], units))
        held, least, most = (np.array([row[part] for row in rows], dtype=float) for part in range(3))
        return cls(unit, held, least, most, _by_unit(rows, count))

    @property
    def units(self) -> int:
        """Units of moves."""
        return len(self.touched)

    def excess(self, held: FloatArray, low: FloatArray | None = None) -> FloatArray:
        """By how much rooms, shape (..., rooms), are exceeded, or fallen short of where they may hold less, in all."""
        low = held if low is None else low
        over = np.where(held > self.most * (1 + SLACK), held - self.most, 0.0)
        under = np.where(low < self.least * (1 - SLACK), self.least - low, 0.0)
        return np.asarray((over + under).sum(axis=-1))

    def after(self, held: FloatArray, units: Iterable[int]) -> FloatArray:
        """The weight in each room once some units have moved."""
        then = held.copy()
        for u in units:
            rooms, into, out = self.touched[u]
            then[rooms] += into - out
        return then

    def worst(self, phases: Iterable[IntArray]) -> float:
        """The most by which rooms are exceeded at any time, whatever the overlaps: (1); phases are lists of moves."""
        held, worst = self.held, 0.0
        for moves in phases:
            units = dict.fromkeys(self.unit[moves].tolist())
            then = self.after(held, units)
            if len(units) > 1:
                high, low = held.copy(), held.copy()
                for u in units:
                    rooms, into, out = self.touched[u]
                    high[rooms] += into
                    low[rooms] -= out
                worst = max(worst, float(self.excess(high, low)))
            worst = max(worst, float(self.excess(then)))
            held = then
        return worst


def broken_on_the_way(plan: Any, workload: Workload) -> list[Violation]:
    """Rules broken between a plan's first move and its last, beyond those it names; its problem is asked anew."""
    if not plan.parameters.get("rules") or len(plan) == 0:
        return []
    lowered = pose(plan.problem, workload, plan.parameters).lowered  # type: ignore[attr-defined]  # it has rules
    way = RuledWay.of(lowered, plan.current, plan.assignment, plan.key_group)
    worst = way.worst(np.array(phase.moves, dtype=np.int64) for phase in plan.phases)
    if worst <= plan.broken_rules * (1 + SLACK):
        return []
    found, planned = apart(worst, plan.broken_rules)
    said = f"rules are broken by {found} on the way, the plan says by {planned}"
    return [Violation("rules", said, amount=worst - plan.broken_rules)]


def _by_unit(
    rows: list[tuple[float, float, float, FloatArray, FloatArray, IntArray]], count: int
) -> tuple[tuple[IntArray, FloatArray, FloatArray], ...]:
    """The amounts that each unit brings into each of its rooms, and takes out."""
    found: list[list[tuple[int, float, float]]] = [[] for _ in range(count)]
    for number, (_, _, _, into, out, units) in enumerate(rows):
        for u, more, less in zip(units.tolist(), into.tolist(), out.tolist(), strict=True):
            found[u].append((number, more, less))
    made = [np.array(one, dtype=float).reshape(-1, 3).T for one in found]
    return tuple((rooms.astype(np.int64), into, out) for rooms, into, out in made)
