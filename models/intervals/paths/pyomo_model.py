"""Interval migration as the linear program of a shortest path, in Pyomo."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyomo.environ as pyo

from keyshift.models.intervals.paths.network import drawn, named, one_path
from keyshift.models.intervals.sequence.problem import MigrationSequence
from keyshift.models.intervals.step.problem import IntervalMigration
from keyshift.models.workload import IntArray


class PathPyomo:
    r"""The dynamic program of `IntervalMigration`, or of `MigrationSequence`, stated as a flow of one unit.

    Sets and data: the states v and arcs e of the network (`StepNetwork`, `SequenceNetwork`), with cost :math:`c_e` in
    state. (1)-(6) of the problem are in the network: its paths are what keeps them. Variables: :math:`y_e \ge 0`,
    the flow along arc e.

    .. math::

        \min \; \sum_e c_e \, y_e \quad \text{subject to}

        (7) \quad & \sum_{e \text{ out of } v} y_e = 1                           && \text{for the source } v \\
        (8) \quad & \sum_{e \text{ out of } v} y_e = \sum_{e \text{ into } v} y_e && \text{for all others but the sink}

    Integral by itself: each column holds one 1 and at most one -1, as the incidence matrix of a directed graph does,
    which is totally unimodular; right sides are whole, so every corner of the polytope is - and, the network having no
    circle, a path. An interior-point or first-order method may end between two paths of the same length: `assignment`
    follows the larger flow then, and every path of the flow's support is as short.

    Parameters
    ----------
    problem : IntervalMigration or MigrationSequence
        A sequence has to be small: its partitions are written out.
    strengthened : bool, default True
        As in `SequenceNetwork`; a step has no such thing.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
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
        self.model = pyo.ConcreteModel(name=problem.name)
        self.variables()
        self.shortest()
        self.one_path_begins()
        self.nothing_is_lost()

    def variables(self) -> None:
        """The flow; 1 is the most that any arc can carry, which makes safe dual bounds possible."""
        m = self.model
        m.arcs = pyo.Set(initialize=[named(name) for name in self.network.names])
        m.y = pyo.Var(m.arcs, bounds=(0, 1))
        self.flow = list(m.y.values())

    def shortest(self) -> None:
        """The state moved along the path, in units."""
        cost = (self.network.cost / self.unit).tolist()
        self.model.moved = pyo.Objective(expr=pyo.quicksum(c * y for c, y in zip(cost, self.flow, strict=True)))

    def one_path_begins(self) -> None:
        """(7) One unit leaves the source; without a path to the sink there is no flow."""
        m = self.model
        out = [self.flow[e] for e in self.network.leaving[0]]
        if not out:
            m.nowhere = pyo.Var(bounds=(0, 0))
            out = [m.nowhere]
        m.begin = pyo.Constraint(expr=pyo.quicksum(out) == 1)

    def nothing_is_lost(self) -> None:
        """(8) What comes into a state leaves it."""
        m, inner = self.model, range(1, len(self.network.states) - 1)
        m.states = pyo.Set(initialize=[named(self.network.states[v]) for v in inner])
        place = dict(zip(m.states, inner, strict=True))

        def balance(m: pyo.ConcreteModel, state: str) -> object:
            out, into = self.network.leaving[place[state]], self.network.entering[place[state]]
            return pyo.quicksum(self.flow[e] for e in out) - pyo.quicksum(self.flow[e] for e in into) == 0

        m.balance = pyo.Constraint(m.states, rule=balance)

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable its value on the path of a known assignment."""
        used = set(self.drawn.arcs_of(assignment))
        for e, y in enumerate(self.flow):
            y.value = int(e in used)

    def settled(self) -> bool:
        """Whether the flow is that of one path: whole as long as no rows are added."""
        return one_path(np.array([y.value for y in self.flow], dtype=float))

    def assignment(self) -> IntArray:
        """Read the assignment, in the problem's shape, from the variables' values."""
        values = np.array([y.value for y in self.flow], dtype=float)
        return self.drawn.assignment(self.network.path(values))

    def value(self, native: float) -> float:
        """State moved, from the model's objective."""
        return native * self.unit

    def bound(self, proven: float) -> float:
        """Turn a lower bound on the model's objective into one on the state moved."""
        return max(0.0, self.value(proven))
