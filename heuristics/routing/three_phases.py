"""The three phases shared by the paper's algorithms, and the plan they end in."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from keyshift.heuristics.routing import llfd_kernels as kernels
from keyshift.models import Answer, metrics
from keyshift.models.routing import MixedRouting, RoutingTable
from keyshift.models.routing.compact import CompactKeys, every_key
from keyshift.models.workload import FloatArray, IntArray

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
        grouped, start = kernels.by_node(by_psi, at, n)
        used = kernels.node_loads(load, at, resident, n)
        records = kernels.RoutingRecords(load, at, self.keys.home[origin], by_load, grouped, start)
        nodes = kernels.RoutingNodes(self.limit, self.problem.workload.capacity, self.kept)
        units = kernels.UnitsPlaced(resident, waiting, used, start[:-1].copy())
        kernels.prepare(records, nodes, units)
        room = int(resident.sum() + waiting.sum())
        shares = kernels.RoutingShares(*(np.empty(room, dtype=np.int64) for _ in range(3)))
        written, forced = kernels.llfd(records, nodes, units, shares)
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
