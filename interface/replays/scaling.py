"""Scaling rules for `replay`: how many nodes there should be, decided on the plan ([Madsen2016], Algorithm 1, line 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from keyshift.models import InputError, Workload
from keyshift.models.guards import real
from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True)
class Planned:
    """What a scaling rule sees: the plan, not the present.

    Attributes
    ----------
    workload : Workload
        What the plan was made for.
    assignment : ndarray
        The node of each key group under the plan.
    node_loads : ndarray
        The load of each node that the plan would bring.
    """

    workload: Workload
    assignment: IntArray
    node_loads: FloatArray


@dataclass(frozen=True)
class Scaling:
    """A scaling rule's decision.

    Attributes
    ----------
    add : int
        How many nodes of capacity 1 to add.
    drain : tuple of int
        Which nodes of the plan's workload to drain.
    """

    add: int = 0
    drain: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self.add > 0 or len(self.drain) > 0


class ScalingRule(Protocol):
    """Any callable from a plan to a decision."""

    def __call__(self, planned: Planned) -> Scaling:
        """Decide."""


@dataclass(frozen=True)
class TargetUtilisation:
    """Keep the mean utilisation of the kept nodes near a target.

    Above `high` (mean, or any node's by the plan) nodes are added, below `low` the least loaded are drained, in either
    case so many that the mean comes to `target` or just below it. No node is drained while another still drains.

    Parameters
    ----------
    node_load : float
        Load that a node of capacity 1 can carry, > 0.
    target, low, high : float
        Utilisation, 0 < low < target < high.
    """

    node_load: float
    target: float = 0.7
    low: float = 0.5
    high: float = 0.9

    def __post_init__(self) -> None:
        real("node_load", self.node_load, optional=False, above=True)
        if not 0 < self.low < self.target < self.high:
            raise InputError(f"low = {self.low}, target = {self.target}, high = {self.high} must rise, from above 0")

    def __call__(self, planned: Planned) -> Scaling:
        w = planned.workload
        capacity = float(w.capacity[w.kept].sum())
        total = float(planned.node_loads.sum())
        busiest = float((planned.node_loads / w.capacity).max()) / self.node_load
        mean = total / (capacity * self.node_load)
        wanted = max(1, math.ceil(total / (self.target * self.node_load) - 1e-9))
        if (mean > self.high or busiest > self.high) and wanted > capacity:
            return Scaling(add=math.ceil(wanted - capacity - 1e-9))
        if mean >= self.low or w.draining.any():
            return Scaling()
        kept = np.flatnonzero(w.kept)
        drained: list[int] = []
        for i in kept[np.argsort(planned.node_loads[kept], kind="stable")].tolist():
            if capacity - float(w.capacity[i]) < wanted - 1e-9:
                break
            capacity -= float(w.capacity[i])
            drained.append(i)
        return Scaling(drain=tuple(drained))
