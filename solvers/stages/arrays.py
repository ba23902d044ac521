"""The three problems with priorities as one set of arrays, for the search that serves them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.problem import SLACK
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.priorities import Prioritised
from keyshift.models.routing import MixedRouting
from keyshift.models.workload import FloatArray, IntArray, Workload
from keyshift.solvers.stages.search_kernels import DISTANCE, DRAINING, LINEAR, REMOTE, SPREAD, StageData

UNLIMITED = 1e18
MIGRATIONS, STATE, TABLE, COST = LINEAR, LINEAR + 1, LINEAR + 2, LINEAR + 3
PLACES = {
    "remote_traffic": REMOTE, "total_load": REMOTE, "load_distance": DISTANCE, "deviation_sum": SPREAD,
    "draining_load": DRAINING, "migrations": MIGRATIONS, "state_moved": STATE, "table_size": TABLE,
}  # fmt: skip
"""Where each measure stands among the loop's; the total load falls and rises with the remote traffic."""


class SearchArrays:
    """A problem's data for the search, and its measures in the search's units.

    Attributes
    ----------
    data : StageData
    limits : ndarray
        The most of each measure that the problem's own limits allow.
    """

    def __init__(self, problem: Any) -> None:  # a Prioritised one: each kind has data of its own
        self.problem: Prioritised = problem
        w = self.workload = problem.workload
        collocated = isinstance(problem, CollocatedAllocation)
        load = problem.remote_loads if collocated else w.last_load
        self.load_unit = float(load.sum()) / float(w.capacity[w.kept].sum()) or 1.0
        self.traffic_unit = problem.total_traffic or 1.0 if collocated else 1.0
        graph = _graph(problem)
        share, rest = (1 / float(w.capacity[w.kept].sum()), 0.0) if collocated else (0.0, 1.0)
        if isinstance(problem, KeyGroupAllocation):
            rest = problem.mean_load / self.load_unit
        cost = problem.load_model.per_tuple * self.traffic_unit / self.load_unit if collocated else 0.0
        allocation = problem.allocation if collocated else problem
        use, room = self._rooms(allocation)
        home = w.current if w.home is None else w.home
        weights = [np.ones(w.key_groups), w.state / (float(w.state.sum()) or 1.0), np.ones(w.key_groups)]
        if w.home is None:
            weights[2] = np.zeros(w.key_groups)
        self.limits = np.full(LINEAR + 4, UNLIMITED)
        weights.append(self._own_limits(allocation))
        anchors = [w.current, w.current, home, w.current]
        made = StageData(
            current=w.current, allowed=_allowed(allocation), load=load / self.load_unit,
            indptr=graph.indptr.astype(np.int64), neighbour=graph.indices.astype(np.int64), weight=graph.data,
            numbers=np.array([cost, share, rest]), capacity=w.capacity.astype(float), kept=np.ascontiguousarray(w.kept),
            bands=self._bands(), use=use, room=room, anchor=np.array(anchors), away=np.array(weights, dtype=float),
        )  # fmt: skip
        # Copies: read-only arrays are another type to the compiler, and one type shall serve all problems.
        self.data = StageData(*(np.array(part, order="C") for part in made))

    def _own_limits(self, problem: Prioritised) -> FloatArray:
        """Write the problem's limits down; the result is each key group's migration cost, in units of its limit."""
        w: Workload = self.workload
        if isinstance(problem, MixedRouting):
            self.limits[TABLE] = problem.table_limit
            return np.zeros(w.key_groups)
        assert isinstance(problem, KeyGroupAllocation)
        if problem.max_migrations is not None:
            self.limits[MIGRATIONS] = problem.max_migrations
        if problem.distance_floor:
            self.limits[DISTANCE] = problem.mean_load / self.load_unit
        if problem.max_migration_cost is None:
            return np.zeros(w.key_groups)
        self.limits[COST] = 1 + SLACK
        limit, cost = problem.max_migration_cost, problem.migration_cost
        return np.minimum(cost / limit, 2.0) if limit > 0 else np.where(cost > 0, 2.0, 0.0)

    def _rooms(self, problem: Any) -> tuple[FloatArray, FloatArray]:
        w, named = self.workload, getattr(problem, "resource_capacity", None) or {}
        use: FloatArray = np.array([problem.usage(name) for name in named], dtype=np.float64)
        room = np.array([np.asarray(limit) * (1 + SLACK) for limit in named.values()], dtype=float)
        return use.reshape(len(named), w.key_groups), room.reshape(len(named), w.nodes)

    def _bands(self) -> FloatArray:
        """The most and the least that each node may carry: share of all load, rest; the rest in means."""
        p, w = self.problem, self.workload
        bands = np.zeros((4, w.nodes))
        bands[1], bands[3] = UNLIMITED, -UNLIMITED
        if isinstance(p, MixedRouting):
            bands[1] = np.where(w.kept, (p.upper + p.slack) / self.load_unit, 0.0)
            bands[3] = (p.lower - p.slack) / self.load_unit
        elif isinstance(p, CollocatedAllocation) and p.max_load_distance is not None:
            per_node = w.capacity / p.kept_capacity
            relative = p.distance_unit == "percent"
            share = (p.max_load_distance / 100 if relative else 0.0) + SLACK
            rest = 0.0 if relative else p.max_load_distance / self.load_unit
            bands[0], bands[1] = per_node * (1 + share), rest * w.capacity
            bands[2], bands[3] = per_node * (1 - share), np.where(w.kept, -rest, -UNLIMITED) * w.capacity
        return bands

    def value(self, measure: str, value: float) -> float:
        """A value of a measure in the search's units."""
        if measure == "total_load":
            cost = self.data.numbers[0] * self.load_unit
            remote = value - (float(self.data.load.sum()) * self.load_unit - cost)
            return remote / cost if cost > 0 else UNLIMITED
        units = {
            REMOTE: self.traffic_unit, DISTANCE: self.load_unit, SPREAD: self.load_unit, DRAINING: self.load_unit,
            STATE: float(self.workload.state.sum()) or 1.0,
        }  # fmt: skip
        return value / units.get(PLACES[measure], 1.0)


def _graph(problem: Prioritised) -> sp.csr_array:
    """Shares of the traffic between key groups, both ways; empty where traffic does not count."""
    p = problem.workload.key_groups  # type: ignore[attr-defined]
    if not isinstance(problem, CollocatedAllocation):
        return sp.csr_array((p, p))
    pairs: IntArray = np.r_[problem.pairs.first, problem.pairs.second]
    others = np.r_[problem.pairs.second, problem.pairs.first]
    return sp.csr_array(
        (np.tile(problem.pairs.traffic / (problem.total_traffic or 1.0), 2), (pairs, others)), shape=(p, p)
    )


def _allowed(problem: Prioritised) -> np.ndarray:
    if isinstance(problem, KeyGroupAllocation):
        return np.ascontiguousarray(problem.open_pairs)
    w = problem.workload  # type: ignore[attr-defined]
    return np.broadcast_to(w.kept, (w.key_groups, w.nodes)).copy()
