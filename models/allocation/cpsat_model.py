"""Key-group allocation as a CP-SAT model. The numbers are those of `KeyGroupAllocation`'s docstring."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.allocation.problem import DRAINING, EPSILON, SLACK, KeyGroupAllocation
from keyshift.models.base.integers import BITS, WHOLE_BITS, scaled
from keyshift.models.objectives import PlannedWindows
from keyshift.models.rules.rows import add_to_cpsat, broken_in_cpsat, keep_within
from keyshift.models.stages import FLOATS, CpSatStages, PlacedCpSat, WholeMeasure, weighed

MOST_BITS = WHOLE_BITS
"""All loads on the smallest node stay below 2**MOST_BITS; with more, presolves err."""


@dataclass(frozen=True)
class WholeDistances:
    """Deviations of nodes in whole units of a load distance, rounded so that no true distance is exceeded.

    Where nothing is rounded, `high` and `low` are the same. Otherwise an assignment of load distance d meets the
    rows (3), which take `high` and `mean_high`, and (4), which take the others, for the largest whole number of
    units in d: a statement of them is a relaxation, and exceeds no distance.

    Attributes
    ----------
    unit : Fraction
        Units in one load per unit of capacity.
    high, low : list of list of int
        By node, each key group's load on it, rounded down and up.
    mean_high, mean_low : int
        The mean, rounded up and down.
    error_bound : float
        By how much a load distance computed in floats may be below one computed from these numbers, in load per
        unit of capacity.
    """

    unit: Fraction
    high: list[list[int]]
    low: list[list[int]]
    mean_high: int
    mean_low: int
    error_bound: float

    @classmethod
    def of(cls, problem: KeyGroupAllocation) -> list[WholeDistances]:
        """Whole numbers for each window, all in one unit: exact, or nearly so for decimals, where nodes and mean allow it."""
        w, it = problem.workload, problem.planned
        if problem.mean == "exact" and bool((w.capacity == w.capacity[0]).all()):
            # In units of a load's unit over the number of kept nodes, so that a mean is a window's total load.
            kept, capacity = int(w.kept.sum()), float(w.capacity[0])
            made = scaled(it.load.ravel(), BITS + (it.count - 1).bit_length(), whole=MOST_BITS - kept.bit_length())
            error_bound = 2 * made.error * w.key_groups / capacity + problem.rounding
            unit, whole = made.scale * kept * Fraction(capacity), made.values.reshape(it.load.shape).tolist()
            rows = [([[kept * y for y in row]] * w.nodes, sum(row)) for row in whole]
            return [cls(unit, row, row, total, total, error_bound) for row, total in rows]
        most = float((it.load.sum(axis=1) / w.capacity.min() + problem.means).max())
        # Where rounding cannot be avoided, no load distance changes by more than this share of the mean, nor a step,
        # if bits allow.
        fine, step = 1e-7 * (problem.mean_load or 1.0), problem.step_of("load_distance")
        wanted = (w.key_groups + 2) / (min(fine, step / 8) if step else fine)
        unit = Fraction(2) ** min(math.ceil(math.log2(wanted)), MOST_BITS - math.ceil(math.log2(most or 1.0)))
        capacity, found = w.capacity.tolist(), []
        for load, mean in zip(it.load.tolist(), problem.means.tolist(), strict=True):  # rounded down in (3), up in (4)
            exact = {c: [Fraction(y) * unit / Fraction(c) for y in load] for c in set(capacity)}
            rounded = {c: (list(map(math.floor, loads)), list(map(math.ceil, loads))) for c, loads in exact.items()}
            high, low = map(list, zip(*(rounded[c] for c in capacity), strict=True))
            middle = Fraction(mean) * unit
            found.append(cls(unit, high, low, math.ceil(middle), math.floor(middle), problem.rounding))
        return found

    @property
    def most(self) -> int:
        """No distance is larger."""
        return max(max(map(sum, self.low)), self.mean_high) + 1

    def units(self, distance: float) -> int:
        """The most that a distance, as floats give it, can be in whole units."""
        return math.floor((Fraction(distance) + Fraction(self.error_bound)) * self.unit)


class AllocationCpSat(PlacedCpSat, CpSatStages):
    """The model of [Madsen2016], section 4.3.1, in whole numbers, one method for each family of constraints.

    Loads and the mean become whole multiples of a unit of load distance (`WholeDistances`); costs and uses of resources
    have units of their own (`Knapsack`). Where that rounds, it widens: the model admits all that the check admits, and
    `forbid` cuts off what it admits beyond that. `bound` turns the solver's integer bound back into one that holds for
    the original numbers.

    Parameters
    ----------
    problem : KeyGroupAllocation
        About one window or several: each has a distance d, in one unit for all of them, and (8) combines them. The weights
        of (8) become whole numbers too, rounded down: the model's objective, in its unit, exceeds no distance.

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
    """

    def __init__(self, problem: KeyGroupAllocation) -> None:
        self.problem = problem
        self.workload = problem.workload
        self.distances = WholeDistances.of(problem)
        self.labels = [""] if len(self.distances) == 1 else [f"s{s}," for s in range(len(self.distances))]
        self.model = cp_model.CpModel()
        self.placements()
        self.distance_variables()
        self.sides()
        self.one_node_each()
        self.migration_limits()
        self.upper_loads()
        self.lower_loads()
        self.distance_floor()
        self.resource_capacities()
        self.rules()
        self.distance, self.factor = combine(self.model, problem.planned, self.d, max(it.most for it in self.distances))
        self.model.minimize(self.distance)

    def placements(self) -> None:
        """X for the pairs that (6), or (2) or (7) by themselves, allow."""
        open_pairs = np.argwhere(self.problem.open_pairs).tolist()
        self.x = {(k, i): self.model.new_bool_var(f"x[k{k},n{i}]") for k, i in open_pairs}

    def distance_variables(self) -> None:
        """Each window's integer distance d."""
        self.d = [
            self.model.new_int_var(0, it.most, f"d[{at[:-1]}]" if at else "d")
            for at, it in zip(self.labels, self.distances, strict=True)
        ]

    def sides(self) -> None:
        """D - d_u and d - d_l, neither above d; (8) has d alone."""
        self.upper = self.lower = self.d
        if len(self.d) == 1:
            it, most = self.distances[0], self.distances[0].most
            self.upper = [self.model.new_int_var(-it.mean_high, most, "upper")]
            self.lower = [self.model.new_int_var(-most, most, "lower")]
            self.model.add(self.upper[0] <= self.d[0]).with_name("upper_side")
            self.model.add(self.lower[0] <= self.d[0]).with_name("lower_side")

    def leaves(self, k: int) -> Any:
        """Whether key group k leaves its node: an expression, or 1 where it has to."""
        here = self.x.get((k, int(self.workload.current[k])))
        return 1 if here is None else 1 - here

    def migration_limits(self) -> None:
        """(2) The key groups that leave their node are no more, and cost no more, than allowed."""
        leaves = [self.leaves(k) for k in range(self.workload.key_groups)]
        most = self.problem.max_migrations
        if most is not None and most < len(leaves):
            self.model.add(sum(leaves) <= most).with_name("migrations")
        if self.problem.cost_limit is not None:
            keep_within(self.model, self.problem.cost_limit, enumerate(leaves), "migration_cost")

    def node_load(self, i: int, loads: list[int]) -> cp_model.LinearExprT:
        """Load of node i, in whole units of distance."""
        return sum(y * self.x[k, i] for k, y in enumerate(loads) if y > 0 and (k, i) in self.x)

    def upper_loads(self) -> None:
        """(3) No node lies more than d - d_u above the mean of a window."""
        for at, it, upper in zip(self.labels, self.distances, self.upper, strict=True):
            for i, loads in enumerate(it.high):
                self.model.add(self.node_load(i, loads) <= it.mean_high + upper).with_name(f"upper_load[{at}n{i}]")

    def lower_loads(self) -> None:
        """(4) No kept node lies more than d - d_l below the mean of a window."""
        for at, it, lower in zip(self.labels, self.distances, self.lower, strict=True):
            for i in np.flatnonzero(self.workload.kept).tolist():
                row = self.node_load(i, it.low[i]) >= it.mean_low - lower
                self.model.add(row).with_name(f"lower_load[{at}n{i}]")

    def distance_floor(self) -> None:
        """(5) No window's load distance exceeds its mean, as printed; off by default."""
        means = self.problem.means.tolist() if self.problem.distance_floor else []
        for at, it, d, mean in zip(self.labels, self.distances, self.d, means, strict=False):
            most = it.units(mean + 2 * SLACK * (mean or 1.0))
            self.model.add(d <= most).with_name(f"distance_floor[{at[:-1]}]" if at else "distance_floor")

    def resource_capacities(self) -> None:
        """(7) No node uses more of a resource than it has."""
        for name in self.problem.resource_capacity or {}:
            for i, room in enumerate(self.problem.rooms(name)):
                here = [(k, self.x[k, i]) for k in range(self.workload.key_groups) if (k, i) in self.x]
                keep_within(self.model, room, here, f"capacity[{name},n{i}]")

    def rules(self) -> None:
        """The rules: (1), (3), (4) of `keyshift.models.rules.lowered`; what (2) closes has no variable."""
        add_to_cpsat(self.model, self.problem.lowered, self.x, self.workload.nodes)

    def measure(self, name: str) -> WholeMeasure:
        """A measure of key-group allocation in whole numbers."""
        w, it = self.workload, self.distances[0]
        if name == "load_distance":

            def most(distance: float) -> int:
                within = Fraction(distance) * Fraction(1 + self.slip) + Fraction(it.error_bound)
                return math.floor(within * it.unit * self.factor)

            return WholeMeasure(self.distance, most, self.least_distance)
        if name == "deviation_sum":
            error_bound = 2 * it.error_bound + FLOATS * self.problem.unit(name)
            return WholeMeasure(
                self.upper[0] + self.lower[0],
                lambda most: math.floor((Fraction(most) + Fraction(error_bound)) * it.unit),
                lambda whole: float(Fraction(whole) / it.unit) - error_bound,
            )
        if name in DRAINING:
            nodes = np.flatnonzero(w.draining).tolist()
            left = [sum(self.x[k, i] for i in nodes if (k, i) in self.x) for k in range(w.key_groups)]
            if name == "draining_key_groups":
                return WholeMeasure.count(sum(left))
            return WholeMeasure.sum(*weighed(w.last_load, left), w.key_groups, self.problem.unit(name))
        return self.of_moves(name)

    def of_moves(self, name: str) -> WholeMeasure:
        """The sum over the key groups that leave their node: their number, or their state; or (5) of the rules."""
        if name == "broken_rules":
            return broken_in_cpsat(self.model, self.problem.stated, self.x, self.workload.nodes)
        leaves = [self.leaves(k) for k in range(self.workload.key_groups)]
        if name == "migrations":
            return WholeMeasure.count(sum(leaves))
        return WholeMeasure.sum(*weighed(self.workload.state, leaves), len(leaves), self.problem.unit(name))

    @property
    def slip(self) -> float:
        """By what share the weights of (8) in floats may differ from those in whole numbers."""
        return 0.0 if self.factor == 1 else 2.0**-48

    def least_distance(self, whole: int) -> float:
        """A float not above the combined load distance of any assignment with this integer objective."""
        it = self.distances[0]
        share = float(Fraction(max(whole, 0)) / (it.unit * self.factor))
        return max(0.0, share * (1 - EPSILON - self.slip) - it.error_bound)

    def load_distance(self, integer_objective: float) -> float:
        """A value of the integer objective in load per unit of capacity."""
        return integer_objective / float(self.distances[0].unit * self.factor)

    def bound(self, integer_bound: float) -> float:
        """Turn a proven bound on the integer objective into a safe one on the combined load distance."""
        return self.least_distance(math.ceil(integer_bound - 1e-6))


# Aggregation over the windows: the rules of `keyshift.models.objectives` in whole numbers ---------------------------------

MOST_PARTS, WEIGHT_BITS, MOST_BITS = 1000, 30, 60
"""Weights of windows that are fractions of at most MOST_PARTS parts become whole exactly; the others are rounded down to
2**WEIGHT_BITS parts, or fewer, so that with values the objective stays below 2**MOST_BITS."""


def combine(model: cp_model.CpModel, it: PlannedWindows, values: Sequence[Any], largest: int) -> tuple[Any, int]:
    """Add the rows; the combined value in whole units of value times whole units of weight, and the latter's number.

    Weights are rounded down: the sum exceeds no combined value. Of one window it is its own.

    Parameters
    ----------
    model : CpModel
    it : PlannedWindows
    values : sequence of expressions, one for each window
    largest : int
        What no value exceeds.
    """
    if len(values) == 1:
        return values[0], 1
    t = model.new_int_var(0, largest, "worst" if it.over == "max" else "t")
    if it.over == "max":
        for s, value in enumerate(values):
            model.add(value <= t).with_name(f"worst[s{s}]")
        return t, 1
    whole, one = whole_weights(it, largest)
    cvar = model.new_int_var(0, one * largest, "cvar")
    if it.over == "mean":
        return sum(weight * value for weight, value in zip(whole, values, strict=True)), one
    # Up to so many windows CVaR is the largest of all weighted sums that it may be: CP-SAT is slow to find its t.
    if it.count <= 8:
        for number, row in enumerate(extreme_weights(whole, one)):
            together = sum(weight * value for weight, value in zip(row, values, strict=True))
            model.add(together <= cvar).with_name(f"cvar[{number}]")
        return cvar, one
    above = [model.new_int_var(0, largest, f"excess[s{s}]") for s in range(it.count)]
    for s, value in enumerate(values):
        model.add(value <= t + above[s]).with_name(f"above[s{s}]")
    return one * t + sum(weight * excess for weight, excess in zip(whole, above, strict=True)), one


def whole_weights(it: PlannedWindows, largest: int) -> tuple[list[int], int]:
    """The weights of the rule in whole numbers, none above its own, and what 1 is among them."""
    bits = max(1, min(WEIGHT_BITS, MOST_BITS - largest.bit_length() - it.count.bit_length()))
    most = it.most.tolist()
    simple = [Fraction(share).limit_denominator(MOST_PARTS) for share in most]
    one = math.lcm(*(share.denominator for share in simple))
    if one.bit_length() <= bits and all(abs(float(a) - b) <= 2.0**-50 * b for a, b in zip(simple, most, strict=True)):
        return [int(share * one) for share in simple], one
    return [math.floor(share * 2**bits) for share in most], 2**bits


def extreme_weights(most: list[int], one: int) -> list[list[int]]:
    """The corners of the weights w with 0 <= w <= most that sum to one, in whole numbers: all full but one of them."""
    found = []
    for size in range(len(most) + 1):
        for full in itertools.combinations(range(len(most)), size):
            rest = one - sum(most[s] for s in full)
            row = [share if s in full else 0 for s, share in enumerate(most)]
            if rest == 0 or (rest > 0 and size == len(most)):
                found.append(row)
            elif rest > 0:
                others = [s for s in range(len(most)) if s not in full and most[s] > rest]
                found += [[*row[:s], rest, *row[s + 1 :]] for s in others]
    return found
