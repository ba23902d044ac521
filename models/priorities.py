"""Priorities: measures of an assignment, each minimised among the assignments that are best in those before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.problem import Problem, Violation, read_assignment
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload

TIE = 1e-6
"""Two values of a measure are the same when they differ by no more than this share of its unit."""
WITHIN = 0.9
"""A proven stage lets later ones use this share of its tolerance, so that what they find is still optimal in it."""
ROUNDING = 0.05
"""Share of the tolerance by which the rounding of sums may exceed what is kept."""


class Searched(NamedTuple):
    """The view that the local search for later stages has of a problem about one window, in the problem's own units.

    Attributes
    ----------
    load : ndarray, shape (p,)
        Of each key group were all its traffic remote.
    allowed : ndarray of bool, shape (p, n)
    most : dict of str to float
        What the problem's limits allow of each measure, at most.
    mean : float or None
        What deviations are from; None: the mean of the loads, which remote traffic changes.
    pairs : tuple of ndarray
        Key groups that talk to each other, the first and the second of each pair, and their traffic.
    per_tuple : float
        The load that a tuple costs which leaves its node.
    cost, cost_limit : ndarray of shape (p,), float or None
        What moving each key group costs, and the most that all may.
    rooms : tuple of (ndarray of shape (p,), ndarray of shape (n,))
        Use of each limited resource, and the room for it.
    bands : ndarray, shape (4, n)
        The most that a node may carry, as a share of all load and a rest; the least, likewise.
    """

    load: FloatArray
    allowed: BoolArray
    most: Mapping[str, float]
    mean: float | None = None
    pairs: tuple[IntArray, IntArray, FloatArray] | None = None
    per_tuple: float = 0.0
    cost: FloatArray | None = None
    cost_limit: float | None = None
    rooms: tuple[tuple[FloatArray, FloatArray], ...] = ()
    bands: FloatArray | None = None


class Prioritised(Problem):
    r"""A problem whose answer may be the best in more than one measure, one after another.

    With ``priorities = (f1, f2, ...)`` the answer is the lexicographic minimum: of least :math:`f_1`; among those
    of least :math:`f_2`; and so on. Two values that are closer than `tie` are the same.

    A subclass names its `measures`, which are metrics of its own, and its `own_measure`, which its formulation minimises. Of each
    it says the value (`measured`), the `unit` and what a `tie` is; which earlier ones are limits of its own (`limited`); and what
    the search for later stages needs (`searched`).
    """

    measures: ClassVar[tuple[str, ...]]
    """The metrics that `priorities` may name."""

    workload: Workload
    priorities: str | tuple[str, ...]

    @property
    def own_measure(self) -> str:
        """The measure that the formulation minimises."""
        return self.measures[0]

    @property
    def stages(self) -> tuple[str, ...]:
        """The measures in the order in which they are minimised; the first is the objective."""
        return tuple(self.priorities) or (self.own_measure,)

    @property
    def objective_name(self) -> str:  # type: ignore[override]
        """The objective's name."""
        return self.stages[0].replace("_", " ")

    @property
    def scale(self) -> float:
        """The unit of the first measure; 1 if that unit is 0."""
        return self.unit(self.stages[0])

    def tolerance_of(self, objective: float) -> float:
        """The `tie` of the first measure."""
        return self.tie(self.stages[0], objective)

    def canonical(self, assignment: Any) -> np.ndarray:
        return read_assignment(assignment, self.workload.key_groups, self.workload.nodes)

    def objective(self, assignment: np.ndarray) -> float:
        return self.measured(self.stages[0], assignment)

    def plain(self) -> Self:
        """The same problem with nothing but its own objective."""
        return replace(self, priorities=()) if self.priorities else self  # type: ignore[type-var]

    def _read_priorities(self) -> None:
        """Read the field `priorities`, or raise `InputError`."""
        given: Any = self.priorities
        names = given.replace(",", " ").split() if isinstance(given, str) else given
        known = ", ".join(self.measures)
        if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
            raise InputError(f"priorities = {given!r} must be names of measures, the first the most important: {known}")
        names = tuple(names)
        for place, name in enumerate(names):
            if name not in self.measures:
                raise InputError(f"priorities[{place}] = {name!r}: {self.name} has the measures {known}")
            if name in names[:place]:
                raise InputError(f"priorities names {name!r} twice")
        self._put("priorities", names)

    def limited(self, kept: Mapping[str, float]) -> Self | None:
        """The problem with limits that hold measures at given values; None if it has no such limits."""
        return None if kept else self.plain()

    @abstractmethod
    def searched(self) -> Searched:
        """The problem as the search for later stages sees it."""

    @abstractmethod
    def unit(self, measure: str) -> float:
        """The size of one natural unit of a measure, > 0."""

    def tie(self, measure: str, value: float) -> float:
        """How far a value of a measure may be from the given one and still count as equal."""
        return TIE * self.unit(measure)

    def measured(self, measure: str, assignment: np.ndarray) -> float:
        """A measure of a canonical assignment."""
        return float(self.metrics(assignment)[measure])

    def rank(self, assignment: np.ndarray) -> tuple[float, ...]:
        """The measures of a canonical assignment in the order of the priorities."""
        return tuple(self.measured(name, assignment) for name in self.stages)


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
        figures = {name: self.problem.measured(name, assignment) for name in self.kept}
        return [
            Violation(name, f"{name} is {figures[name]:g}, an earlier stage has {most:g}", amount=figures[name] - most)
            for name, most in self.kept.items()
            if figures[name] > most + ROUNDING * self.problem.tie(name, most)
        ]

    def most(self, value: float, bound: float | None) -> float:
        """The values that later stages may give this one, which ended at a value: all that is as good, if it is proven."""
        tie = self.tolerance_of(value)
        return value if bound is None or value - bound > tie else max(value, bound + WITHIN * tie)
