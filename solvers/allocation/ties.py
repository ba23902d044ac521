"""What decides between allocations of the same load distance: the sum of deviations, then moves and draining nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.compiling import off_clock
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
    statement.set_start(found.best)
    outcome = cpsat.minimise(statement.model, found.budget, seed=seed, max_deterministic_time=effort)
    if not outcome.found:
        return
    other = statement.assignment(outcome.solver.value)
    report = problem.check(other)
    slack = 1e-3 * problem.tolerance
    as_near = report.feasible and report.objective <= found.objective + slack
    if as_near and report.metrics["deviation_sum"] < found.tie - slack:
        found.best, found.tie = other, report.metrics["deviation_sum"]
    found.details["second_stage"] = "optimal" if outcome.termination == "optimal" and as_near else "feasible"


def fewer_moves(found: Incumbent) -> None:
    """Fewer moves and emptier draining nodes, where they cost nothing."""
    problem, best = found.problem, found.best
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
        if not (state.undo_one() or state.merge_two()) or expired():
            break
    state.drain()
    return state.place


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

    def send(self, *steps: tuple[int, int]) -> bool:
        """Put key groups on nodes, all or none; whether every node stays in range."""
        it = self.instance
        nodes = [*{int(node) for k, target in steps for node in (self.place[k], target)}]
        before = self.deviation[nodes], self.used[:, nodes]
        for k, target in steps:
            source = self.place[k]
            self.deviation[source] -= it.load[k] * it.weight[source]
            self.deviation[target] += it.load[k] * it.weight[target]
            self.used[:, source] -= it.use[:, k]
            self.used[:, target] += it.use[:, k]
        after = self.deviation[nodes]
        too_much = (self.used[:, nodes] > it.room[:, nodes]).any()
        if too_much or (after > self.highest).any() or (after < self.lowest[nodes]).any():
            self.deviation[nodes], self.used[:, nodes] = before
            return False
        for k, target in steps:
            self.place[k] = target
        return True

    def fits(self, change: FloatArray, nodes: IntArray) -> BoolArray:
        """Which changes of load leave which nodes in range."""
        after = self.deviation[nodes] + change * self.instance.weight[nodes]
        return (after <= self.highest) & (after >= self.lowest[nodes])

    def undo_one(self) -> bool:
        """Send moved key groups back one by one; whether any went."""
        it, away = self.instance, self.moved()
        done = False
        while away.size:  # a move that fits no more may fit again after another
            home, load = it.current[away], it.load[away]
            fitting = np.flatnonzero(self.fits(load, home) & self.fits(-load, self.place[away]))
            sent = next((at for at in fitting if self.send((int(away[at]), int(home[at])))), None)
            if sent is None:
                break
            done, away = True, away[sent + 1 :]
        return done

    def merge_two(self) -> bool:
        """Where one key group replaced another on a node, let the one go on instead of the other; whether any did."""
        it, moved = self.instance, self.moved()
        current, done = it.current, False
        for second in moved:
            home, target = current[second], self.place[second]
            if home == target:
                continue
            arrived = np.sort(moved[(self.place[moved] == home) & (current[moved] != home)])
            more = it.load[second] - it.load[arrived]
            fitting = self.fits(more, np.full(arrived.size, home)) & self.fits(-more, np.full(arrived.size, target))
            fitting &= it.space.may_enter(arrived, target) | (current[arrived] == target)
            for first in arrived[fitting]:
                if self.send((int(second), int(current[second])), (int(first), int(self.place[second]))):
                    done = True
                    break
        return done

    def drain(self) -> None:
        """Move key groups off draining nodes while moves and cost are left."""
        it = self.instance
        away = self.place != it.current
        moves, cost = it.max_moves - int(away.sum()), it.max_cost - float(it.cost[away].sum())
        waiting = it.space.movers[(it.draining[self.place] & ~away)[it.space.movers]]
        for k in waiting[np.lexsort((waiting, -it.load[waiting]))]:
            if moves <= 0:
                break
            if it.cost[k] > cost:
                continue
            closed = it.draining | ~it.space.enter[it.space.kind[k]]
            room = np.where(closed, math.inf, self.deviation + it.load[k] * it.weight)
            if any(self.send((int(k), int(target))) for target in np.argsort(room, kind="stable")[: self._roomy(room)]):
                moves -= 1
                cost -= float(it.cost[k])

    def _roomy(self, deviation: FloatArray) -> int:
        """How many nodes stay in range."""
        return int((deviation <= self.highest).sum())
