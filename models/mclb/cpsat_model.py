"""MCLB as a CP-SAT model with integer squares. The numbers are those of `MCLB`'s docstring."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.base.integers import scaled
from keyshift.models.mclb.problem import MCLB
from keyshift.models.rules.rows import add_to_cpsat, keep_within
from keyshift.models.stages import PlacedCpSat
from keyshift.models.workload import IntArray


class MCLBCpSat(PlacedCpSat):
    """The model of [Guo2018], section 2, in whole numbers: the sum of squared loads is minimised.

    The sum of squared loads is n times the imbalance plus a constant, which is taken off exactly in `bound`.

    Parameters
    ----------
    problem : MCLB
    strengthened : bool, default True
        With (5): for our own solving, as in `MCLBPyomo`.

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
    """

    def __init__(self, problem: MCLB, strengthened: bool = True) -> None:
        self.problem, self.core, self.strengthened = problem, problem.core, strengthened
        # The scaled loads of all windows together stay below 2**31, so that their squares fit 62 bits.
        self.scaled = scaled(self.core.load.ravel(), bits=31)
        self.load: IntArray = self.scaled.values.reshape(self.core.load.shape)
        self.model = cp_model.CpModel()
        self.variables()
        self.one_node_each()
        self.loads()
        self.squares()
        self.state_budget()
        self.rules()
        if strengthened:
            self.first_come_first_node()
        self.model.minimize(sum(self.square.values()))

    def variables(self) -> None:
        """x and the integer loads; (4) leaves draining nodes out altogether."""
        (p, windows), n, names = self.load.shape, self.core.nodes, self.core.names.tolist()
        self.x = {(k, i): self.model.new_bool_var(f"x[k{k},n{names[i]}]") for k in range(p) for i in range(n)}
        total = self.load.sum(axis=0).tolist()
        places = [(t, i) for t in range(windows) for i in range(n)]
        self.node_load = {(t, i): self.model.new_int_var(0, total[t], f"L[t{t},n{names[i]}]") for t, i in places}
        self.square = {
            (t, i): self.model.new_int_var(0, total[t] ** 2, f"L2[t{t},n{names[i]}]") for t, i in self.node_load
        }

    def loads(self) -> None:
        """(2) The load of every node in every window; together they are the window's total."""
        names = self.core.names.tolist()
        for (t, i), load in self.node_load.items():
            row = load == sum(int(y) * self.x[k, i] for k, y in enumerate(self.load[:, t]) if y > 0)
            self.model.add(row).with_name(f"load[t{t},n{names[i]}]")
        for t, total in enumerate(self.load.sum(axis=0).tolist()):
            self.model.add(sum(self.node_load[t, i] for i in range(self.core.nodes)) == total)

    def squares(self) -> None:
        """Each square is the product of a load with itself."""
        for at, load in self.node_load.items():
            self.model.add_multiplication_equality(self.square[at], [load, load])

    def state_budget(self) -> None:
        """(3) No more state moves than allowed, in whole numbers that never forbid what the floats allow."""
        core = self.core
        if not core.limited:
            return
        for k in np.flatnonzero(~core.limit.fits).tolist():
            self.model.add(self.x[k, int(core.current[k])] == 1)
        costly = np.flatnonzero(core.state > 0).tolist()
        leaves = [(k, 1 - self.x[k, int(core.current[k])]) for k in costly]
        keep_within(self.model, core.limit, leaves, "budget")

    def rules(self) -> None:
        """The rules: (1) to (4) of `keyshift.models.rules.lowered`, by the workload's numbers of the nodes."""
        names = self.core.names.tolist()
        add_to_cpsat(
            self.model, self.problem.lowered, {(k, names[i]): x for (k, i), x in self.x.items()}, max(names) + 1
        )

    def first_come_first_node(self) -> None:
        """(5) A key group opens an interchangeable node only when a larger one has opened the one before."""
        for pair, earlier in self.core.openings():
            self.model.add(self.x[pair] <= sum(self.x[one] for one in earlier))

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        known = self.core.lower(assignment)
        super().set_start(self.core.in_order(known) if self.strengthened else known)

    def assignment(self, value: Callable[[Any], int]) -> IntArray:
        """Read the assignment through ``value``, a function from a variable to its value."""
        return self.core.lift(super().assignment(value))

    def bound(self, integer_bound: int | float) -> float:
        """Turn a bound on the sum of squared integer loads into a safe one on the imbalance.

        The root of the imbalance is a norm of the loads. Rounding moves every load by no more than p times the
        error of one number, the norm by no more than the root of m times as much: that is taken off.
        """
        n = self.core.nodes
        p, windows = self.load.shape
        whole = integer_bound if isinstance(integer_bound, int) else round(integer_bound)
        if isinstance(integer_bound, float) and abs(integer_bound) > 2**52:  # off by a unit in the last place at most
            whole = math.floor(integer_bound * (1 - 2e-16))
        constant = sum(int(total) ** 2 for total in self.load.sum(axis=0))
        value = max(Fraction(whole, n) - Fraction(constant, n * n), Fraction(0)) / self.scaled.scale**2
        norm = math.sqrt(value) * (1 - 1e-15) - math.sqrt(windows) * p * self.scaled.error
        return max(0.0, norm) ** 2 * (1 - 1e-15)
