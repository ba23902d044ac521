"""Key-group allocation over several windows as plain arrays, in units of the mean: what its kernels and bounds work on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import EPSILON, Instance


@dataclass(frozen=True)
class WindowInstance(Instance):
    """`Instance` with the mean load over the windows, which guides the search, and each window's own beside it.

    Parameters
    ----------
    problem : KeyGroupAllocation
    """

    @cached_property
    def loads(self) -> FloatArray:
        """Load of each key group in each window, shape (p, k)."""
        return np.ascontiguousarray(self.problem.planned.load.T / self.problem.scale)

    @cached_property
    def means(self) -> FloatArray:
        """The mean of each window, shape (k,)."""
        return np.ascontiguousarray(self.problem.means / self.problem.scale)

    @cached_property
    def load(self) -> FloatArray:
        """The mean load of each key group over the windows, shape (p,)."""
        return np.ascontiguousarray(self.loads @ self.problem.planned.share)

    @cached_property
    def mean(self) -> float:
        """The mean of the means."""
        return float(self.means @ self.problem.planned.share)

    @property
    def windows(self) -> int:
        """Number of windows, k."""
        return int(self.means.size)

    def window_deviations(self, assignment: IntArray) -> FloatArray:
        """Deviation of every node in every window, shape (n, k)."""
        loads = np.zeros((self.nodes, self.windows))
        np.add.at(loads, assignment, self.loads)
        return loads * self.weight[:, None] - self.means

    def sizes(self, deviations: FloatArray) -> FloatArray:
        """How far nodes are from the mean, draining ones upwards only, shape (n, k)."""
        return np.where(self.draining[:, None], np.maximum(deviations, 0.0), np.abs(deviations))

    def window_distances(self, deviations: FloatArray) -> FloatArray:
        """The load distance in each window from deviations of shape (n, k)."""
        return np.asarray(self.sizes(deviations).max(axis=0))

    def distance(self, assignment: IntArray) -> float:
        """The combined load distance in units of the mean."""
        return self.problem.planned.combined(self.window_distances(self.window_deviations(assignment)))

    @cached_property
    def doubt(self) -> float:
        """More than rounding can have added to any deviation computed from these arrays."""
        return 8 * EPSILON * (self.key_groups + self.windows + 50) * self.total

    @cached_property
    def total(self) -> float:
        """No deviation is larger: all that there is on one node, or nothing."""
        return float(self.loads.sum(axis=0).max() * self.weight.max() + self.means.max())
