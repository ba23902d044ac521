"""Problems with priorities, a stage at a time: one measure is minimised, the earlier ones are kept; and statements of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from keyshift.models.base.figures import apart
from keyshift.models.base.integers import WHOLE_BITS, Scaled, scaled
from keyshift.models.objectives import Prioritised
from keyshift.models.problem import Problem, Violation
from keyshift.models.workload import FloatArray, IntArray

FLOATS = 1e-12
"""A share of a measure's unit that is more than the rounding of the check's sums."""
ROUNDING = 0.05
"""Share of the tolerance by which the rounding of sums may exceed what is kept."""


class StageBound(NamedTuple):
    """The proof of a method about one stage."""

    measure: str
    bound: float | None
    kept: Mapping[str, float]


class Priority(NamedTuple):
    """One stage of an answer to a problem with priorities.

    Attributes
    ----------
    measure : str
    value : float
        Of the answer, computed from its assignment.
    bound : float or None
        No assignment that stays within `given` has less.
    proven : bool
        Whether value and bound are the same, within the problem's tolerance for the measure.
    given : dict of str to float
        What the earlier measures may at most be for the bound to hold: where an earlier stage is not proven, better
        values of it may leave less - or more - to this one.
    """

    measure: str
    value: float
    bound: float | None
    proven: bool
    given: dict[str, float]


@dataclass(frozen=True, eq=False)
class Stage(Problem):
    """One stage: a measure to minimise, with the earlier ones kept.

    Parameters
    ----------
    problem : Prioritised
        Without priorities.
    measure : str
    kept : mapping of str to float
        The most that each earlier measure may be.
    """

    name: ClassVar[str] = "stage"

    problem: Prioritised
    measure: str
    kept: Mapping[str, float] = field(default_factory=dict)

    @property
    def objective_name(self) -> str:  # type: ignore[override]
        """The objective's name."""
        return self.measure.replace("_", " ")

    @property
    def scale(self) -> float:
        return self.problem.unit(self.measure)

    def tolerance_of(self, objective: float) -> float:
        """The difference that counts as a tie."""
        return self.problem.tie(self.measure, objective)

    def canonical(self, assignment: Any) -> np.ndarray:
        return self.problem.canonical(assignment)

    def objective(self, assignment: np.ndarray) -> float:
        return self.problem.measured(self.measure, assignment)

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        return self.problem.metrics(assignment)

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return [*self.problem.violations(assignment), *self._given_up(assignment)]

    def _given_up(self, assignment: np.ndarray) -> list[Violation]:
        broken = []
        for name, most in self.kept.items():
            value = self.problem.measured(name, assignment)
            if value > most + ROUNDING * self.problem.tie(name, most):
                now, earlier = apart(value, most)
                broken.append(Violation(name, f"{name} is {now}, an earlier stage has {earlier}", amount=value - most))
        return broken

    def most(self, value: float, bound: float | None) -> float:
        """Limit that later stages keep on this stage's objective: its value, plus the tolerance if it is proven optimal."""
        tie = self.tolerance_of(value)
        # A proven stage lets later ones use this share of its tolerance, so that what they find is still optimal in
        # it.
        return value if bound is None or value - bound > tie else max(value, bound + 0.9 * tie)


# What the declarative statements of a stage have in common --------------------------------------------------------------


class OfStage:
    """A statement that can be made for a stage."""

    @classmethod
    def of_stage(cls, stage: Stage) -> Any:
        """The statement of a stage's problem, fine enough for what the stage measures."""
        make: Callable[[Problem], Any] = getattr(cls, "of", cls)
        return make(stage.problem)


class PyomoStages(OfStage, ABC):
    """A Pyomo statement whose objective can be any measure of its problem."""

    model: Any

    @abstractmethod
    def measure(self, name: str) -> tuple[Any, float]:
        """A measure as an expression of the variables, in units of the number that comes with it."""

    def minimise(self, name: str) -> float:
        """Make a measure the objective; returns the unit in which the model has it."""
        from keyshift.models.base.pyomo import pyo

        expression, unit = self.measure(name)
        self.model.del_component("objective")
        self.model.objective = pyo.Objective(expr=expression)
        return unit

    def keep(self, name: str, most: float) -> None:
        """Add a row: a measure is at most so much."""
        from keyshift.models.base.pyomo import pyo

        expression, unit = self.measure(name)
        if not hasattr(self.model, "kept"):
            self.model.kept = pyo.Constraint(pyo.Any)
        if not isinstance(expression, int | float):
            # By what share of a measure's unit a Pyomo model keeps it more loosely, since solvers keep rows
            # within tolerances.
            self.model.kept[name] = expression <= most / unit + 1e-8


@dataclass(frozen=True)
class WholeMeasure:
    """A measure in whole numbers.

    Attributes
    ----------
    expression
        Of a CP-SAT model's variables.
    most : callable
        The largest value of the expression, rounded down, for an assignment with this value of the measure.
    least : callable
        A float not above the measure of any assignment with this value of the expression.
    """

    expression: Any
    most: Callable[[float], int]
    least: Callable[[int], float]

    @classmethod
    def count(cls, expression: Any) -> WholeMeasure:
        """A measure that is a whole number itself."""
        return cls(expression, lambda most: math.floor(most + 1e-6), float)

    @classmethod
    def sum(cls, numbers: Scaled, expression: Any, terms: int, unit: float, rest: float = 0.0) -> WholeMeasure:
        """`rest` plus a sum of at most this many of scaled numbers, which the expression adds up."""
        # Sums of whole floats are exact.
        exact = numbers.exact and numbers.scale <= 1 and Fraction(numbers.total) / numbers.scale < 2**53
        error_bound = 0.0 if exact and rest == 0.0 else FLOATS * unit + numbers.error * terms

        def most(value: float) -> int:
            return math.floor(Fraction(value - rest + error_bound) * numbers.scale)

        return cls(expression, most, lambda whole: float(Fraction(whole) / numbers.scale) + rest - error_bound)


class CpSatStages(OfStage, ABC):
    """A CP-SAT statement whose objective can be any measure of its problem."""

    model: Any

    @abstractmethod
    def measure(self, name: str) -> WholeMeasure:
        """A measure in whole numbers."""

    def minimise(self, name: str) -> Callable[[int], float]:
        """Make a measure the objective; returns what turns a bound on it into one on the measure."""
        made = self.measure(name)
        self.model.minimize(made.expression)
        if isinstance(made.expression, int):  # CP-SAT drops an objective that nothing can change
            value = made.expression
            return lambda proven: made.least(value)
        return made.least

    def keep(self, name: str, most: float) -> None:
        """Add a row: a measure is at most so much."""
        made = self.measure(name)
        self.model.add(made.expression <= made.most(most)).with_name(f"kept[{name}]")


def state(stage: Stage, statement: Any) -> Any:
    """Make a statement that of a stage; returns what its `minimise` returns."""
    for name, most in stage.kept.items():
        statement.keep(name, most + ROUNDING * stage.problem.tie(name, most))
    return statement.minimise(stage.measure)


def weighed(weights: FloatArray, chosen: list[Any]) -> tuple[Scaled, Any]:
    """Weights as whole numbers, and the sum of those that are chosen: an expression, 0 or 1 for each."""
    made = scaled(np.asarray(weights, dtype=float), whole=WHOLE_BITS)
    values: IntArray = made.values
    return made, sum(int(v) * item for v, item in zip(values, chosen, strict=True) if v)


class PlacedPyomo:
    """A Pyomo statement in which x[k, i] says that key group k runs on node i: (1), and the way from an assignment and back."""

    problem: Any
    model: Any

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        from keyshift.models.base.pyomo import LinearExpression, pyo

        open_to: list[list[Any]] = [[] for _ in range(self.problem.workload.key_groups)]
        for (k, _), x in self.model.x.items():
            open_to[k].append(x)
        self.model.one_node = pyo.Constraint(
            range(len(open_to)),
            rule=lambda m, k: LinearExpression(linear_coefs=[1.0] * len(open_to[k]), linear_vars=open_to[k]) == 1,
        )

    def forbid(self, assignment: IntArray) -> bool:
        """Cut off an assignment that the check refuses, and others by the same cause; whether it is refused."""
        from keyshift.models.base.pyomo import pyo

        if not hasattr(self.model, "covers"):
            self.model.covers = pyo.ConstraintList()
        x, clauses = self.model.x, self.problem.clauses(assignment)
        for clause in clauses:
            self.model.covers.add(
                pyo.quicksum(x[k, i] if on else 1 - x[k, i] for k, i, on in clause if (k, i) in x) >= 1
            )
        return bool(clauses)

    def set_start(self, assignment: IntArray) -> None:
        """Give every x that is open its value in a known assignment."""
        for (k, i), x in self.model.x.items():
            if not x.fixed:
                x.value = int(assignment[k] == i)

    def assignment(self) -> IntArray:
        """Read the assignment from the variables' values: for each key group, its node of largest x."""
        chosen = np.zeros(self.problem.workload.key_groups, dtype=np.int64)
        largest = np.full(chosen.size, -np.inf)
        for (k, i), x in self.model.x.items():
            if x.value > largest[k]:
                chosen[k], largest[k] = i, x.value
        return chosen


class PlacedCpSat:
    """A CP-SAT statement in which x[k, i] says that key group k runs on node i: (1), and the way from an assignment and back."""

    problem: Any
    model: Any
    x: dict[tuple[int, int], Any]

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        open_to: list[list[Any]] = [[] for _ in range(self.problem.workload.key_groups)]
        for (k, _), x in self.x.items():
            open_to[k].append(x)
        for k, nodes in enumerate(open_to):
            self.model.add_exactly_one(nodes).with_name(f"one_node[k{k}]")

    def forbid(self, assignment: IntArray) -> bool:
        """Cut off an assignment that the check refuses, and others by the same cause; whether it is refused."""
        clauses = self.problem.clauses(assignment)
        for clause in clauses:
            self.model.add_bool_or(self.x[k, i] if on else ~self.x[k, i] for k, i, on in clause if (k, i) in self.x)
        return bool(clauses)

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        self.model.clear_hints()
        for (k, i), x in self.x.items():
            self.model.add_hint(x, int(assignment[k] == i))

    def assignment(self, value: Callable[[Any], int]) -> IntArray:
        """Read the assignment through ``value``, a function from a variable to its value."""
        chosen = np.zeros(self.problem.workload.key_groups, dtype=np.int64)
        for (k, i), x in self.x.items():
            if value(x):
                chosen[k] = i
        return chosen
