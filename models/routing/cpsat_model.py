"""Mixed routing as a CP-SAT model. The numbers are those of `MixedRouting`'s docstring."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Self

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.base.integers import WHOLE_BITS, Scaled, capped, scaled
from keyshift.models.routing.compact import Choices
from keyshift.models.routing.problem import MixedRouting
from keyshift.models.rules.rows import add_to_cpsat, broken_in_cpsat
from keyshift.models.stages import CpSatStages, WholeMeasure
from keyshift.models.workload import FloatArray, IntArray


class RoutingCpSat(CpSatStages):
    """Problem (3) of [Fang2016] in whole numbers of keys alike, one method for each family of constraints.

    Loads and states become integers (`keyshift.models.base.integers`). Where that rounds, (2) and (3) are widened by
    what rounding can add up to, so that nothing feasible is lost, and `bound` takes off what it can add.

    Parameters
    ----------
    choices : Choices
        The pairs that get a variable; ``Choices.all(problem)`` is the whole problem.
    most : float, optional
        State that a known assignment moves: states above it count as little more.

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
    """

    @classmethod
    def of(cls, problem: MixedRouting) -> Self:
        """The whole problem, every record open to every kept node."""
        return cls(Choices.all(problem))

    def __init__(self, choices: Choices, most: float = math.inf) -> None:
        self.choices, self.problem = choices, choices.problem
        self.workload = self.problem.workload
        known = choices.keys.state if math.isinf(most) else capped(choices.keys.state, most)
        self.state, self.state_error = self._whole(known)
        self.in_windows = [(at and f"{at},", window, *self._whole(load)) for at, window, load in choices.windows()]
        self.model = cp_model.CpModel()
        self.variables()
        self.every_key_somewhere()
        self.upper_loads()
        self.lower_loads()
        self.table_size()
        if self.problem.rules:
            add_to_cpsat(self.model, self.problem.lowered, choices.by_key(self.x), self.workload.nodes)
        self.state_moved()

    def _whole(self, numbers: FloatArray) -> tuple[Scaled, Fraction]:
        """Scale a value of each record, and say what rounding can add up to over all keys, in scaled units."""
        count = self.choices.keys.count
        several = int(count.max()).bit_length()
        # Loads and states are scaled to integers whose sums stay below 2**50.
        made = scaled(numbers, 50 - several, whole=WHOLE_BITS - several)
        return made, Fraction(made.error) * made.scale * int(count.sum())

    def variables(self) -> None:
        """x for the open pairs; (5) is imposed by leaving out draining nodes."""
        most = self.choices.keys.count[self.choices.record].tolist()
        pairs = zip(most, self.choices.record.tolist(), self.choices.node.tolist(), strict=True)
        self.x = [self.model.new_int_var(0, m, f"x[r{r},n{d}]") for m, r, d in pairs]

    def every_key_somewhere(self) -> None:
        """(1) All keys of a record go somewhere."""
        records, first = np.unique(self.choices.record, return_index=True)
        ends = np.append(first, len(self.x))[1:]
        for t, start, end in zip(records, first, ends, strict=True):
            self.model.add(sum(self.x[start:end]) == int(self.choices.keys.count[t])).with_name(f"somewhere[r{t}]")

    def node_load(self, d: int) -> cp_model.LinearExprT:
        """Scaled load of node d."""
        pairs = np.flatnonzero(self.choices.node == d).tolist()
        load = self.load.values[self.choices.record].tolist()
        chosen = cp_model.LinearExpr.weighted_sum([self.x[j] for j in pairs], [load[j] for j in pairs])
        return chosen + int(self.fixed_load[d])

    def upper_loads(self) -> None:
        """(2) No kept node carries more than (1 + theta_max) times the mean."""
        for at, window in self.windows():
            everything = sum(int(v) * int(c) for v, c in zip(self.load.values, self.choices.keys.count, strict=True))
            for d in np.flatnonzero(self.workload.kept):
                limit = Fraction(float(window.upper[d] + window.slack)) * self.load.scale
                most = math.floor(limit + self.load_error)
                if most < everything:  # a limit above the total load never binds, and might not fit 64 bits
                    self.model.add(self.node_load(int(d)) <= most).with_name(f"upper_load[{at}n{d}]")

    def lower_loads(self) -> None:
        """(3) No kept node carries less than (1 - theta_max) times the mean, with sides "both"."""
        for at, window in self.windows():
            for d in np.flatnonzero(window.lower > window.slack):
                least = Fraction(float(window.lower[d] - window.slack)) * self.load.scale
                row = self.node_load(int(d)) >= math.ceil(least - self.load_error)
                self.model.add(row).with_name(f"lower_load[{at}n{d}]")

    def windows(self) -> Iterator[tuple[str, MixedRouting]]:
        """Each window's letter, and the problem in it alone; meanwhile `load` and what is fixed are those of the window."""
        for at, window, load, error in self.in_windows:
            self.load, self.load_error = load, error
            self.fixed_load = self._fixed_load()
            yield at, window

    def _fixed_load(self) -> IntArray:
        fixed = np.zeros(self.workload.nodes, dtype=np.int64)
        np.add.at(fixed, self.choices.fixed_node, self.load.values[self.choices.fixed] * self.choices.fixed_units)
        return fixed

    def table_size(self) -> None:
        """(4) The table has no more entries than allowed."""
        entries = [self.x[j] for j in np.flatnonzero(self.choices.excepts)]
        room = self.problem.table_limit - self.choices.fixed_entries
        self.model.add(sum(entries) <= room).with_name("table")

    def state_moved(self) -> None:
        """The objective: state of the keys that change node."""
        self.minimise("state_moved")

    def measure(self, name: str) -> WholeMeasure:
        """A measure of mixed routing in whole numbers."""
        if name == "table_size":
            entries = sum(self.x[j] for j in np.flatnonzero(self.choices.excepts).tolist())
            return WholeMeasure.count(entries + self.choices.fixed_entries)
        if name == "broken_rules":
            x = self.choices.by_key(self.x)
            return broken_in_cpsat(self.model, self.problem.stated, x, self.workload.nodes)
        state, moves = self.state.values[self.choices.record].tolist(), np.flatnonzero(self.choices.moves).tolist()
        base = int(self.choices.fixed_moved(self.state.values).sum())
        whole = cp_model.LinearExpr.weighted_sum([self.x[j] for j in moves], [state[j] for j in moves]) + base
        return WholeMeasure(
            whole, lambda most: math.floor(Fraction(most) * (1 + Fraction(1, 10**13)) * self.state.scale + self.state_error),
            self.bound,
        )  # fmt: skip

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment, if that keeps to the choices."""
        self.model.clear_hints()
        units = self.choices.units(assignment)
        if units is not None:
            for x, value in zip(self.x, units.tolist(), strict=True):
                self.model.add_hint(x, value)

    def assignment(self, value: Callable[[Any], int]) -> IntArray:
        """Read the assignment through ``value``, a function from a variable to its value."""
        return self.choices.assignment(np.array([value(x) for x in self.x], dtype=np.int64))

    def bound(self, integer_bound: float) -> float:
        """Turn a proven bound on the integer objective into a safe one on the state moved."""
        least = math.ceil(integer_bound - 1e-6) - self.state_error
        return max(0.0, float(least / self.state.scale) * (1 - 1e-15))
