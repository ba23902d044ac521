"""The three phases shared by the paper's algorithms, and the plan they end in."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from keyshift.models import Answer, metrics
from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.routing import MixedRouting, RoutingTable
from keyshift.models.routing.compact import CompactKeys, every_key
from keyshift.models.workload import BoolArray, FloatArray, IntArray

Psi = Literal["load", "gamma"]


@dataclass(frozen=True, eq=False)
class RoutingPlan:
    """A new assignment, and the truth about it: an algorithm may miss a limit, and then the plan says by how much.

    Attributes
    ----------
    problem : MixedRouting
    assignment : ndarray of int, shape (p,)
    forced : int
        Units that LLFD could place only above the limit.
    moved_back : int
        Entries of the table that Phase I cleaned.
    trials : int
        Runs of the three phases that it took.
    estimated : ndarray, shape (n,)
        Node loads as the algorithm saw them; they differ from the true ones under discretisation.
    """

    problem: MixedRouting
    assignment: IntArray
    estimated: FloatArray
    forced: int = 0
    moved_back: int = 0
    trials: int = 1
    details: dict[str, float] = field(default_factory=dict)

    @cached_property
    def loads(self) -> FloatArray:
        """True load of every node, shape (n,)."""
        return metrics.last_node_loads(self.problem.workload, self.assignment)

    @cached_property
    def state_moved(self) -> float:
        """State of the keys that change node."""
        return self.problem.objective(self.assignment)

    @cached_property
    def table_size(self) -> int:
        """Entries of the new table."""
        return metrics.table_size(self.problem.workload, self.assignment)

    @cached_property
    def theta(self) -> float:
        """Largest balance factor, on the true loads."""
        return self.problem.theta(self.assignment)

    @cached_property
    def load_error(self) -> float:
        """Largest relative difference between a node's estimated and its true load; 0 on the full key space."""
        off = np.abs(self.estimated - self.loads)
        return float((off[self.loads > 0] / self.loads[self.loads > 0]).max(initial=0.0))

    @cached_property
    def feasible(self) -> bool:
        """Whether it meets every limit of the problem, on the true loads."""
        return not self.problem.violations(self.assignment)

    @property
    def misses(self) -> str:
        """One sentence for each limit that it misses; empty when it is feasible."""
        return "; ".join(v.message for v in self.problem.violations(self.assignment)[:3])

    @property
    def table(self) -> RoutingTable:
        """The new routing table."""
        return RoutingTable.of(self.problem, self.assignment)

    @property
    def rank(self) -> tuple[bool, bool, float, float]:
        """Sorts plans: within all limits first, then within the table's, then by what is missed, then by state."""
        over = max(0, self.table_size - self.problem.table_limit)
        within = self.feasible
        return (not within, over > 0, 0.0 if within else over or self.theta, self.state_moved)

    def answer(self) -> Answer:
        """The plan as a method's answer; its figures stay in `details` even where `solve` must drop the assignment."""
        said = "" if self.feasible else f"the plan misses a limit: {self.misses}"
        figures = {
            "plan_state_moved": self.state_moved, "plan_theta": self.theta, "plan_table_size": self.table_size,
            "load_error": self.load_error, "forced": self.forced, "moved_back": self.moved_back, "trials": self.trials,
        }  # fmt: skip
        return Answer(self.assignment, message=said, details={**figures, **self.details})


class RoutingPlanner:
    """Runs the phases on records of keys (`keyshift.models.routing.compact`), or on every key.

    Parameters
    ----------
    problem : MixedRouting
    psi : {"load", "gamma"}
        Which keys leave a node first: the heaviest, or those of largest gamma = load**beta / state.
    beta : float, default 1.5
        Weight of the load in gamma.
    keys : CompactKeys, optional
        None takes the full key space.
    spare : ndarray, shape (n,), optional
        Load by which to stay below each node's limit.
    """

    def __init__(
        self,
        problem: MixedRouting,
        psi: Psi,
        beta: float = 1.5,
        keys: CompactKeys | None = None,
        spare: FloatArray | None = None,
    ) -> None:
        self.problem, self.beta = problem, beta
        self.keys = every_key(problem.workload) if keys is None else keys
        self.kept = problem.workload.kept
        # Half the slack of the check keeps LLFD's own rounding on the feasible side of it.
        self.limit = problem.upper + 0.5 * problem.slack - (0.0 if spare is None else spare)
        self.by_load = np.argsort(-self.keys.load, kind="stable")
        self.by_psi = self.by_load if psi == "load" else np.argsort(-self.gamma(), kind="stable")
        k = self.keys
        self.entries = np.flatnonzero((k.current != k.home) & self.kept[k.home])
        self.entries = self.entries[np.argsort(k.state[self.entries], kind="stable")]  # eta: smallest state first

    def gamma(self) -> FloatArray:
        """Migration priority of each record: load**beta / state; infinite where a load moves for free, shape (r,)."""
        k = self.keys
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(k.load == 0, 0.0, k.load**self.beta / k.state)

    @property
    def table_size(self) -> int:
        """N_A: entries of the current table that Phase I can clean."""
        return int(self.keys.count[self.entries].sum())

    def run(self, move_back: int = 0, everything: bool = False) -> RoutingPlan:
        """Clean `move_back` entries (Phase I), prepare (Phase II; all keys with ``everything``), assign (Phase III)."""
        origin, at, resident = self._split(move_back)
        load, n = self.keys.load[origin], self.problem.workload.nodes
        by_load, by_psi = self._orders(origin)
        waiting = np.zeros_like(resident)
        leaves = np.full(at.size, True) if everything else ~self.kept[at]
        waiting[leaves], resident[leaves] = resident[leaves], 0
        grouped = by_psi[np.argsort(at[by_psi], kind="stable")]
        start = np.concatenate(([0], np.cumsum(np.bincount(at, minlength=n))))
        used = node_loads(load, at, resident, n)
        records = RoutingRecords(load, at, self.keys.home[origin], by_load, grouped, start)
        nodes = RoutingNodes(self.limit, self.problem.workload.capacity, self.kept)
        units = UnitsPlaced(resident, waiting, used, start[:-1].copy())
        prepare(records, nodes, units)
        room = int(resident.sum() + waiting.sum())
        shares = RoutingShares(*(np.empty(room, dtype=np.int64) for _ in range(3)))
        written, forced = llfd(records, nodes, units, shares)
        stays = np.flatnonzero(resident)
        record, to, count = (share[:written] for share in shares)
        assignment = self.keys.expand(
            np.concatenate([origin[stays], origin[record]]),
            np.concatenate([at[stays], to]),
            np.concatenate([resident[stays], count]),
        )
        return RoutingPlan(self.problem, assignment, used, int(forced), move_back)

    def _split(self, move_back: int) -> tuple[IntArray, IntArray, IntArray]:
        """Phase I: records after moving some entries back: which record each was, its node d', its units."""
        k = self.keys
        origin, at, units = np.arange(k.size), k.current.copy(), k.count.copy()
        total = np.cumsum(k.count[self.entries])
        whole = self.entries[: np.searchsorted(total, move_back, side="right")]
        at[whole] = k.home[whole]
        rest = move_back - int(k.count[whole].sum())
        if rest > 0 and whole.size < self.entries.size:  # a record of which only some units go back
            part = self.entries[whole.size]
            units[part] -= rest
            origin, at, units = np.append(origin, part), np.append(at, k.home[part]), np.append(units, rest)
        return origin, at, units

    def _orders(self, origin: IntArray) -> tuple[IntArray, IntArray]:
        """The two orders of the records, with a split record's second part right behind its first."""
        if origin.size == self.keys.size:
            return self.by_load, self.by_psi
        extra = origin.size - 1
        placed = (
            np.insert(order, np.flatnonzero(order == origin[extra])[0] + 1, extra)
            for order in (self.by_load, self.by_psi)
        )
        return next(placed), next(placed)


# The loops of mixed routing, compiled. One LLFD serves every algorithm, and keys and records of keys alike.
#
# Arrays are over r records or n nodes. A record has `resident` units on its node `at` and `waiting` ones in C, the
# candidate set; a key of the full key space is a record of one unit.


class RoutingRecords(NamedTuple):
    """The records, and the orders in which they are treated."""

    load: FloatArray
    at: IntArray
    home: IntArray
    by_load: IntArray
    """Records by falling load."""
    grouped: IntArray
    """Records in psi's order by node, and where each node's begin."""
    start: IntArray


class RoutingNodes(NamedTuple):
    """The load limits of the nodes."""

    limit: FloatArray
    capacity: FloatArray
    kept: BoolArray


class UnitsPlaced(NamedTuple):
    """Where the units are, while they are moved."""

    resident: IntArray
    waiting: IntArray
    used: FloatArray
    """Load of each node."""
    cursor: IntArray
    """How far psi's order of each node has been passed over."""


class RoutingShares(NamedTuple):
    """The decisions, one entry each: how many units of a record go to which node."""

    record: IntArray
    to: IntArray
    units: IntArray


@njit(cache=True)
def node_loads(load, at, units, nodes):
    """Load of each node."""
    used = np.zeros(nodes)
    for r in range(load.size):
        used[at[r]] += load[r] * units[r]
    return used


@njit(**LEAF)
def release(d, excess, below, records, units):
    """Disassociate units of node d into C, in psi's order, until `excess` is covered; only loads under `below`.

    The cursor never goes back: `below` never grows during a run, so what it passes over stays passed over.
    """
    load = records.load
    resident, waiting, used, cursor = units
    released, end = 0.0, records.start[d + 1]
    while released < excess and cursor[d] < end:
        r = records.grouped[cursor[d]]
        if resident[r] == 0 or load[r] <= 0.0 or load[r] >= below:
            cursor[d] += 1
            continue
        leaving, wanted = resident[r], excess - released
        if leaving * load[r] > wanted:  # else loads may be too far apart for a quotient in 64 bits
            leaving = np.int64(np.ceil(wanted / load[r]))
        resident[r] -= leaving
        waiting[r] += leaving
        released += leaving * load[r]
        used[d] -= leaving * load[r]
    return released


@njit(**LEAF)
def prepare(records, nodes, units):
    """Phase II: take keys off every overloaded node, in psi's order, until it is within its limit."""
    for d in range(nodes.limit.size):
        if nodes.kept[d] and units.used[d] > nodes.limit[d]:
            release(d, units.used[d] - nodes.limit[d], np.inf, records, units)


@njit(**LEAF)
def _next_node(used, tried, nodes):
    """The least loaded node per capacity that was not tried yet, the lower number first; -1 when there is none."""
    best, capacity = -1, nodes.capacity
    for d in range(used.size):
        if nodes.kept[d] and not tried[d] and (best < 0 or used[d] / capacity[d] < used[best] / capacity[best]):
            best = d
    return best


@njit(cache=True)
def llfd(records, nodes, units, shares):
    """Phase III, algorithm 1: place everything in C; returns (shares written, units placed over the limit).

    Units are treated in descending order of load. What `adjust` throws out is strictly lighter than the unit it
    makes room for, so one sweep down the order of all records meets every unit once: there is no heap, and the loop
    ends after at most as many placements as there are units. O(units in C * n + r).

    Where no node accepts a unit (the print does not say), it goes to the least loaded one, and is counted.
    """
    load, at, home, by_load = records.load, records.at, records.home, records.by_load
    resident, waiting, used = units.resident, units.waiting, units.used
    record, to, count = shares
    lighter = node_loads(load, at, resident, used.size)  # residents lighter than the unit at hand
    heavy = written = over = 0
    tried = np.zeros(used.size, np.bool_)
    for r in by_load:
        while heavy < by_load.size and load[by_load[heavy]] >= load[r]:
            q = by_load[heavy]
            lighter[at[q]] -= load[q] * resident[q]
            heavy += 1
        while waiting[r] > 0:
            tried[:] = False
            number = 1
            if load[r] == 0.0:  # our own: keys without load have nothing to balance, and go where the hash says
                number = waiting[r]
                target = home[r] if nodes.kept[home[r]] else _next_node(used, tried, nodes)
            else:
                target = -1
                d = _next_node(used, tried, nodes)
                first = d
                while d >= 0 and target < 0:
                    excess = used[d] + load[r] - nodes.limit[d]
                    if excess <= 0.0:  # line 12; printed with <, which Figure 4 itself cannot bear
                        target = d
                    elif lighter[d] >= excess:  # lines 14-18, conditions (i)-(iii)
                        lighter[d] -= release(d, excess, load[r], records, units)
                        target = d
                    else:
                        tried[d] = True
                        d = _next_node(used, tried, nodes)
                if target < 0:
                    target = first
                    over += 1
            waiting[r] -= number
            used[target] += load[r] * number  # lines 4 and 12 print L_{i-1}; it has to be this running estimate
            if written > 0 and record[written - 1] == r and to[written - 1] == target:
                count[written - 1] += number
            else:
                record[written], to[written], count[written] = r, target, number
                written += 1
    return written, over
