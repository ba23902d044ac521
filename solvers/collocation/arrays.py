"""Collocated allocation as plain arrays: what the compiled loops of this folder read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from keyshift.models.allocation.problem import SLACK
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import BoolArray, FloatArray, IntArray

UNLIMITED = 1e18
"""Stands for "no limit" in the compiled loops."""


@dataclass(frozen=True)
class Arrays:
    """k windows: loads in units of each one's mean node load, traffic in units of all traffic between key groups.

    (8) reads ``load[s, i] <= upper_share[i] * total[s] + upper_extra[s, i]``, (9) the same from below; (7) stacks one row
    for each limited resource, in units of its limit. Traffic has t rows: one for each window where that matters, else one.
    """

    problem: CollocatedAllocation
    current: IntArray  # (p,)
    load: FloatArray  # y, (k, p)
    remote_load: FloatArray  # Y, (k, p)
    cost: FloatArray  # load of all traffic, were it remote, (k,)
    indptr: IntArray  # (p + 1,), symmetric adjacency
    neighbour: IntArray
    weight: FloatArray  # traffic of the pair, both ways, (t, entries)
    first: IntArray  # (pairs,)
    second: IntArray
    traffic: FloatArray  # (t, pairs)
    upper_share: FloatArray  # (n,)
    upper_extra: FloatArray  # (k, n)
    lower_share: FloatArray  # (n,)
    lower_extra: FloatArray  # (k, n)
    max_moves: int
    move_cost: FloatArray  # (p,), in units of the limit; 0 without one
    use: FloatArray  # (resources, p), in units of the node's limit where all nodes have the same
    capacity: FloatArray  # (resources, n)
    traffic_unit: float
    load_unit: FloatArray  # (k,)
    row_share: FloatArray  # the weight of each row of traffic in the mean, (t,)

    @property
    def key_groups(self) -> int:
        return int(self.current.size)

    @cached_property
    def allowed(self) -> BoolArray:
        """Which key group may run on which node, (p, n)."""
        return self.problem.allocation.open_pairs

    @property
    def cells(self) -> int:
        """Traffic of each key group with each node, by row of traffic: how many numbers."""
        return self.key_groups * self.nodes * self.row_share.size

    @property
    def nodes(self) -> int:
        return int(self.upper_share.size)

    @property
    def windows(self) -> int:
        return int(self.cost.size)

    @cached_property
    def total_remote(self) -> FloatArray:
        """Load of the whole system were all traffic remote, in means, (k,)."""
        return self.remote_load.sum(axis=1)

    @cached_property
    def upper(self) -> FloatArray:
        """The upper limits (8) on node loads were all traffic remote, (k, n)."""
        return self.upper_share * self.total_remote[:, None] + self.upper_extra

    @cached_property
    def lower(self) -> FloatArray:
        """The lower limits (9) on node loads were all traffic remote, (k, n)."""
        return self.lower_share * self.total_remote[:, None] + self.lower_extra

    @cached_property
    def mean_traffic(self) -> FloatArray:
        """Of each pair over the windows, (pairs,)."""
        return self.traffic[0] if self.row_share.size == 1 else self.row_share @ self.traffic

    def together(self, assignment: IntArray) -> FloatArray:
        """Collocated traffic, of each row of traffic, (t,)."""
        return np.array([row[assignment[self.first] == assignment[self.second]].sum() for row in self.traffic])

    def collocated(self, assignment: IntArray) -> float:
        """Share of the traffic between key groups that stays on its node, in the mean."""
        return float(self.row_share @ self.together(assignment))


def arrays_of(problem: CollocatedAllocation) -> Arrays:
    """The problem in arrays; every limit is as wide as the check's, rounding included."""
    w, pairs, it = problem.workload, problem.pairs, problem.searched()
    traffic_unit, per_node = problem.total_traffic or 1.0, w.capacity / problem.kept_capacity
    load_unit = np.array([float(row.sum()) / problem.kept_capacity or 1.0 for row in it.load])
    sides = np.array([per_node, np.full(w.nodes, np.inf), per_node, np.full(w.nodes, -np.inf)])[:, None]
    share, upper, low_share, lower = (
        np.broadcast_to(sides, (4, load_unit.size, w.nodes)) if it.bands is None else it.bands
    )
    traffic = problem.pair_traffic / traffic_unit
    ends = (np.r_[pairs.first, pairs.second], np.r_[pairs.second, pairs.first])
    places = sp.csr_array((np.arange(1, 2 * len(pairs) + 1), ends), shape=(w.key_groups, w.key_groups))
    places.sort_indices()
    cost, limit = problem.allocation.migration_cost, it.cost_limit
    move_cost = np.zeros(w.key_groups) if limit is None else cost / limit if limit > 0 else np.where(cost > 0, 2.0, 0.0)
    return Arrays(
        problem=problem, current=w.current,
        load=np.array([window.workload.last_load for window in problem.by_window]) / load_unit[:, None],
        remote_load=it.load / load_unit[:, None], cost=it.per_tuple * traffic_unit / load_unit,
        indptr=places.indptr.astype(np.int64), neighbour=places.indices.astype(np.int64),
        weight=np.ascontiguousarray(np.tile(traffic, 2)[:, places.data - 1]),
        first=pairs.first, second=pairs.second, traffic=traffic,
        upper_share=share[0] + SLACK * per_node, upper_extra=np.minimum(upper / load_unit[:, None], UNLIMITED),
        lower_share=low_share[0] - SLACK * per_node, lower_extra=np.maximum(lower / load_unit[:, None], -UNLIMITED),
        max_moves=it.most_moves, move_cost=move_cost,
        use=np.array([use for use, _ in it.rooms]).reshape(len(it.rooms), w.key_groups),
        capacity=np.array([room for _, room in it.rooms]).reshape(len(it.rooms), w.nodes),
        traffic_unit=traffic_unit, load_unit=load_unit, row_share=problem.planned.share if problem.separate else np.ones(1),
    )  # fmt: skip
