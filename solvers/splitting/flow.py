"""The least possible largest load, by maximum flow and minimum cuts.

Groups of like messages on the left, workers on the right: all messages fit under a largest load T exactly when a
flow from the groups through their candidates fills them all, with room for T on every worker. A cut that proves
that they do not fit names a set B of workers whose own messages - those with all candidates in B - need more
than T. The least T that they need is the next one to try (Newton's method on the cuts, after Dinkelbach). Each T is a
lower bound by that set alone, so the first T that fits is the optimum, and B its proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from ortools.graph.python.max_flow import SimpleMaxFlow

from keyshift.models import Answer, Budget
from keyshift.models.base.integers import scaled
from keyshift.models.splitting import KeySplitting
from keyshift.models.splitting.items import Groups, Items
from keyshift.models.workload import FloatArray, IntArray

ROUNDING = 1e-12
"""Relative rounding taken off a bound that is a quotient of sums of floats."""


@dataclass(frozen=True, eq=False)
class Flow:
    """Where the search for the least T ended.

    Attributes
    ----------
    bound : float
        No assignment's largest load is below it.
    share : ndarray or None
        What of each group goes to each of its options when `bound` is reached; None if the budget ended first.
    binding : ndarray of bool, shape (W,)
        The workers whose own messages prove the bound.
    rounds : int
        Maximum flows computed.
    """

    bound: float
    share: np.ndarray | None
    binding: np.ndarray = field(repr=False)
    rounds: int


class _Network:
    """Source, groups, workers, sink. Capacities of the workers change from round to round."""

    def __init__(self, items: Groups, supply: IntArray) -> None:
        self.items, self.supply = items, supply
        groups, workers = items.options.shape[0], items.speeds.size
        self.group, self.at = items.pairs
        self.source, self.sink = groups + workers, groups + workers + 1
        self.flow = SimpleMaxFlow()
        all_groups, all_workers = np.arange(groups), groups + np.arange(workers)
        self.flow.add_arcs_with_capacity(np.full(groups, self.source), all_groups, supply)
        self.middle = self.flow.add_arcs_with_capacity(
            self.group, groups + items.options[self.group, self.at], supply[self.group]
        )
        self.last = self.flow.add_arcs_with_capacity(
            all_workers, np.full(workers, self.sink), np.zeros(workers, dtype=np.int64)
        )

    def fill(self, room: IntArray) -> int:
        """Push as much as the workers have room for."""
        self.flow.set_arcs_capacity(self.last, room)
        status = self.flow.solve(self.source, self.sink)
        if status != self.flow.OPTIMAL:
            raise ArithmeticError(f"maximum flow ended with status {status}")
        return int(self.flow.optimal_flow())

    def crowded(self) -> np.ndarray:
        """The workers on the source's side of a minimum cut, as a mask."""
        groups = self.items.options.shape[0]
        side = np.asarray(self.flow.get_source_side_min_cut())
        mask = np.zeros(self.items.speeds.size, dtype=bool)
        mask[side[(side >= groups) & (side < self.source)] - groups] = True
        return mask

    def share(self) -> IntArray:
        made = np.zeros(self.items.options.shape, dtype=np.int64)
        made[self.group, self.at] = self.flow.flows(self.middle)
        return made


def whole_flow(items: Groups, budget: Budget) -> Flow:
    """Find the least largest load for items that all weigh the same; exact, in whole items."""
    speeds = items.speeds
    weight = float(items.weight[0])
    network = _Network(items, items.count)
    everything = int(items.count.sum())
    binding = np.ones(speeds.size, dtype=bool)
    level = least_level(everything, weight, speeds)
    rounds = 0
    while not budget.expired:
        rounds += 1
        if network.fill(room_below(level, weight, speeds)) == everything:
            return Flow(level, network.share(), binding, rounds)
        binding = network.crowded()
        need = int(items.count[items.inside(binding)].sum())
        level = least_level(need, weight, speeds[binding])
        budget.report(bound=level)
    return Flow(level, None, binding, rounds)


def room_below(level: float, weight: float, speeds: FloatArray) -> IntArray:
    """The most items n on each worker with n * weight / speed <= level, in the very arithmetic of the objective."""
    # Room for more items than this makes no difference, and numbers past 64 bits would overflow.
    room = np.floor(np.minimum(level * speeds / weight, 2.0**52)).astype(np.int64)
    room -= room * weight / speeds > level
    room += (room + 1) * weight / speeds <= level
    return room


def least_level(need: int, weight: float, speeds: FloatArray) -> float:
    """The least T under which some workers have room for this many items."""
    level = need * weight / float(speeds.sum()) * (1 - ROUNDING)
    room = room_below(level, weight, speeds)
    missing = need - int(room.sum())
    if missing > 0 and (speeds == speeds[0]).all():
        return float((int(room[0]) + -(-missing // speeds.size)) * weight / speeds[0])
    while missing > 0:  # rounding down leaves less than one item a worker, so this ends soon
        level = float(((room + 1) * weight / speeds).min())
        room = room_below(level, weight, speeds)
        missing = need - int(room.sum())
    return float((room * weight / speeds).max())


def fractional_flow(items: Groups, budget: Budget) -> Flow:
    """Find the least largest load for items that may be divided; the bound holds for whole ones as well."""
    speeds, total = items.speeds, items.total
    supply = scaled(total, bits=50).finer(50)  # fine units: what rounding adds to a worker's room is next to nothing
    spare = 0 if supply.exact else len(total)
    unit, everything = float(supply.scale), int(supply.values.sum())
    network = _Network(items, supply.values)
    binding = np.ones(speeds.size, dtype=bool)
    level = math.fsum(total) / math.fsum(speeds)
    rounds = 0
    while not budget.expired:
        rounds += 1
        room = np.ceil(np.minimum(level * speeds * unit * (1 + ROUNDING), everything)).astype(np.int64) + spare
        if network.fill(room) == everything:
            return Flow(level * (1 - ROUNDING), network.share() / unit, binding, rounds)
        crowded = network.crowded()
        higher = math.fsum(total[items.inside(crowded)]) / math.fsum(speeds[crowded])
        if higher <= level:  # nothing but rounding is left
            return Flow(level * (1 - ROUNDING), network.share() / unit, binding, rounds)
        level, binding = higher, crowded
        budget.report(bound=level)
    return Flow(level * (1 - ROUNDING), None, binding, rounds)


def flow_bound(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    """The least possible largest load if keys could be split: a bound on every placement, no assignment."""
    items = Items.of_messages(problem)
    if (items.weight == items.weight[0]).all() and items.weight[0] > 0:
        flow = whole_flow(items, budget)
    else:
        flow = fractional_flow(items, budget)
    details = {"rounds": flow.rounds, "binding_workers": int(flow.binding.sum())}
    return Answer(None, flow.bound, "completed" if flow.share is not None else budget.why, details=details)
