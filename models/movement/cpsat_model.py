"""Least movement within load limits in whole numbers for CP-SAT. The numbers are those of `MovementWithinLimits`."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.base.integers import WHOLE_BITS, scaled
from keyshift.models.movement.problem import LoadLimits, MovementWithinLimits
from keyshift.models.rules.rows import add_to_cpsat
from keyshift.models.stages import PlacedCpSat
from keyshift.models.workload import IntArray


class MovementCpSat(PlacedCpSat):
    """The same as `MovementPyomo`, in whole numbers.

    Loads are scaled to integers; where that rounds, the limits are widened by what rounding can have added: an answer
    has to pass `check` on the original numbers, and `forbid` takes out what does not.

    Parameters
    ----------
    problem : MovementWithinLimits
    most : float, optional
        State that a known assignment moves: states above it count as little more.
    """

    def __init__(self, problem: MovementWithinLimits, most: float = math.inf) -> None:
        self.problem, self.limits = problem, LoadLimits(problem, most)
        self.nodes, self.key_groups = self.limits.nodes, self.limits.key_groups
        self.model = cp_model.CpModel()
        self.x = {(k, i): self.model.new_bool_var(f"x[k{k},n{i}]") for k in self.key_groups for i in self.nodes}
        self.z = {i: self.model.new_bool_var(f"z[n{i}]") for i in self.nodes}
        self.state = scaled(self.limits.state, whole=WHOLE_BITS)
        self.one_node_each()
        self.load_limits()
        self.node_count()
        self.only_in_use()
        add_to_cpsat(self.model, problem.lowered, self.x, problem.places)
        stay = {k: self.x[k, i] for k, i in enumerate(problem.workload.current.tolist()) if i in self.z}
        self.model.minimize(sum(int(s) * (1 - stay.get(k, 0)) for k, s in enumerate(self.state.values)))

    def load_limits(self) -> None:
        """(2) A node in use carries between v and u, give or take what the check allows."""
        for t, (above, low) in enumerate(zip(self.limits.above, self.limits.low, strict=True)):
            if above.binds:
                weights, most = above.whole()
                for i in self.nodes:
                    self.model.add(self._load(weights, i) <= most * self.z[i]).with_name(f"upper_load[t{t},n{i}]")
            if self.limits.least > 0:
                made = scaled(low)
                error_bound = Fraction(made.error) * len(self.key_groups)
                least = max(0, math.ceil((Fraction(self.limits.least) - error_bound) * made.scale))
                for i in self.nodes:
                    row = self._load(made.values, i) >= least * self.z[i]
                    self.model.add(row).with_name(f"lower_load[t{t},n{i}]")

    def _load(self, weights: IntArray, i: int) -> cp_model.LinearExprT:
        return sum(int(y) * self.x[k, i] for k, y in enumerate(weights) if y > 0)

    def node_count(self) -> None:
        """(3) As many nodes as wanted are in use."""
        self.model.add(sum(self.z.values()) == self.problem.nodes_after).with_name("count")

    def only_in_use(self) -> None:
        """(4) A node that is not in use runs nothing; where v is above 0, one that is runs something."""
        for (_, i), x in self.x.items():
            self.model.add_implication(x, self.z[i])
        if self.problem.lower > 0:
            for i, z in self.z.items():
                self.model.add_bool_or(~z, *(self.x[k, i] for k in self.key_groups))

    def forbid(self, assignment: IntArray) -> bool:
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
        return True

    def bound(self, integer_bound: float) -> float:
        """Turn a bound on scaled state into a safe one on the state."""
        return self.state.lower(math.ceil(integer_bound - 1e-6)) * (1 - 1e-15)
