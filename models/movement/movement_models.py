"""Least movement within load limits as a Pyomo and as a CP-SAT model. Numbers as in `MovementWithinLimits`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo
from ortools.sat.python import cp_model

from keyshift.models.integers import capped, scaled
from keyshift.models.knapsack import ROUNDING, Knapsack
from keyshift.models.movement.problem import SLACK, MovementWithinLimits
from keyshift.models.workload import FloatArray, IntArray


class _Limits:
    """(2) as the check reads it, row by row of the windows that count: what both statements share."""

    def __init__(self, problem: MovementWithinLimits, most: float) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.open_nodes).tolist()
        self.key_groups = range(problem.workload.key_groups)
        slack = SLACK * problem.upper
        self.above = [Knapsack(row, problem.upper + slack) for row in problem.load]
        # A key group of load v or more is enough by itself: v in its place leaves (2) as it is.
        self.low = np.minimum(problem.load, problem.lower)
        self.least = max(0.0, (problem.lower - slack) * (1 - ROUNDING * (len(self.key_groups) + 2)))
        state = problem.workload.state
        self.state: FloatArray = state if math.isinf(most) else capped(state, most)

    def too_much(self, assignment: IntArray) -> Iterator[IntArray]:
        """Key groups that no node can run together: few of those on each node above u."""
        for limit in self.above:
            loads = np.bincount(assignment, limit.weights, self.problem.node_limit)
            for i in np.flatnonzero(loads > limit.limit):
                yield limit.cover(np.flatnonzero(assignment == i))

    def too_little(self, assignment: IntArray) -> Iterator[IntArray]:
        """Key groups that are no load for a node in use: those on each node below v, and others as light as can be."""
        for row in self.problem.load:
            for i in np.unique(assignment).tolist():
                here = np.flatnonzero(assignment == i)
                if math.fsum(row[here]) >= self.least:
                    continue
                others = np.flatnonzero(assignment != i)
                others = others[np.argsort(row[others], kind="stable")]
                room = math.fsum(row[here]) + np.cumsum(row[others])
                yield np.concatenate([here, others[room < self.least * (1 - 2.0**-40)]])


class MovementPyomo:
    """One method for each family of constraints.

    Parameters
    ----------
    problem : MovementWithinLimits
    most : float, optional
        State that a known assignment moves: states above it count as little more.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[k, i]`` and ``z[i]`` for the nodes that (5) leaves open.
    """

    def __init__(self, problem: MovementWithinLimits, most: float = math.inf) -> None:
        self.problem, self.limits = problem, _Limits(problem, most)
        self.nodes, self.key_groups = self.limits.nodes, self.limits.key_groups
        self.model = m = pyo.ConcreteModel(name=problem.name)
        m.x = pyo.Var(self.key_groups, self.nodes, domain=pyo.Binary)
        m.z = pyo.Var(self.nodes, domain=pyo.Binary)
        self.one_node_each()
        self.load_limits()
        self.node_count()
        self.only_in_use()
        self.least_movement()
        m.cuts = pyo.ConstraintList()

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        self.model.one_node = pyo.Constraint(self.key_groups, rule=lambda m, k: sum(m.x[k, i] for i in self.nodes) == 1)

    def load_limits(self) -> None:
        """(2) A node in use carries between v and u: rows in units of u, and of v."""
        m, limits = self.model, self.limits
        m.limits = pyo.ConstraintList()
        for above, low in zip(limits.above, limits.low, strict=True):
            for i in self.nodes:
                if above.binds:
                    shares = above.shares().tolist()
                    m.limits.add(pyo.quicksum(y * m.x[k, i] for k, y in enumerate(shares) if y > 0) <= m.z[i])
                if limits.least > 0:
                    shares = (low / limits.least).tolist()
                    m.limits.add(pyo.quicksum(y * m.x[k, i] for k, y in enumerate(shares) if y > 0) >= m.z[i])

    def node_count(self) -> None:
        """(3) As many nodes as wanted are in use."""
        self.model.count = pyo.Constraint(expr=sum(self.model.z.values()) == self.problem.nodes_after)

    def only_in_use(self) -> None:
        """(4) A node that is not in use runs nothing; where v is above 0, one that is runs something."""
        m = self.model
        m.in_use = pyo.Constraint(self.key_groups, self.nodes, rule=lambda m, k, i: m.x[k, i] <= m.z[i])
        if self.problem.lower > 0:
            m.not_empty = pyo.Constraint(
                self.nodes, rule=lambda m, i: pyo.quicksum(m.x[k, i] for k in self.key_groups) >= m.z[i]
            )

    def least_movement(self) -> None:
        """Take the state that leaves its node as the objective."""
        m, current = self.model, self.problem.workload.current.tolist()
        stay = {k: m.x[k, i] for k, i in enumerate(current) if i in self.nodes}
        m.moved = pyo.Objective(
            expr=pyo.quicksum(s * (1 - stay.get(k, 0)) for k, s in enumerate(self.limits.state.tolist()))
        )

    def forbid(self, assignment: IntArray) -> None:
        """Cut off an assignment that tolerances let into the model and the check refused, and others by the same cause."""
        m, before = self.model, len(self.model.cuts)
        for items in self.limits.too_much(assignment):
            for i in self.nodes:
                m.cuts.add(pyo.quicksum(m.x[int(k), i] for k in items) <= items.size - 1)
        for items in self.limits.too_little(assignment):
            rest = np.setdiff1d(np.arange(len(self.key_groups)), items).tolist()
            for i in self.nodes:
                m.cuts.add(pyo.quicksum(m.x[k, i] for k in rest) - m.z[i] >= 0)
        if len(m.cuts) == before:
            m.cuts.add(pyo.quicksum(m.x[k, int(i)] for k, i in enumerate(assignment)) <= assignment.size - 1)

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable its value in a known assignment."""
        used = sorted(set(assignment.tolist()))
        spare = [i for i in self.nodes if i not in used][: self.problem.nodes_after - len(used)]
        for (k, i), x in self.model.x.items():
            x.value = int(assignment[k] == i)
        for i, z in self.model.z.items():
            z.value = int(i in used or i in spare)

    def assignment(self) -> IntArray:
        """Read the assignment from the variables' values."""
        best = [max(self.nodes, key=lambda i: self.model.x[k, i].value) for k in self.key_groups]
        return np.array(best, dtype=np.int64)


class MovementCpSat:
    """The same in whole numbers.

    Loads are scaled to integers; where that rounds, the limits are widened by what rounding can have added: an answer
    has to pass `check` on the original numbers, and `forbid` takes out what does not.

    Parameters
    ----------
    problem : MovementWithinLimits
    most : float, optional
        State that a known assignment moves: states above it count as little more.
    """

    def __init__(self, problem: MovementWithinLimits, most: float = math.inf) -> None:
        self.problem, self.limits = problem, _Limits(problem, most)
        self.nodes, self.key_groups = self.limits.nodes, self.limits.key_groups
        self.model = cp_model.CpModel()
        self.x = {(k, i): self.model.new_bool_var(f"x[{k},{i}]") for k in self.key_groups for i in self.nodes}
        self.z = {i: self.model.new_bool_var(f"z[{i}]") for i in self.nodes}
        self.state = scaled(self.limits.state)
        self.one_node_each()
        self.load_limits()
        self.node_count()
        self.only_in_use()
        stay = {k: self.x[k, i] for k, i in enumerate(problem.workload.current.tolist()) if i in self.z}
        self.model.minimize(sum(int(s) * (1 - stay.get(k, 0)) for k, s in enumerate(self.state.values)))

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        for k in self.key_groups:
            self.model.add_exactly_one(self.x[k, i] for i in self.nodes)

    def load_limits(self) -> None:
        """(2) A node in use carries between v and u, give or take what the check allows."""
        for above, low in zip(self.limits.above, self.limits.low, strict=True):
            if above.binds:
                weights, most = above.whole()
                for i in self.nodes:
                    self.model.add(self._load(weights, i) <= most * self.z[i])
            if self.limits.least > 0:
                made = scaled(low)
                doubt = Fraction(made.error) * len(self.key_groups)
                least = max(0, math.ceil((Fraction(self.limits.least) - doubt) * made.scale))
                for i in self.nodes:
                    self.model.add(self._load(made.values, i) >= least * self.z[i])

    def _load(self, weights: IntArray, i: int) -> cp_model.LinearExprT:
        return sum(int(y) * self.x[k, i] for k, y in enumerate(weights) if y > 0)

    def node_count(self) -> None:
        """(3) As many nodes as wanted are in use."""
        self.model.add(sum(self.z.values()) == self.problem.nodes_after)

    def only_in_use(self) -> None:
        """(4) A node that is not in use runs nothing; where v is above 0, one that is runs something."""
        for (_, i), x in self.x.items():
            self.model.add_implication(x, self.z[i])
        if self.problem.lower > 0:
            for i, z in self.z.items():
                self.model.add_bool_or(~z, *(self.x[k, i] for k in self.key_groups))

    def forbid(self, assignment: IntArray) -> None:
        """Cut off an assignment that rounding let into the model and the check refused, and others by the same cause."""
        cuts = 0
        for items in self.limits.too_much(assignment):
            cuts += 1
            for i in self.nodes:
                self.model.add_bool_or(~self.x[int(k), i] for k in items)
        for items in self.limits.too_little(assignment):
            cuts += 1
            rest = np.setdiff1d(np.arange(len(self.key_groups)), items).tolist()
            for i, z in self.z.items():
                self.model.add_bool_or(~z, *(self.x[k, i] for k in rest))
        if cuts == 0:
            self.model.add_bool_or(~self.x[k, int(i)] for k, i in enumerate(assignment))

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        self.model.clear_hints()
        for (k, i), x in self.x.items():
            self.model.add_hint(x, int(assignment[k] == i))

    def assignment(self, value: Callable[[Any], int]) -> IntArray:
        """Read the assignment through ``value``, a function from a variable to its value."""
        chosen = np.zeros(len(self.key_groups), dtype=np.int64)
        for (k, i), x in self.x.items():
            if value(x):
                chosen[k] = i
        return chosen

    def bound(self, integer_bound: float) -> float:
        """Turn a bound on scaled state into a safe one on the state."""
        return self.state.lower(math.ceil(integer_bound - 1e-6)) * (1 - 1e-15)
