"""Collocated allocation as plain arrays: what the compiled loops of this folder read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from keyshift.models.allocation.problem import SLACK
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import BoolArray, FloatArray, IntArray

UNLIMITED = 1e18
"""Stands for "no limit" in the compiled loops."""


@dataclass(frozen=True)
class Arrays:
    """Loads in units of the mean node load, traffic in units of all traffic between key groups.

    (8) reads ``load[i] <= upper_share[i] * total + upper_extra[i]``, (9) the same from below; (7) stacks one row
    for each limited resource, in units of its limit.
    """

    current: IntArray  # (p,)
    allowed: BoolArray  # (p, n)
    load: FloatArray  # y, (p,)
    remote_load: FloatArray  # Y, (p,)
    cost: float  # load of all traffic, were it remote
    indptr: IntArray  # (p + 1,), symmetric adjacency
    neighbour: IntArray
    weight: FloatArray  # traffic of the pair, both ways
    first: IntArray  # (pairs,)
    second: IntArray
    traffic: FloatArray
    upper_share: FloatArray  # (n,)
    upper_extra: FloatArray
    lower_share: FloatArray
    lower_extra: FloatArray
    max_moves: int
    move_cost: FloatArray  # (p,), in units of the limit; 0 without one
    use: FloatArray  # (resources, p), in units of the node's limit where all nodes have the same
    capacity: FloatArray  # (resources, n)
    traffic_unit: float
    load_unit: float

    @property
    def key_groups(self) -> int:
        return int(self.current.size)

    @property
    def nodes(self) -> int:
        return int(self.upper_share.size)

    @property
    def total_remote(self) -> float:
        """Load of the whole system were all traffic remote, in means."""
        return float(self.remote_load.sum())

    def collocated(self, assignment: IntArray) -> float:
        """Share of the traffic between key groups that stays on its node."""
        return float(self.traffic[assignment[self.first] == assignment[self.second]].sum())


def arrays_of(problem: CollocatedAllocation) -> Arrays:
    """The problem in arrays; every limit is as wide as the check's, rounding included."""
    w, pairs = problem.workload, problem.pairs
    traffic_unit = problem.total_traffic or 1.0
    load_unit = float(problem.remote_loads.sum()) / problem.kept_capacity or 1.0
    share, extra = 0.0, 0.0
    if problem.max_load_distance is None:
        extra = UNLIMITED
    elif problem.distance_unit == "percent":
        share = problem.max_load_distance / 100
    else:
        extra = problem.max_load_distance / load_unit
    share += 2 * SLACK
    per_node = w.capacity / problem.kept_capacity
    low_extra = np.where(w.kept, -extra, -UNLIMITED) * w.capacity
    graph = sp.csr_array(
        (
            np.tile(pairs.traffic / traffic_unit, 2),
            (np.r_[pairs.first, pairs.second], np.r_[pairs.second, pairs.first]),
        ),
        shape=(w.key_groups, w.key_groups),
    )
    graph.sort_indices()
    limit = problem.max_migration_cost
    cost = problem.allocation.migration_cost
    move_cost = np.zeros(w.key_groups) if limit is None else cost / limit if limit > 0 else np.where(cost > 0, 2.0, 0.0)
    names = list(problem.resource_capacity or {})
    return Arrays(
        current=w.current, allowed=problem.allocation.open_pairs, load=w.last_load / load_unit,
        remote_load=problem.remote_loads / load_unit,
        cost=problem.load_model.per_tuple * traffic_unit / load_unit,
        indptr=graph.indptr.astype(np.int64), neighbour=graph.indices.astype(np.int64), weight=graph.data,
        first=pairs.first, second=pairs.second, traffic=pairs.traffic / traffic_unit,
        upper_share=per_node * (1 + share), upper_extra=np.full(w.nodes, extra) * w.capacity,
        lower_share=per_node * (1 - share), lower_extra=low_extra,
        max_moves=_most_moves(problem), move_cost=move_cost,
        use=np.array([problem.allocation.usage(name) for name in names]).reshape(len(names), w.key_groups),
        capacity=np.array([(problem.resource_capacity or {})[name] for name in names]).reshape(len(names), w.nodes),
        traffic_unit=traffic_unit, load_unit=load_unit,
    )  # fmt: skip


def _most_moves(problem: CollocatedAllocation) -> int:
    """How many key groups may move at most, by number and by cost."""
    most = problem.workload.key_groups if problem.max_migrations is None else problem.max_migrations
    if problem.max_migration_cost is not None:
        cheapest = np.cumsum(np.sort(problem.allocation.migration_cost))
        most = min(most, int((cheapest <= problem.max_migration_cost * (1 + 2 * SLACK) + 1e-300).sum()))
    return min(most, problem.workload.key_groups)
