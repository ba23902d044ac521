"""Collocated allocation as a CP-SAT model. The numbers are those of `CollocatedAllocation`'s docstring."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any, Self

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.allocation.cpsat_model import AllocationCpSat, combine
from keyshift.models.allocation.problem import SLACK
from keyshift.models.base.integers import scaled
from keyshift.models.collocation.problem import CollocatedAllocation
from keyshift.models.stages import FLOATS, Stage, WholeMeasure
from keyshift.models.workload import FloatArray, IntArray

LOAD_BITS, SHARE_BITS = 26, 24
"""Where z weighs on loads, node loads are variables of their own: written out over x and z with coefficients near
2**45, the presolve of OR-Tools 9.15 loses optimal assignments."""
DISTANCE_BITS, WORD_BITS = 32, 60


class CollocationCpSat(AllocationCpSat):
    """The linearised model in whole numbers; (1), (2), (7) are key-group allocation's.

    Loads and traffic become integers (`keyshift.models.base.integers`). Every limit is widened by what rounding can have
    added, so that the model admits all that the check admits; `forbid` takes out what it admits beyond that.

    Parameters
    ----------
    problem : CollocatedAllocation
    load_bits : int
        All loads together stay below two to that power; `DISTANCE_BITS` where a load distance is a measure.
    strengthened : bool, default True
        z is held from above alone where that is enough for the objective, as in `CollocationPyomo`.

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
    """

    @classmethod
    def of_stage(cls, stage: Stage) -> Self:
        return cls(stage.problem, DISTANCE_BITS if "load_distance" in (stage.measure, *stage.kept) else LOAD_BITS)  # type: ignore[arg-type]

    def __init__(self, problem: CollocatedAllocation, load_bits: int = LOAD_BITS, strengthened: bool = True) -> None:
        self.both_ways = not strengthened or problem.load_model.per_tuple > 0
        self.collocated = problem
        self.problem = problem.allocation
        self.workload = problem.workload
        self.cost, self.load_bits = problem.load_model.per_tuple, load_bits
        self.traffic = scaled(problem.links.traffic)
        self.model = cp_model.CpModel()
        self.placements()
        self.together()
        self.one_node_each()
        self.migration_limits()
        self.rows_of_windows()
        self.resource_capacities()
        self.rules()
        self.model.minimize(self.combined() if problem.combines else self.remote())

    def remote(self) -> Any:
        """Remote traffic: 0 is a bound on it from the start."""
        return self.traffic.total - sum(int(self.traffic.values[e]) * z for (e, _), z in self.z.items())

    def combined(self) -> object:
        """(14) and (15) in whole numbers: in units of `in_all`, times whole weights of the windows."""
        p, m = self.collocated, self.model
        rows = p.levels.weighed(p.pair_traffic if p.separate else np.tile(p.pair_traffic, (p.planned.count, 1)))
        unit = 1.0 if p.minimise == "remote_traffic" else p.saved
        self.in_all = scaled(np.concatenate([p.apart, (unit * rows).ravel()]))
        apart, saved = np.split(self.in_all.values, [len(rows)])
        largest = int(apart.max())
        values = [m.new_int_var(0, largest, f"value[s{s}]") for s in range(len(rows))]
        for s, (most, row) in enumerate(zip(apart.tolist(), saved.reshape(rows.shape).tolist(), strict=True)):
            together = sum(row[e] * z for (e, _), z in self.z.items() if row[e])
            m.add(values[s] >= most - together).with_name(f"value[s{s}]")
        whole, self.factor = combine(m, p.planned, values, largest)
        return whole

    def about(self, window: CollocatedAllocation, traffic: FloatArray) -> None:
        """Write rows with the loads of a window, and its traffic of each pair."""
        together = scaled(np.concatenate([window.remote_loads, self.cost * traffic]), self.load_bits)
        # Here loads alone: one scale serves loads and savings.
        self.load: Any
        # Whole numbers get finer units: the room for rounding is a few of them.
        finer = max(0, self.load_bits - 1 - int(together.values.sum()).bit_length())
        self.load, self.saving = np.split(together.values << finer, [self.workload.key_groups])
        self.load_scale, self.load_error = together.scale * 2**finer, together.error

    def rows_of_windows(self) -> None:
        """(8) and (9) for each window, whose nodes have loads of their own."""
        p = self.collocated
        for s, window in enumerate(p.by_window):
            self.at = f"s{s}," if p.several else ""
            self.about(window, p.pair_traffic[s if p.separate else 0])
            if self.cost > 0:
                self.node_loads()
            self.upper_loads()
            self.lower_loads()
        self.about(p, p.pairs.traffic)

    def together(self) -> None:
        """(10), (11) z says whether both ends of a pair run on a node, or in a block (17)."""
        links, size = self.collocated.links, len(self.collocated.pairs)
        nodes = [np.flatnonzero(row).tolist() for row in self.problem.open_pairs]
        levels = self.collocated.levels.gathered(nodes)
        self.z = {}
        for e, (k, other) in enumerate(zip(links.first.tolist(), links.second.tolist(), strict=True)):
            one, two = levels[e // size][k], levels[e // size][other]
            for i in one:
                if i not in two:
                    continue
                z = self.z[e, i] = self.model.new_bool_var(f"z[e{e},n{i}]")
                ends = [self.x[k, j] for j in one[i]], [self.x[other, j] for j in two[i]]
                for end in ends:
                    self.model.add_bool_or(end).only_enforce_if(z)
                for x, y in product(*ends) if self.both_ways else ():
                    self.model.add_bool_or(z, ~x, ~y)

    def node_loads(self) -> None:
        """Where z weighs on loads, that of each node: its key groups' less what its whole pairs save; and their sum."""
        total, m = int(self.load.sum()), self.model
        self.loads = [m.new_int_var(-total, total, f"load[{self.at}n{i}]") for i in range(self.workload.nodes)]
        self.total = m.new_int_var(-total, total, f"total{self.at and f'[{self.at[:-1]}]'}")
        for i, load in enumerate(self.loads):
            saved = [int(s) * self.z[e, i] for e, s in enumerate(self.saving) if s > 0 and (e, i) in self.z]
            m.add(load == self.remote_load(i) - sum(saved))
        m.add(self.total == sum(self.loads))

    def remote_load(self, i: int) -> cp_model.LinearExprT:
        """Load of node i were all traffic remote, scaled."""
        return self.node_load(i, self.load.tolist())

    @property
    def error_bound(self) -> float:
        """The most that rounding can have changed a sum of loads, scaled."""
        return self.load_error * float(self.load_scale) * (self.load.size + self.saving.size) + 1.0

    def upper_loads(self) -> None:
        """(8) No node lies too far above the mean."""
        for i in range(self.workload.nodes):
            self._load_row(i, +1)

    def lower_loads(self) -> None:
        """(9) No kept node lies too far below the mean, where both sides are limited."""
        for i in np.flatnonzero(self.workload.kept & (self.collocated.sides == "both")):
            self._load_row(int(i), -1)

    def _load_row(self, i: int, side: int) -> None:
        """State side * load_i <= share * total + allowance, the right-hand side widened."""
        p = self.collocated
        if p.max_load_distance is None:
            return
        relative, name = p.distance_unit == "percent", f"{'upper' if side > 0 else 'lower'}_load[{self.at}n{i}]"
        c, capacity = Fraction(float(self.workload.capacity[i])), Fraction(p.kept_capacity)
        share = (side + (Fraction(p.max_load_distance) / 100 if relative else 0) + 2 * Fraction(SLACK)) * c / capacity
        allowance = Fraction(0) if relative else Fraction(p.max_load_distance) * c * self.load_scale
        error_bound = math.ceil(self.error_bound * (2 + abs(float(share))) + float(abs(allowance)) * 1e-9)
        if allowance >= int(self.load.sum()) or share >= (1 if side > 0 else 0):
            return  # nothing can break it, and what is so large might not fit 64 bits
        if self.cost == 0:  # the total is a number
            limit = math.floor(share * int(self.load.sum()) + allowance) + error_bound
            self.model.add(side * self.remote_load(i) <= limit).with_name(name)
            return
        bits = max(0, SHARE_BITS - math.ceil(math.log2(max(1.0, abs(float(share))))))
        whole = math.ceil(share * 2**bits)
        right = whole * self.total + math.floor((allowance + error_bound) * 2**bits)
        self.model.add(side * 2**bits * self.loads[i] <= right).with_name(name)

    def measure(self, name: str) -> WholeMeasure:
        """A measure of collocated allocation in whole numbers."""
        p = self.collocated
        if name == "load_distance":
            return self._distance_measure()
        if name not in ("remote_traffic", "total_load"):
            return self.of_moves(name)
        remote, cost = self.remote(), self.cost
        made = WholeMeasure.sum(self.traffic, remote, len(p.links), p.unit("remote_traffic"))
        if name == "remote_traffic":
            return made
        least, error_bound = float(p.remote_loads.sum()) - cost * p.total_traffic, FLOATS * p.unit(name)
        if cost == 0:  # the load of the whole system is what it is
            return WholeMeasure(
                0, lambda most: 0 if most >= least - error_bound else -1, lambda whole: least - error_bound
            )
        return WholeMeasure(
            remote, lambda most: made.most((most - least + error_bound) / cost),
            lambda whole: least + cost * made.least(whole) - error_bound,
        )  # fmt: skip

    def _distance_measure(self) -> WholeMeasure:
        """The load distance over the kept capacity K: no node's load, times K / c, is farther from the total load."""
        p, w = self.collocated, self.workload
        shares = [Fraction(p.kept_capacity) / Fraction(c) for c in w.capacity.tolist()]
        room = WORD_BITS - int(self.load.sum()).bit_length() - math.ceil(max(shares)).bit_length()
        finer = 1 if all(share.denominator == 1 for share in shares) else 2 ** max(0, min(SHARE_BITS, room))
        whole = [round(share * finer) for share in shares]
        most = 2 * finer * int(self.load.sum()) * max(1, max(math.ceil(share) for share in shares))
        distance = self.model.new_int_var(0, most, "distance")
        loads = self.loads if self.cost > 0 else [self.remote_load(i) for i in range(w.nodes)]
        total = self.total if self.cost > 0 else int(self.load.sum())
        for i, load in enumerate(loads):
            self.model.add(whole[i] * load - finer * total <= distance).with_name(f"distance_above[n{i}]")
            if w.kept[i]:
                self.model.add(finer * total - whole[i] * load <= distance).with_name(f"distance_below[n{i}]")
        unit = Fraction(p.kept_capacity) * self.load_scale * finer
        rounded = self.load_error * (self.load.size + self.saving.size) * (1 + float(max(shares))) / p.kept_capacity
        if finer > 1:
            rounded += float(int(self.load.sum()) / unit)
        error_bound = rounded + 10 * FLOATS * p.unit("load_distance")
        return WholeMeasure(
            distance, lambda value: math.floor(Fraction(value + error_bound) * unit),
            lambda least: max(0.0, float(Fraction(least) / unit) - error_bound),
        )  # fmt: skip

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        super().set_start(assignment)
        one, other = self.collocated.ends(assignment)
        for (e, i), z in self.z.items():
            self.model.add_hint(z, int(one[e] == i == other[e]))

    def bound(self, integer_bound: float) -> float:
        """Turn a proven bound on the scaled remote traffic into a safe one on the objective."""
        p = self.collocated
        if p.combines:
            it = self.in_all
            value = float(Fraction(math.ceil(integer_bound - 1e-6)) / self.factor / it.scale)
            return max(0.0, value - it.error * (1 + len(p.links)) - 1e-12 * p.scale)
        remote = float(Fraction(math.ceil(integer_bound - 1e-6)) / self.traffic.scale)
        remote = max(0.0, remote - self.traffic.error * len(p.links))
        return float(max(0.0, p.value(p.all_remote - remote) - 1e-12 * p.scale))
