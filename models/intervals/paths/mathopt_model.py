"""Interval migration as the linear program of a shortest path, in OR-Tools MathOpt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from ortools.math_opt.python import mathopt

from keyshift.models.intervals.paths.network import drawn, named, one_path
from keyshift.models.intervals.sequence.problem import MigrationSequence
from keyshift.models.intervals.step.problem import IntervalMigration
from keyshift.models.workload import IntArray


class PathMathOpt:
    """The shortest-path program of `PathPyomo`, for GLOP, PDLP and others: the same numbers, one method each.

    Parameters
    ----------
    problem : IntervalMigration or MigrationSequence
    strengthened : bool, default True
        As in `SequenceNetwork`.

    Attributes
    ----------
    model : ortools.math_opt.python.mathopt.Model
        Variables ``y[...]`` by the arcs' names; costs in `unit`.
    unit : float
        State that one unit of the model's objective stands for, a power of two.
    """

    whole_family: ClassVar[str] = "y"
    """Variables that have to be made whole where rows are added."""

    def __init__(self, problem: IntervalMigration | MigrationSequence, strengthened: bool = True) -> None:
        self.drawn = drawn(problem, strengthened)
        self.network = self.drawn.network
        self.unit = self.network.unit
        self.model = mathopt.Model(name=problem.name)
        self.flow = [self.model.add_variable(lb=0, ub=1, name=f"y[{named(name)}]") for name in self.network.names]
        self.shortest()
        self.one_path_begins()
        self.nothing_is_lost()

    def shortest(self) -> None:
        """The state moved along the path, in units."""
        cost = (self.network.cost / self.unit).tolist()
        self.model.minimize(mathopt.fast_sum(c * y for c, y in zip(cost, self.flow, strict=True)))

    def one_path_begins(self) -> None:
        """(7) One unit leaves the source; without a path to the sink there is no flow."""
        out = mathopt.fast_sum(self.flow[e] for e in self.network.leaving[0])
        self.model.add_linear_constraint(lb=1, ub=1, expr=out, name="begin")

    def nothing_is_lost(self) -> None:
        """(8) What comes into a state leaves it."""
        for v in range(1, len(self.network.states) - 1):
            out = mathopt.fast_sum(self.flow[e] for e in self.network.leaving[v])
            into = mathopt.fast_sum(self.flow[e] for e in self.network.entering[v])
            name = f"balance[{named(self.network.states[v])}]"
            self.model.add_linear_constraint(lb=0, ub=0, expr=out - into, name=name)

    def hint(self, assignment: IntArray) -> mathopt.SolutionHint:
        """A known assignment's path as a warm start."""
        used = set(self.drawn.arcs_of(assignment))
        return mathopt.SolutionHint(variable_values={y: float(e in used) for e, y in enumerate(self.flow)})

    def settled(self, values: Mapping[mathopt.Variable, float]) -> bool:
        """Whether the flow is that of one path: whole as long as no rows are added."""
        return one_path(np.array([values[y] for y in self.flow]))

    def assignment(self, values: Mapping[mathopt.Variable, float]) -> IntArray:
        """Read the assignment, in the problem's shape, from a solution's values."""
        return self.drawn.assignment(self.network.path(np.array([values[y] for y in self.flow])))

    def value(self, native: float) -> float:
        """State moved, from the model's objective."""
        return native * self.unit

    def bound(self, proven: float) -> float:
        """Turn a lower bound on the model's objective into one on the state moved."""
        return max(0.0, self.value(proven))
