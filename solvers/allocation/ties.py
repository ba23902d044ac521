"""What decides between allocations of the same load distance: the sum of deviations, then moves and draining nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.compiling import LEAF, njit, off_clock
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.allocation.arrays import PLANNED, Instance
from keyshift.solvers.checked import kept, within
from keyshift.solvers.conductor import Incumbent


def least_sides(found: Incumbent, effort: float, seed: int) -> None:
    """Among the assignments of the incumbent's load distance, one of least deviation_sum, by CP-SAT."""
    with off_clock():
        from keyshift.models.allocation.cpsat_model import AllocationCpSat
        from keyshift.solvers import cpsat

    problem = found.problem
    statement = within(found.budget, lambda: AllocationCpSat(problem))
    if statement is None:
        return
    statement.keep("load_distance", found.objective)
    statement.minimise("deviation_sum")
    assert found.best is not None
    statement.set_start(found.best)
    outcome = cpsat.minimise(statement.model, found.budget, seed=seed, max_deterministic_time=effort)
    if not outcome.found:
        return
    take_sides(found, statement.assignment(outcome.solver.value), outcome.termination == "optimal")


def take_sides(found: Incumbent, other: IntArray, proven: bool) -> None:
    """Take over an assignment of the incumbent's load distance and less deviation_sum, and note whether that is the least."""
    report, slack = found.problem.check(other), 1e-3 * found.problem.tolerance
    as_near = report.feasible and report.objective <= found.objective + slack
    if as_near and report.metrics["deviation_sum"] < found.tie - slack:
        found.best, found.tie = other, report.metrics["deviation_sum"]
    found.details["second_stage"] = "optimal" if proven and as_near else "feasible"


def fewer_moves(found: Incumbent) -> None:
    """Fewer moves and emptier draining nodes, where they cost nothing."""
    problem, best = found.problem, found.best
    assert best is not None
    other = settle(problem, best, lambda: found.budget.expired)
    slack = 1e-5 * problem.tolerance
    better = problem.objective(other) <= found.objective + slack
    sides = problem.metrics(other)["deviation_sum"]
    if kept(problem, other, PLANNED) and better and sides <= found.tie + slack:
        found.best = other


ROUNDING = 1e-12
"""The share of the mean by which a deviation may exceed the largest one so far."""


def settle(problem: KeyGroupAllocation, assignment: IntArray, expired: Callable[[], bool] = lambda: False) -> IntArray:
    """An assignment as good in both stages, with fewer moves on kept nodes or fewer key groups on draining ones.

    No deviation leaves the range between the lowest and the highest that there are. Within it a move is undone, or two
    moves that meet on a node become one, as long as that is possible; then the moves that are left to spend empty
    draining nodes, the largest key group that fits first.

    Parameters
    ----------
    problem : KeyGroupAllocation
    assignment : ndarray, shape (p,)
        Feasible.
    expired : callable, optional
        Once it is true, one pass over the moves is all.

    Returns
    -------
    ndarray, shape (p,)
    """
    state = _State(Instance(problem), assignment.copy())
    for _ in range(5):
        moved = state.moved()
        if not (undo(moved, state.sums()) or state.merge(moved, expired)) or expired():
            break
    state.drain(expired)
    return state.place


class _Sums(NamedTuple):
    """An assignment, its deviations and resources, the range that they must not leave, and the instance's arrays."""

    place: IntArray
    deviation: FloatArray
    used: FloatArray
    highest: float
    lowest: FloatArray
    current: IntArray
    load: FloatArray
    weight: FloatArray
    use: FloatArray
    room: FloatArray
    kind: IntArray
    enter: BoolArray


@njit(**LEAF)
def in_range(node, more, adding, removing, it):
    """Whether a node stays between the lowest and the highest, and within its room, with so much more load and uses; -1: none."""
    for r in range(it.use.shape[0]):
        used = it.used[r, node]
        if removing >= 0:
            used -= it.use[r, removing]
        if adding >= 0:
            used += it.use[r, adding]
        if used > it.room[r, node]:
            return False
    return it.lowest[node] <= it.deviation[node] + more * it.weight[node] <= it.highest


@njit(**LEAF)
def carry(k, target, it):
    """Put a key group on a node."""
    source = it.place[k]
    it.deviation[source] -= it.load[k] * it.weight[source]
    it.deviation[target] += it.load[k] * it.weight[target]
    for r in range(it.use.shape[0]):
        it.used[r, source] -= it.use[r, k]
        it.used[r, target] += it.use[r, k]
    it.place[k] = target


@njit(cache=True, error_model="numpy", nogil=True)
def carried(k, target, it):
    """Put a key group on a node if both nodes stay in range; whether it went."""
    if in_range(it.place[k], -it.load[k], -1, k, it) and in_range(target, it.load[k], k, -1, it):
        carry(k, target, it)
        return True
    return False


@njit(cache=True, error_model="numpy", nogil=True)
def undo(away, it):
    """Send moved key groups back one by one, in this order; whether any went."""
    done = False
    for x in range(away.size):
        done = carried(away[x], it.current[away[x]], it) or done
    return done


@njit(cache=True, error_model="numpy", nogil=True)
def arrivals(moved, first_on, following, it):
    """Lists of those that have moved, by their node: the first of each, and the one after each."""
    for x in range(moved.size):
        k = moved[x]
        following[k], first_on[it.place[k]] = first_on[it.place[k]], k


@njit(cache=True, error_model="numpy", nogil=True)
def merge(seconds, first_on, following, it):
    """Where one key group replaced another on a node, let the one go on instead of the other; whether any did.

    Of those that arrived on the node, in the order of their numbers, the first goes on that leaves all in range.
    """
    done = False
    for x in range(seconds.size):
        second = seconds[x]
        home, target = it.current[second], it.place[second]
        best, k = -1, first_on[home] if home != target else -1
        while k >= 0:
            more = it.load[second] - it.load[k]
            if (
                (best < 0 or k < best)
                and (it.current[k] == target or it.enter[it.kind[k], target])
                and in_range(home, more, second, k, it)
                and in_range(target, -more, k, second, it)
            ):
                best = k
            k = following[k]
        if best < 0:
            continue
        taken_off(second, target, first_on, following)
        taken_off(best, home, first_on, following)
        carry(second, home, it)
        carry(best, target, it)
        if it.current[best] != target:
            following[best], first_on[target] = first_on[target], best
        done = True
    return done


@njit(**LEAF)
def taken_off(k, node, first_on, following):
    """Take a key group off a node's list."""
    if first_on[node] == k:
        first_on[node] = following[k]
        return
    at = first_on[node]
    while following[at] != k:
        at = following[at]
    following[at] = following[k]


@dataclass
class _State:
    """An assignment, its deviations and resources, and the range that they must not leave."""

    instance: Instance
    place: IntArray
    deviation: FloatArray = field(init=False)
    used: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        it = self.instance
        self.deviation, self.used = it.deviations(self.place), it.used(self.place)
        kept = ~it.draining
        self.highest = float(self.deviation.max()) + ROUNDING
        self.lowest = np.where(kept, self.deviation[kept].min() - ROUNDING, -math.inf)

    def moved(self) -> IntArray:
        """Key groups away from their current node, the dearest first."""
        away = np.flatnonzero(self.place != self.instance.current)
        return away[np.lexsort((away, -self.instance.cost[away]))]

    def sums(self) -> _Sums:
        """What the compiled passes keep in step."""
        it = self.instance
        return _Sums(
            self.place, self.deviation, self.used, self.highest, self.lowest, it.current, it.load, it.weight, it.use, it.room,
            it.space.kind, it.space.enter,
        )  # fmt: skip

    def merge(self, moved: IntArray, expired: Callable[[], bool]) -> bool:
        """Two moves that meet on a node become one where that fits, so many at once that the clock is looked at in time."""
        first_on, following, done = np.full(self.instance.nodes, -1), np.full(self.place.size, -1), False
        arrivals(moved, first_on, following, self.sums())
        most = max(1, 5_000_000 * self.instance.nodes // max(moved.size, 1))
        for at in range(0, moved.size, most):
            done = bool(merge(moved[at : at + most], first_on, following, self.sums())) or done
            if expired():
                break
        return done

    def send(self, k: int, target: int) -> bool:
        """Put a key group on a node; whether every node stays in range."""
        return bool(carried(k, target, self.sums()))

    def drain(self, expired: Callable[[], bool]) -> None:
        """Move key groups off draining nodes while moves, cost and time are left."""
        it = self.instance
        away = self.place != it.current
        moves, cost = it.max_moves - int(away.sum()), it.max_cost - float(it.cost[away].sum())
        waiting = it.space.movers[(it.draining[self.place] & ~away)[it.space.movers]]
        for k in waiting[np.lexsort((waiting, -it.load[waiting]))]:
            if moves <= 0 or expired():
                break
            if it.cost[k] > cost:
                continue
            closed = it.draining | ~it.space.enter[it.space.kind[k]]
            room = np.where(closed, math.inf, self.deviation + it.load[k] * it.weight)
            if any(self.send(int(k), int(target)) for target in np.argsort(room, kind="stable")[: self._roomy(room)]):
                moves -= 1
                cost -= float(it.cost[k])

    def _roomy(self, deviation: FloatArray) -> int:
        """How many nodes stay in range."""
        return int((deviation <= self.highest).sum())
