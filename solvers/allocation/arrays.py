"""Key-group allocation as plain arrays, in units of the mean: what the Numba kernels work on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.rules import RULES
from keyshift.models.workload import BoolArray, FloatArray, IntArray, MoveSpace
from keyshift.solvers.arrays import PlacementArrays

EPSILON = float(np.finfo(np.float64).eps)
SEARCHED = ("distance_floor",)
"""The rules that the annealing leaves to the check: (5)."""
PLANNED = (*SEARCHED, "max_migration_cost", "resource_capacity", *RULES)
"""Those that a plan leaves to the check besides, before it is polished."""


@dataclass(frozen=True)
class Instance(PlacementArrays[KeyGroupAllocation]):
    """The data of one problem over k windows, loads divided by its `scale` (the mean node load).

    Node i's deviation in a window is ``sum of load on i * weight[i] - mean``. Methods with one number for each key group
    take the mean over the windows, `load`, `mean` and `deviations`; of one window that is its own.

    Parameters
    ----------
    problem : KeyGroupAllocation
    """

    @property
    def space(self) -> MoveSpace:
        """Who may go where."""
        return self.problem.space

    @cached_property
    def loads(self) -> FloatArray:
        """Load of each key group in each window, shape (p, k)."""
        return np.ascontiguousarray(self.problem.planned.load.T / self.problem.scale)

    @cached_property
    def means(self) -> FloatArray:
        """The mean of the formulation in each window, 1 where there is one unless rounded up, shape (k,)."""
        return np.ascontiguousarray(self.problem.means / self.problem.scale)

    @property
    def by_window(self) -> tuple[Instance, ...]:
        """The instance of each window alone, each in units of its own; this one where there is one."""
        return self._several_windows if self.windows > 1 else (self,)

    @cached_property
    def _several_windows(self) -> tuple[Instance, ...]:
        return tuple(Instance(window) for window in self.problem.by_window)

    @cached_property
    def load(self) -> FloatArray:
        """The mean load of each key group over the windows, shape (p,)."""
        return np.ascontiguousarray(self.loads @ self.problem.planned.share)

    @cached_property
    def weight(self) -> FloatArray:
        """One over the capacity of each node, shape (n,)."""
        return 1.0 / self.problem.workload.capacity

    @cached_property
    def mean(self) -> float:
        """The mean of the means."""
        return float(self.means @ self.problem.planned.share)

    @cached_property
    def draining(self) -> BoolArray:
        """Nodes whose deviation counts upwards only, shape (n,)."""
        return np.ascontiguousarray(self.problem.workload.draining)

    def effort(self, share: float) -> FloatArray:
        """The effort of each move: how much of the limits of (2) it takes, in units of which there are `max_moves`, shape (p,).

        The limit on cost stands for a `share` of the units, the limit on their number for the rest.
        """
        if share == 0:
            return np.ones(self.key_groups)
        return 1.0 - share + share * self.max_moves * self.cost_share

    @cached_property
    def total(self) -> float:
        """No deviation is larger: all that there is on one node, or nothing."""
        return float((self.loads.T.sum(axis=1) * self.weight.max() + self.means).max())

    @cached_property
    def excess_weight(self) -> float:
        """The weight of a node over a capacity: more than any deviation in an answer."""
        broken = self.problem.lowered and self.problem.lowered.excess(self.current) > 0
        if not broken and (self.used(self.current) <= self.room).all():
            return 1.0 + self.distance(self.current)
        return 1.0 + self.total

    @cached_property
    def error_bound(self) -> float:
        """More than rounding can have added to any deviation computed from these arrays."""
        return 8 * EPSILON * (self.key_groups + self.windows + 49) * self.total

    @cached_property
    def least(self) -> float:
        """The distance that one key group alone makes for, on the largest node that it may run on."""
        lightest = np.where(self.space.enter, self.weight, math.inf).min(axis=1)[self.space.kind]
        lightest = np.minimum(lightest, self.weight[self.current])
        alone = (self.loads * lightest[:, None]).max(axis=0) - self.means - self.error_bound
        return self.problem.planned.combined(alone)

    @cached_property
    def left_behind(self) -> float:
        """What kept nodes lack of the mean, on average, though the heaviest key groups of draining ones come, as many as may."""
        leaving, kept = self.draining[self.current], ~self.draining
        come = np.sort(self.loads[leaving], axis=0)[max(0, int(leaving.sum()) - self.max_moves) :].sum(axis=0)
        most = (self.loads[~leaving].sum(axis=0) + come) / (1.0 / self.weight[kept]).sum()
        return self.problem.planned.combined(self.means - most - self.error_bound)

    def deviations(self, assignment: IntArray) -> FloatArray:
        """Deviation of every node by the mean load, shape (n,)."""
        return np.bincount(assignment, self.load, self.nodes) * self.weight - self.mean

    def window_deviations(self, assignment: IntArray) -> FloatArray:
        """Deviation of every node in every window, shape (n, k)."""
        loads = np.array([np.bincount(assignment, row, self.nodes) for row in self.loads.T])
        return loads.T * self.weight[:, None] - self.means

    def sizes(self, deviations: FloatArray) -> FloatArray:
        """How far nodes are from the mean, draining ones upwards only, shape (n, k)."""
        return np.where(self.draining[:, None], np.maximum(deviations, 0.0), np.abs(deviations))

    def distances(self, assignment: IntArray) -> FloatArray:
        """The load distance in each window, shape (k,)."""
        return np.asarray(self.sizes(self.window_deviations(assignment)).max(axis=0))

    def level(self, assignment: IntArray) -> float:
        """The t of (8) at an assignment: 0 unless it is CVaR of more windows than one."""
        planned = self.problem.planned
        if planned.over != "cvar" or planned.count == 1:
            return 0.0
        distances = self.distances(assignment)
        return float(distances[planned.weights(distances) > 0].min())

    def distance(self, assignment: IntArray) -> float:
        """The load distance in units of the mean, combined over the windows."""
        return self.problem.planned.combined(self.distances(assignment))


def alike(problem: KeyGroupAllocation) -> bool:
    """Whether nodes differ in nothing but capacity, and in whether they drain: every key group may go to each that does not."""
    kept = problem.workload.kept
    apart = problem.resource_capacity or problem.lowered or not problem.space.enter[:, kept].all()
    return bool(kept.any()) and not apart


class WholeLoads(NamedTuple):
    """Every node's load is a multiple of a unit, so that few distances from the mean there are.

    Attributes
    ----------
    units : ndarray
        For each capacity that nodes have, per unit of it.
    mean : float
    least : float
        Where the mean is no multiple, some node is above it and some below; or all are below, where draining nodes keep the rest.
    error_bound : float
        What rounding may have added to a bound, far below a step between distances.
    """

    units: FloatArray
    mean: float
    least: float
    error_bound: float

    def at_least(self, bound: float) -> float:
        """The least distance that is no less than a bound, less what rounding may have added."""
        error_bound = self.error_bound
        above = np.ceil((self.mean + bound - error_bound) / self.units) * self.units - self.mean
        below = self.mean - np.floor((self.mean - bound + error_bound) / self.units) * self.units
        least = max(float(np.minimum(above, below).min()), self.least)
        return max(bound, least - error_bound)


def least_distance(problem: KeyGroupAllocation, multiple: int) -> float:
    """The distance of loads that are whole multiples, on nodes that are alike, from a mean that is none; else 0."""
    w, load = problem.workload, problem.workload.last_load.astype(np.int64) // multiple
    nodes = int(w.kept.sum())
    rest = int(load.sum()) % nodes
    if problem.mean != "exact" or not (w.capacity == 1).all() or rest == 0:
        return 0.0
    mask, stays = (1 << nodes) - 1, 1  # bit r: draining nodes can keep a load of r
    for units in load[w.draining[w.current]].tolist():
        stays |= (stays << min(units, nodes)) & mask
    lower = bool(stays >> rest & 1) or (w.draining.any() and problem.into_draining)
    return multiple * (rest if lower else max(rest, nodes - rest)) / nodes


def whole_loads(problem: KeyGroupAllocation) -> WholeLoads | None:
    """The distances there are, where loads are whole multiples of a unit; None over more windows than the last, too."""
    w, load = problem.workload, problem.workload.last_load
    # Up to so large sums are exact, and so are distances, but for the mean's rounding.
    whole = np.array_equal(load, np.rint(load)) and 0 < load.sum() < 2**40
    if problem.several or not whole:
        return None
    multiple = int(np.gcd.reduce(load.astype(np.int64)))
    least = least_distance(problem, multiple)
    mean, step = problem.mean_load, problem.step_of("load_distance")
    return WholeLoads(multiple / np.unique(w.capacity), mean, least, min(1e-9 * mean, step / 16))
