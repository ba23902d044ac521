"""Least movement within load limits as a CP-SAT model. The numbers are those of `MovementWithinLimits`'s docstring."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.integers import scaled
from keyshift.models.movement.problem import SLACK, MovementWithinLimits
from keyshift.models.workload import IntArray


class MovementCpSat:
    """The same in whole numbers.

    Loads are scaled to integers; where that rounds, the limits are widened by what rounding can have added, and `exact`
    is False: an answer has then to pass `check` on the original numbers.

    Parameters
    ----------
    problem : MovementWithinLimits
    """

    def __init__(self, problem: MovementWithinLimits) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.open_nodes).tolist()
        self.key_groups = range(problem.workload.key_groups)
        self.model = cp_model.CpModel()
        self.x = {(k, i): self.model.new_bool_var(f"x[{k},{i}]") for k in self.key_groups for i in self.nodes}
        self.z = {i: self.model.new_bool_var(f"z[{i}]") for i in self.nodes}
        self.state = scaled(problem.workload.state)
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
        """(2) A node in use carries between v and u, give or take `SLACK` as in the check."""
        p = self.problem
        load = scaled(p.load.ravel())
        values = load.values.reshape(p.load.shape)
        doubt = Fraction(load.error) * p.workload.key_groups + Fraction(SLACK) * Fraction(p.upper)
        high = math.floor((Fraction(p.upper) + doubt) * load.scale)
        low = max(0, math.ceil((Fraction(p.lower) - doubt) * load.scale))
        for row in values:
            for i in self.nodes:
                total = sum(int(y) * self.x[k, i] for k, y in enumerate(row) if y > 0)
                self.model.add(total <= high * self.z[i])
                self.model.add(total >= low * self.z[i])

    def node_count(self) -> None:
        """(3) As many nodes as wanted are in use."""
        self.model.add(sum(self.z.values()) == self.problem.nodes_after)

    def only_in_use(self) -> None:
        """(4) A node that is not in use runs nothing."""
        for (_, i), x in self.x.items():
            self.model.add_implication(x, self.z[i])

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        for (k, i), x in self.x.items():
            self.model.add_hint(x, int(assignment[k] == i))

    def assignment(self, value: object) -> IntArray:
        """Read the assignment through ``value``, a function from a variable to its value."""
        chosen = np.zeros(len(self.key_groups), dtype=np.int64)
        for (k, i), x in self.x.items():
            if value(x):  # type: ignore[operator]
                chosen[k] = i
        return chosen

    def bound(self, integer_bound: float) -> float:
        """Turn a bound on scaled state into a safe one on the state."""
        whole = Fraction(math.ceil(integer_bound - 1e-6)) / self.state.scale
        return max(0.0, float(whole) * (1 - 1e-15) - self.state.error * len(self.key_groups))
