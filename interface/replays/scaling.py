"""Scaling rules for `replay`: how many nodes there should be, decided on the plan ([Madsen2016], Algorithm 1, line 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from keyshift.models import InputError, Workload
from keyshift.models.guards import real, whole
from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True)
class Planned:
    """The input of a scaling rule: the situation after the plan.

    Attributes
    ----------
    workload : Workload
        What the plan was made for.
    assignment : ndarray
        The node of each key group under the plan.
    node_loads : ndarray
        The load of each node that the plan would bring.
    period : int
        The period of the replay.
    """

    workload: Workload
    assignment: IntArray
    node_loads: FloatArray
    period: int = 0


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

    If the mean utilisation, or that of any node under the plan, is above `high`, nodes are added; if the mean is below
    `low`, the least loaded nodes are drained. In either case the mean becomes `target` or slightly less. No node is
    drained while another still drains.

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


@dataclass(frozen=True)
class NodeCounts:
    """A known sequence of node counts, for example from a schedule or a forecast of the arrivals.

    Nodes are added, or the least loaded drained, to reach the count; problems of contiguous intervals use the counts
    directly.

    Parameters
    ----------
    counts : sequence of int
        Nodes after the plan of each period, each >= 1; the last one stays.
    ahead : int, default 1
        How many future counts a plan may use; a migration sequence uses all of them.
    """

    counts: tuple[int, ...]
    ahead: int = 1

    def __post_init__(self) -> None:
        given = list(self.counts) if np.ndim(self.counts) == 1 else []
        if not given:
            raise InputError(f"counts = {self.counts!r} must be a sequence of at least one number of nodes")
        read = tuple(whole(f"counts[{t}]", n, least=1, optional=False) for t, n in enumerate(given))
        object.__setattr__(self, "counts", read)
        whole("ahead", self.ahead, least=1, optional=False)

    def known(self, period: int) -> tuple[int, ...]:
        """The counts after this period and the next ones, as far as a plan may know them."""
        return self.counts[period : period + self.ahead] or self.counts[-1:]

    def __call__(self, planned: Planned) -> Scaling:
        w, wanted = planned.workload, self.known(planned.period)[0]
        kept = np.flatnonzero(w.kept)
        least = kept[np.argsort(planned.node_loads[kept], kind="stable")]
        return Scaling(max(0, wanted - kept.size), tuple(least[: max(0, kept.size - wanted)].tolist()))
