"""MCLB as an OR-Tools MathOpt model, a mixed-integer quadratic program for SCIP."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from ortools.math_opt.python import mathopt

from keyshift.models.answer import SCIP_ERROR, SCIP_SMALL
from keyshift.models.mclb.problem import MCLB
from keyshift.models.rules.rows import linear_rows
from keyshift.models.workload import IntArray


class MCLBMathOpt:
    """The model of [Guo2018], section 2, one method for each family of constraints; numbers as in `MCLB`.

    Parameters
    ----------
    problem : MCLB
    strengthened : bool, default True
        With (5): for our own solving, as in `MCLBPyomo`.

    Attributes
    ----------
    model : ortools.math_opt.python.mathopt.Model
        Variables ``x[k, i]`` over kept nodes and deviations ``d[t, i]``, these in units of `worth`.
    worth : ndarray, shape (windows,)
        Each window's unit of load, a power of two near its total.
    error_bound : float
        How far what is left out, and SCIP's tolerances, may have put a bound on the wrong side, in shares of the scale.
    """

    def __init__(self, problem: MCLB, strengthened: bool = True) -> None:
        self.problem, self.core, self.strengthened = problem, problem.core, strengthened
        self.unit = float(np.sqrt(problem.scale * self.core.nodes))
        scaled = self.core.load / self.unit
        total = scaled.sum(axis=0)
        self.worth = np.exp2(np.frexp(total)[1])
        self.load = np.where(scaled < SCIP_SMALL * total, 0.0, scaled / self.worth)
        self.error_bound = SCIP_ERROR + 4.0 * float(total @ (total - self.load.sum(axis=0) * self.worth).clip(0.0))
        self.model = mathopt.Model(name=problem.name)
        self.variables()
        self.one_node_each()
        self.deviations()
        self.state_budget()
        self.rules()
        if strengthened:
            self.first_come_first_node()
        self.model.minimize(mathopt.fast_sum(float(self.worth[t]) ** 2 * d * d for (t, i), d in self.d.items()))

    def variables(self) -> None:
        """x, and d in a box that rounding cannot leave; (4) leaves draining nodes out altogether."""
        (p, windows), n, names = self.load.shape, self.core.nodes, self.core.names.tolist()
        total = self.load.sum(axis=0)
        self.x = {
            (k, i): self.model.add_binary_variable(name=f"x[k{k},n{names[i]}]") for k in range(p) for i in range(n)
        }
        self.d = {
            (t, i): self.model.add_variable(lb=-total[t], ub=total[t], name=f"d[t{t},n{names[i]}]")
            for t in range(windows)
            for i in range(n)
        }

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        for k in range(self.load.shape[0]):
            self.model.add_linear_constraint(
                mathopt.fast_sum(self.x[k, i] for i in range(self.core.nodes)) == 1, name=f"one_node[k{k}]"
            )

    def deviations(self) -> None:
        """(2) A node's load, less the mean of the window."""
        names = self.core.names.tolist()
        mean = self.load.sum(axis=0) / self.core.nodes
        for (t, i), d in self.d.items():
            load = mathopt.fast_sum(float(y) * self.x[k, i] for k, y in enumerate(self.load[:, t]) if y > 0)
            self.model.add_linear_constraint(load - d == float(mean[t]), name=f"deviation[t{t},n{names[i]}]")

    def state_budget(self) -> None:
        """(3) No more state moves than allowed, in shares of the budget; what exceeds it by itself stays."""
        core = self.core
        if not core.limited:
            return
        for k in np.flatnonzero(~core.limit.fits).tolist():
            self.model.add_linear_constraint(self.x[k, int(core.current[k])] == 1.0, name=f"too_large[k{k}]")
        if core.limit.binds:
            shares = core.limit.shares()
            costly = np.flatnonzero(shares > 0).tolist()
            moved = mathopt.fast_sum(float(shares[k]) * (1 - self.x[k, int(core.current[k])]) for k in costly)
            self.model.add_linear_constraint(moved <= 1.0, name="budget")

    def rules(self) -> None:
        """The rules: (1) to (4) of `keyshift.models.rules.lowered`, by the workload's numbers of the nodes."""
        names = self.core.names.tolist()
        x = {(k, names[i]): x for (k, i), x in self.x.items()}
        for number, (name, row) in enumerate(linear_rows(self.problem.lowered, x, max(names) + 1, mathopt.fast_sum)):
            given = {"lb": 1.0, "expr": 0.0} if row is False else {"bounded_expr": row}  # a row that nothing can keep
            self.model.add_linear_constraint(**given, name=f"{name}[r{number}]")

    def forbid(self, assignment: IntArray) -> bool:
        """Cut off an assignment that the check refuses, and others by the same cause; whether it is refused."""
        clauses = self.problem.clauses(assignment)
        for clause in clauses:
            one = mathopt.fast_sum(self.x[k, i] if on else 1 - self.x[k, i] for k, i, on in clause)
            self.model.add_linear_constraint(one >= 1.0)
        return bool(clauses)

    def first_come_first_node(self) -> None:
        """(5) A key group opens an interchangeable node only when a larger one has opened the one before."""
        names = self.core.names.tolist()
        for (k, i), earlier in self.core.openings():
            opened = mathopt.fast_sum(self.x[one] for one in earlier)
            self.model.add_linear_constraint(self.x[k, i] <= opened, name=f"symmetry[k{k},n{names[i]}]")

    def hint(self, assignment: IntArray) -> mathopt.SolutionHint:
        """A known assignment as a warm start, with its deviations."""
        known = self.core.lower(assignment)
        if self.strengthened:
            known = self.core.in_order(known)
        values = {x: float(known[k] == i) for (k, i), x in self.x.items()}
        for (t, i), d in self.d.items():
            values[d] = float(self.load[known == i, t].sum() - self.load[:, t].sum() / self.core.nodes)
        return mathopt.SolutionHint(variable_values=values)

    def assignment(self, values: Mapping[mathopt.Variable, float]) -> IntArray:
        """Read the assignment from a solution's values."""
        p, n = self.load.shape[0], self.core.nodes
        return self.core.lift(np.array([[values[self.x[k, i]] for i in range(n)] for k in range(p)]).argmax(axis=1))

    def bound(self, proven: float) -> float:
        """Turn a bound that SCIP proves into one on the imbalance, less what its tolerances amount to."""
        return max(0.0, proven - self.error_bound) * self.problem.scale if np.isfinite(proven) else 0.0
