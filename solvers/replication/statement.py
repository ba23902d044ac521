"""Replicas of key groups: a bound by counting, steepest descent, and the statements by CP-SAT and HiGHS."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Threads
from keyshift.models.base.lazily import lazily
from keyshift.models.replication.problem import ReplicatedAllocation
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.checked import answered, confirmed

with lazily():
    from keyshift.models.replication.cpsat_model import ReplicationCpSat
    from keyshift.models.replication.pyomo_model import ReplicationPyomo


# A bound, and a search ---------------------------------------------------------------------------------------------------


def counting_bound(problem: ReplicatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The largest load is at least the mean, and at least what leaves no copy more than its share. O(p) for each of 60 steps.

    If no node had more than t per unit of capacity, each copy would carry at most t on the largest node, so key group k would
    need ceil(l_k / (t v)) copies: the least t for which these are few enough, and no more than there are nodes.
    """
    w, load = problem.workload, problem.load
    most = float(w.capacity[w.kept].max(initial=0.0))
    copies = min(problem.copies, int(problem.slots.sum()))
    low, high = float(load.max()) / max(1, problem.most_copies), float(load.max())
    for _ in range(60):  # bisection: as fine as floats are
        middle = (low + high) / 2
        enough = middle > 0 and float(np.ceil(load / middle * (1 - 1e-12)).clip(1).sum()) <= copies
        low, high = (low, middle) if enough else (middle, high)
    least = max(low / most if most else 0.0, problem.scale if load.any() else 0.0)
    return Answer(None, least * (1 - 1e-12 * (w.key_groups + 4)))


def descent(problem: ReplicatedAllocation, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None) -> Answer:
    """From a start, or the copies that there are: the change that helps the fullest node most, as long as one does.

    A change moves a copy off the fullest node, adds a copy of a key group that is there, or, where neither helps, exchanges a
    copy for one elsewhere. Each lowers the largest load or the number of nodes that have it, so it ends; O(p n) a step. No
    guarantee.
    """
    best = _Copies(problem, start if start is not None else problem.now)
    best.repair()
    while not budget.expired and best.improve(budget):
        budget.spend(best.here.size)
    here = np.zeros(best.here.shape, dtype=np.int8)
    here[best.cells()] = 1
    return Answer(here if not problem.violations(here) else start)


@dataclass
class _Copies:
    """Copies, the loads they make, and what limits are left."""

    problem: ReplicatedAllocation
    here: np.ndarray
    load: FloatArray = field(init=False)
    count: IntArray = field(init=False)
    room: IntArray = field(init=False)

    def __post_init__(self) -> None:
        cells = self.problem.cells(self.here)
        # By node: what a node holds is asked for most.
        self.here = np.zeros(self.here.shape, dtype=np.int8, order="F")
        self.here[cells] = 1
        self.here[:, self.problem.slots == 0] = 0

    def cells(self) -> tuple[IntArray, IntArray]:
        """Key group and node of every copy, by node."""
        place, which = np.divmod(np.flatnonzero(self.here.T.view(bool)), len(self.here))
        return which, place

    def measure(self) -> IntArray:
        """Loads, room and the moves that are left; how many copies each key group has."""
        p, (which, place) = self.problem, self.cells()
        copies = np.bincount(which, minlength=p.workload.key_groups)
        self.count = np.maximum(copies, 1)
        self.load = np.bincount(place, (p.load / self.count)[which], p.workload.nodes) / p.workload.capacity
        self.room = p.slots - np.bincount(place, minlength=p.workload.nodes)
        moves = math.inf if p.max_migrations is None else p.max_migrations
        self.moves = moves - int((~p.held[which, place]).sum())
        self.spare = p.copies - which.size
        return copies

    def repair(self) -> None:
        """Copies off nodes that hold too many, the heaviest first; then one for each key group without, where least is loaded."""
        copies, p = self.measure(), self.problem
        if (self.room < 0).any():
            share = p.load / self.count
            for i in np.flatnonzero(self.room < 0):
                on = np.flatnonzero(self.here[:, i])
                self.here[on[np.argsort(-share[on], kind="stable")][: -int(self.room[i])], i] = 0
            copies = self.measure()
        without = np.flatnonzero(copies == 0)
        for k in without[np.argsort(-p.load[without], kind="stable")]:
            if (self.room > 0).any():
                filled = self.load + p.load[k] / p.workload.capacity
                self.flip([(int(k), int(np.argmin(np.where(self.room > 0, filled, math.inf))))])

    def improve(self, budget: Budget) -> bool:
        """Make the best change, if one helps; late, the best of those that were looked at."""
        full = int(np.argmax(self.load))
        enough = self.load[full] * (1 - 1e-12)
        changes = [c for c in (self.copied(full), self.moved(full)) if c is not None]
        value, cells = min(changes, key=lambda change: change[0], default=(math.inf, []))
        if value >= enough:
            value, cells = self.exchanged(full, budget) or (math.inf, [])
        if value >= enough:
            return False
        self.flip(cells)
        return True

    def flip(self, cells: list[tuple[int, int]]) -> None:
        """Copies that are there go, and others come."""
        p, some = self.problem, sorted({k for k, _ in cells})
        self.load -= self._loads(some)
        for k, i in cells:
            more = 1 - 2 * int(self.here[k, i])
            self.here[k, i] ^= 1
            self.room[i] -= more
            self.spare -= more
            self.moves -= 0 if p.held[k, i] else more
        self.count[some] = np.maximum(self.here[some].sum(axis=1), 1)
        self.load += self._loads(some)

    def _loads(self, key_groups: list[int]) -> FloatArray:
        """The load that some key groups make on every node, per unit of capacity."""
        share = self.problem.load[key_groups] / self.count[key_groups]
        return np.asarray(share @ self.here[key_groups] / self.problem.workload.capacity)

    def allowed(self, more: int, on: IntArray) -> np.ndarray:
        """Cells of some key groups that may get a copy, shape (key groups, n), where `more` moves are used up before."""
        new = ~self.problem.held[on]
        return (self.here[on] == 0) & (self.room > 0) & ~(new & (self.moves - more < 1))

    def best_cell(self, after: FloatArray, key_groups: IntArray, cells: np.ndarray) -> tuple[float, int, int] | None:
        """The least of some loads over cells that are open: value, key group, node."""
        masked = np.where(cells, after, math.inf)
        if not np.isfinite(masked).any():
            return None
        row, i = np.unravel_index(int(np.argmin(masked)), masked.shape)
        return float(masked[row, i]), int(key_groups[row]), int(i)

    def copied(self, full: int) -> tuple[float, list[tuple[int, int]]] | None:
        """One more copy of a key group on the fullest node."""
        if self.spare < 1:
            return None
        on: IntArray = np.flatnonzero(self.here[:, full])
        load, v = self.problem.load[on], self.problem.workload.capacity
        share, less = load / (self.count[on] + 1), load / self.count[on] - load / (self.count[on] + 1)
        after = np.maximum(self.load + share[:, None] / v, (self.load[full] - less / v[full])[:, None])
        found = self.best_cell(after, on, self.allowed(0, on))
        return None if found is None else (found[0], [found[1:]])

    def moved(self, full: int) -> tuple[float, list[tuple[int, int]]] | None:
        """A copy on the fullest node goes to another one."""
        on: IntArray = np.flatnonzero(self.here[:, full])
        share, v = self.problem.load[on] / self.count[on], self.problem.workload.capacity
        after = np.maximum(self.load + share[:, None] / v, (self.load[full] - share / v[full])[:, None])
        back = ~self.problem.held[on, full]  # a new copy that goes leaves its move to another one
        cells = np.where(back[:, None], self.allowed(-1, on), self.allowed(0, on))
        found = self.best_cell(after, on, cells)
        return None if found is None else (found[0], [(found[1], full), found[1:]])

    def exchanged(self, full: int, budget: Budget) -> tuple[float, list[tuple[int, int]]] | None:
        """A copy on the fullest node and a lighter one elsewhere change places."""
        held, v, best = self.problem.held, self.problem.workload.capacity, None
        on: IntArray = np.flatnonzero(self.here[:, full])
        share = self.problem.load / self.count
        value = float(self.load[full])
        for i in np.flatnonzero(self.problem.slots):
            there: IntArray = np.flatnonzero(self.here[:, i] > self.here[:, full])
            mine = on[self.here[on, i] == 0]
            if i == full or not there.size or not mine.size:
                continue
            if budget.late:
                break
            gain = share[mine][:, None] - share[there]
            after = np.maximum(self.load[full] - gain / v[full], self.load[i] + gain / v[i])
            used = (~held[mine, i])[:, None].astype(int) - (~held[mine, full])[:, None]
            used = used + (~held[there, full]).astype(int) - (~held[there, i])
            after = np.where(used <= self.moves, after, math.inf)
            a, b = np.unravel_index(int(np.argmin(after)), after.shape)
            if after[a, b] < value:
                value = float(after[a, b])
                k, m = int(mine[a]), int(there[b])
                best = value, [(k, full), (k, int(i)), (m, int(i)), (m, full)]
        return best


# The statements ------------------------------------------------------------------------------------------------------------


def solve_cpsat(
    problem: ReplicatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """Descent, the bound by counting, then CP-SAT on the statement until it is proven.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    """
    return _by(problem, "cpsat", ReplicationCpSat, budget, seed, start, threads)


def solve_milp(
    problem: ReplicatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """Descent, the bound by counting, then HiGHS on the statement; what is doubtful of its word CP-SAT says again.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    """
    answer = _by(problem, "highs", ReplicationPyomo, budget, seed, start, threads)
    return confirmed(problem, answer, solve_cpsat, budget=budget, seed=seed, threads=threads)


def _by(
    problem: ReplicatedAllocation,
    solver: str,
    statement: Any,
    budget: Budget,
    seed: int,
    start: np.ndarray | None,
    threads: int,
) -> Answer:
    """The best of descent and a solver, with the higher of both bounds."""
    least = counting_bound(problem, budget=budget).bound or 0.0
    found = descent(problem, budget=budget, seed=seed, start=start).assignment  # it ends by itself
    value = math.inf if found is None else problem.objective(found)
    if value - least <= problem.tolerance:
        return Answer(found, least, "optimal")
    variables = problem.workload.key_groups * problem.most_copies * (int((problem.slots > 0).sum()) + 1)
    if variables > 200_000:  # they take longer to write down than descent takes
        ended = budget.why if budget.expired else "gap"
        return Answer(found, least, ended, f"a statement would have {variables:,} variables: none was written down")
    return answered(
        problem, solver, statement, value, budget=budget, start=found, least=least, seed=seed, threads=threads,
        infeasible="no placement of copies keeps the limits",
    )  # fmt: skip
