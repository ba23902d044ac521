"""MCLB as a Pyomo model: the mixed-integer quadratic program, and its outer approximation by tangents."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from keyshift.models.base.pyomo import pyo
from keyshift.models.mclb.problem import MCLB, sums_on_nodes
from keyshift.models.rules.rows import add_to_pyomo
from keyshift.models.stages import PlacedPyomo
from keyshift.models.workload import FloatArray, IntArray


class MCLBPyomo(PlacedPyomo):
    """The model of [Guo2018], section 2, one method for each family of constraints; numbers as in `MCLB`.

    Loads are divided by `unit`, the root of n times the problem's scale, so that the objective is the imbalance in
    units of that scale. The deviations ``d[t, i] = L[t, i] - mean[t]`` stand for the loads.

    Parameters
    ----------
    problem : MCLB
    linear : bool, default False
        Replace the squares by ``e[t, i]`` above tangents, which `add_tangents` supplies: a mixed-integer
        linear outer approximation, whose optimum is a lower bound.
    strengthened : bool, default True
        With (5), which takes interchangeable nodes for the same, and with what stays fixed: for our own solving. A
        rule about a node does not take them for the same.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[k, i]`` over kept nodes 0..n-1 (`Core`), ``d[t, i]`` and, when linear, ``e[t, i]``.
    """

    letters: ClassVar[dict[str, str]] = {"one_node": "k", "too_large": "k"}

    def __init__(self, problem: MCLB, linear: bool = False, strengthened: bool = True) -> None:
        self.problem, self.core, self.linear, self.strengthened = problem, problem.core, linear, strengthened
        self.unit = float(np.sqrt(problem.scale * self.core.nodes))
        self.load = self.core.load / self.unit
        self.model = pyo.ConcreteModel(name=problem.name)
        self.variables()
        self.one_node_each()
        self.deviations()
        self.state_budget()
        self.rules()
        if strengthened:
            self.first_come_first_node()
        self.set_objective()

    def variables(self) -> None:
        """x, d and e, each in a box that rounding cannot leave; (4) leaves draining nodes out altogether."""
        m, (p, windows), n = self.model, self.load.shape, self.core.nodes
        total = self.load.sum(axis=0)
        m.x = pyo.Var(range(p), range(n), domain=pyo.Binary)
        m.d = pyo.Var(range(windows), range(n), bounds=lambda m, t, i: (-total[t], total[t]))
        if self.linear:
            m.e = pyo.Var(range(windows), range(n), bounds=lambda m, t, i: (0, float(total[t]) ** 2))
            m.tangents = pyo.ConstraintList()

    def deviations(self) -> None:
        """(2) A node's load, less the mean of the window."""
        loaded = [np.flatnonzero(row).tolist() for row in self.load.T]
        mean = self.load.sum(axis=0) / self.core.nodes

        def load_less_mean(m: pyo.ConcreteModel, t: int, i: int) -> object:
            return pyo.quicksum(float(self.load[k, t]) * m.x[k, i] for k in loaded[t]) - m.d[t, i] == float(mean[t])

        self.model.deviation = pyo.Constraint(range(self.load.shape[1]), range(self.core.nodes), rule=load_less_mean)

    def state_budget(self) -> None:
        """(3) No more state moves than allowed; what exceeds the budget by itself stays."""
        core, m = self.core, self.model
        if not core.limited:
            return
        stay = np.flatnonzero(~core.limit.fits).tolist()
        if self.strengthened:
            for k in stay:
                m.x[k, int(core.current[k])].fix(1)
        else:
            m.too_large = pyo.Constraint(stay, rule=lambda m, k: m.x[k, int(core.current[k])] == 1)
        if core.limit.binds:
            costly = np.flatnonzero(core.limit.fits & (core.state > 0)).tolist()
            moved = pyo.quicksum(float(core.state[k]) * (1 - m.x[k, int(core.current[k])]) for k in costly)
            m.budget = pyo.Constraint(expr=moved <= core.limit.most)

    def rules(self) -> None:
        """The rules: (1) to (4) of `keyshift.models.rules.lowered`, by the workload's numbers of the nodes."""
        names = self.core.names.tolist()
        x = {(k, names[i]): x for (k, i), x in self.model.x.items()}
        add_to_pyomo(self.model, self.problem.lowered, x, max(names) + 1)

    def first_come_first_node(self) -> None:
        """(5) A key group opens an interchangeable node only when a larger one has opened the one before."""
        rows = dict(self.core.openings())

        def opened(m: pyo.ConcreteModel, k: int, i: int) -> object:
            return m.x[k, i] <= pyo.quicksum(m.x[one] for one in rows[k, i])

        self.model.symmetry = pyo.Constraint(list(rows), rule=opened)

    def set_objective(self) -> None:
        """The imbalance in units of the problem's scale."""
        terms = self.model.e.values() if self.linear else (d**2 for d in self.model.d.values())
        self.model.imbalance = pyo.Objective(expr=pyo.quicksum(terms), sense=pyo.minimize)

    def add_tangents(self, at: FloatArray) -> None:
        """Hold e above the tangents of the square at deviations of shape (m, n), in scaled units.

        At a deviation of nearly 0 there is none: it says no more than e >= 0, and a coefficient that is mere rounding
        would set the unit in which a solver measures e.
        """
        m = self.model
        for (t, i), a in np.ndenumerate(at):
            # A deviation whose square is nothing, in units in which loads are near 1.
            if abs(a) >= 1e-6:
                m.tangents.add(m.e[t, i] >= 2 * float(a) * m.d[t, i] - float(a) ** 2)

    def deviations_of(self, assignment: IntArray) -> FloatArray:
        """Scaled deviations d of an assignment to 0..n-1, shape (m, n)."""
        loads = sums_on_nodes(self.load, assignment, self.core.nodes)
        return (loads - loads.mean(axis=0)).T

    def in_order(self, assignment: IntArray) -> IntArray:
        """The same groups with interchangeable nodes numbered as (5) asks, where it is stated."""
        return self.core.in_order(assignment) if self.strengthened else assignment

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable its value in a known assignment."""
        assignment = self.in_order(self.core.lower(assignment))
        super().set_start(assignment)
        for (t, i), value in np.ndenumerate(self.deviations_of(assignment)):
            # Rounding may put a value slightly outside its bounds.
            self.model.d[t, i].set_value(value, skip_validation=True)
            if self.linear:
                self.model.e[t, i].set_value(value**2, skip_validation=True)

    def assignment(self) -> IntArray:
        """Read the assignment from the variables' values."""
        return self.core.lift(super().assignment())

    def label(self, name: str, index: tuple[int, ...]) -> str | None:
        """Say which node of the workload a variable or a row is about."""
        if name not in ("x", "d", "e", "deviation"):
            return None
        return f"{'k' if name == 'x' else 't'}{index[0]},n{self.core.names[index[1]]}"

    def bound(self, proven: float) -> float:
        """Turn a bound that a solver proves into one on the imbalance."""
        return max(0.0, proven) * self.problem.scale


class MCLBPairsPyomo(MCLBPyomo):
    r"""The same without squares: a linear program in whole variables, which any solver of such programs runs.

    With :math:`C = Y^T Y` the imbalance is a sum over pairs of key groups that share a node, as `MCLB` says:

    .. math::

        \min \; h = \tfrac{1}{n} \Big( \sum_k C_{kk} + 2 \sum_{k < l} C_{kl} z_{kl} \Big)
            - \tfrac{1}{n^2} \sum_{k, l} C_{kl} \quad \text{subject to (1), (3), (4), (6) and}

        (7) \quad & z_{kl} \ge x_{ki} + x_{li} - 1  && \text{for every pair } k < l \text{ of } C_{kl} > 0 \text{ and } i \\
        (8) \quad & z_{kl} \le 1 - x_{ki} + x_{li}  && \text{for the same}

    (8) is never needed for an optimum: it makes z what its name says for a rule of one's own. There are p (p - 1) / 2
    pairs, and the linear relaxation is weak: for dozens of key groups. The relaxation that is not weak is `sdp`.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[k, i]`` over kept nodes, ``together[k, l]``.
    """

    letters: ClassVar[dict[str, str]] = {**MCLBPyomo.letters, "together": "kk"}

    def variables(self) -> None:
        """x, and z of the pairs that have load in a window both; (4) leaves draining nodes out altogether."""
        m, p, n = self.model, self.load.shape[0], self.core.nodes
        self.shared = self.load @ self.load.T
        pairs = [(k, other) for k, other in np.argwhere(np.triu(self.shared, 1) > 0).tolist()]
        m.x = pyo.Var(range(p), range(n), domain=pyo.Binary)
        m.pairs = pyo.Set(initialize=pairs, dimen=2)
        m.together = pyo.Var(m.pairs, bounds=(0, 1))

    def deviations(self) -> None:
        """(7) Two key groups on one node are together; (8) on two they are not."""
        m, nodes = self.model, range(self.core.nodes)
        m.meeting = pyo.Constraint(
            m.pairs, nodes, rule=lambda m, k, other, i: m.together[k, other] >= m.x[k, i] + m.x[other, i] - 1
        )
        if not self.strengthened:
            m.parting = pyo.Constraint(
                m.pairs, nodes, rule=lambda m, k, other, i: m.together[k, other] <= 1 - m.x[k, i] + m.x[other, i]
            )

    def set_objective(self) -> None:
        """The imbalance in units of the problem's scale: what pairs share, less what an even spread would."""
        total = self.load.sum(axis=0)
        rest = float(np.trace(self.shared) - total @ total / self.core.nodes)
        both = pyo.quicksum(2 * float(self.shared[pair]) * z for pair, z in self.model.together.items())
        self.model.imbalance = pyo.Objective(expr=both + rest)

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable its value in a known assignment."""
        assignment = self.in_order(self.core.lower(assignment))
        PlacedPyomo.set_start(self, assignment)
        for (k, other), z in self.model.together.items():
            z.value = int(assignment[k] == assignment[other])

    def label(self, name: str, index: tuple[int, ...]) -> str | None:
        """Say which node of the workload a variable or a row is about."""
        if name in ("meeting", "parting"):
            return f"k{index[0]},k{index[1]},n{self.core.names[index[2]]}"
        return super().label(name, index)
