"""Collocated allocation as plain arrays: what the compiled loops of this folder read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from keyshift.models.allocation.problem import SLACK
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.arrays import PlacementArrays

UNLIMITED = 1e18
"""Stands for "no limit" in the compiled loops."""

BOUNDED = 10_000_000
"""Lagrangian relaxation, HiGHS and partitions are for instances whose traffic of each key group with each node is at most so many
numbers: of larger ones they say nothing within minutes."""


@dataclass(frozen=True)
class Arrays(PlacementArrays[CollocatedAllocation]):
    """k windows: loads in units of each one's mean node load, traffic in units of all traffic between key groups.

    Traffic has t rows: one for each window where that matters, else one. Limits are as wide as the check's.

    Parameters
    ----------
    problem : CollocatedAllocation
    """

    @cached_property
    def load_unit(self) -> FloatArray:
        """The mean load of a node in each window, were all traffic remote, shape (k,)."""
        kept = self.problem.kept_capacity
        return np.array([float(row.sum()) / kept or 1.0 for row in self.searched.load])

    @cached_property
    def load(self) -> FloatArray:
        """y, were no traffic remote, shape (k, p)."""
        loads = [window.workload.last_load for window in self.problem.by_window]
        return np.array(loads) / self.load_unit[:, None]

    @cached_property
    def remote_load(self) -> FloatArray:
        """Y, were all of it, shape (k, p)."""
        return self.searched.load / self.load_unit[:, None]

    @cached_property
    def total_remote(self) -> FloatArray:
        """Y of the whole system, shape (k,)."""
        return self.remote_load.sum(axis=1)

    @cached_property
    def serialisation(self) -> FloatArray:
        """The load of all traffic, were it remote, shape (k,)."""
        return self.searched.per_tuple * self.traffic_unit / self.load_unit

    # Traffic ---------------------------------------------------------------------------------------------------------

    @cached_property
    def traffic_unit(self) -> float:
        """All traffic between key groups."""
        return self.problem.total_traffic or 1.0

    @property
    def first(self) -> IntArray:
        """The first key group of each pair, shape (pairs,)."""
        return self.problem.pairs.first

    @property
    def second(self) -> IntArray:
        """The second one."""
        return self.problem.pairs.second

    @cached_property
    def traffic(self) -> FloatArray:
        """Traffic of each pair, both ways, shape (t, pairs)."""
        return self.problem.pair_traffic / self.traffic_unit

    @cached_property
    def row_share(self) -> FloatArray:
        """The weight of each row of traffic in the mean, shape (t,)."""
        return self.problem.planned.share if self.problem.separate else np.ones(1)

    @cached_property
    def _adjacency(self) -> sp.csr_array:
        """Both ways of each pair, numbered from 1."""
        p, numbers = self.key_groups, np.arange(1, self.first.size + 1)
        once = sp.csr_array((numbers, self.second, np.searchsorted(self.first, np.arange(p + 1))), shape=(p, p))
        return sp.csr_array(once + once.T)

    @cached_property
    def indptr(self) -> IntArray:
        """Where the neighbours of each key group begin, shape (p + 1,)."""
        return self._adjacency.indptr.astype(np.int64)

    @cached_property
    def neighbour(self) -> IntArray:
        """The neighbours, shape (entries,)."""
        return self._adjacency.indices.astype(np.int64)

    @cached_property
    def weight(self) -> FloatArray:
        """Traffic with each neighbour, shape (t, entries)."""
        return np.ascontiguousarray(self.traffic[:, self._adjacency.data - 1])

    @cached_property
    def mean_weight(self) -> FloatArray:
        """The same over the windows, shape (entries,)."""
        return self.weight[0] if self.row_share.size == 1 else self.row_share @ self.weight

    @property
    def cells(self) -> int:
        """Traffic of each key group with each node, by row of traffic: how many numbers."""
        return self.key_groups * self.nodes * self.row_share.size

    @cached_property
    def mean_traffic(self) -> FloatArray:
        """Of each pair over the windows, shape (pairs,)."""
        return self.traffic[0] if self.row_share.size == 1 else self.row_share @ self.traffic

    def together(self, assignment: IntArray) -> FloatArray:
        """Collocated traffic, of each row of traffic, shape (t,)."""
        return np.array([row[assignment[self.first] == assignment[self.second]].sum() for row in self.traffic])

    def collocated(self, assignment: IntArray) -> float:
        """Share of the traffic between key groups that stays on its node, in the mean."""
        return float(self.row_share @ self.together(assignment))

    # Limits ----------------------------------------------------------------------------------------------------------

    @cached_property
    def allowed(self) -> BoolArray:
        """Which key group may run on which node, shape (p, n)."""
        return self.problem.allocation.open_pairs

    @cached_property
    def bands(self) -> FloatArray:
        """The most that a node may carry, as a share of all load and a rest, then the least, shape (4, k, n)."""
        problem, unit, given = self.problem, self.load_unit[:, None], self.searched.bands
        per_node = problem.workload.capacity / problem.kept_capacity
        sides = np.array([per_node, np.full(self.nodes, np.inf), per_node, np.full(self.nodes, -np.inf)])[:, None]
        bands = np.array(np.broadcast_to(sides, (4, self.windows, self.nodes)) if given is None else given)
        bands[0] += SLACK * per_node
        bands[2] -= SLACK * per_node
        bands[1], bands[3] = np.minimum(bands[1] / unit, UNLIMITED), np.maximum(bands[3] / unit, -UNLIMITED)
        return bands

    def limits(self, total: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(8) and (9) at a load of all together of shape (k,): the most and the least of each node, shape (k, n) each."""
        share, most, low_share, least = self.bands
        return share * total[:, None] + most, low_share * total[:, None] + least

    @cached_property
    def upper(self) -> FloatArray:
        """(8), were all traffic remote, shape (k, n)."""
        return self.limits(self.total_remote)[0]

    @cached_property
    def lower(self) -> FloatArray:
        """(9), were all traffic remote, shape (k, n)."""
        return self.limits(self.total_remote)[1]
