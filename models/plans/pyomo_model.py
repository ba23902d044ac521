"""Transfer scheduling as a Pyomo model, to read, change and solve anywhere. Numbers as in `TransferScheduling`."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from keyshift.models.base.pyomo import pyo
from keyshift.models.plans.transfers import TransferScheduling
from keyshift.models.workload import FloatArray, IntArray


class TransferPyomo:
    """One method for each family of constraints; a linear program in whole variables, for a dozen transfers.

    What a node has on the way can only break a limit when a transfer begins. So an order of all starts is chosen, ties
    one after another, and (2) and (3) are stated at each start: of the transfers that have begun by then, those count that run.

    Parameters
    ----------
    problem : TransferScheduling
        `Plan.transfers()` is that of a plan.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``start[j]`` in units of the longest transfer, ``begun[k, j]``: k begins no later than j,
        ``ended[k, j]``: k has ended when j begins; ``end``, which is minimised.
    unit : float
        Seconds in a unit of time.
    """

    def __init__(self, problem: TransferScheduling) -> None:
        self.problem, self.count = problem, range(problem.transfers)
        self.unit = float(problem.seconds.max(initial=1.0))
        self.seconds = (problem.seconds / self.unit).tolist()
        self.horizon = sum(self.seconds)
        self.model = pyo.ConcreteModel(name="transfer-scheduling")
        self.variables()
        self.order()
        self.parallel()
        self.limits()

    def variables(self) -> None:
        """(1) Starts from 0 on; and the end of the last transfer."""
        m = self.model
        m.pairs = pyo.Set(initialize=list(permutations(self.count, 2)), dimen=2)
        m.start = pyo.Var(self.count, bounds=(0, self.horizon))
        m.begun, m.ended = pyo.Var(m.pairs, domain=pyo.Binary), pyo.Var(m.pairs, domain=pyo.Binary)
        m.end = pyo.Var(bounds=(0, self.horizon))
        m.last = pyo.Constraint(self.count, rule=lambda m, j: m.start[j] + self.seconds[j] <= m.end)
        m.makespan = pyo.Objective(expr=m.end)

    def order(self) -> None:
        """Of two transfers one begins no later; the order has no circle; what has ended has begun, and is over."""
        m, long = self.model, self.horizon
        m.begins = pyo.Constraint(m.pairs, rule=lambda m, k, j: m.start[k] <= m.start[j] + long * (1 - m.begun[k, j]))
        m.one_first = pyo.Constraint(
            m.pairs, rule=lambda m, k, j: m.begun[k, j] + m.begun[j, k] == 1 if k < j else pyo.Constraint.Skip
        )
        m.no_circle = pyo.Constraint(
            pyo.Set(initialize=list(permutations(self.count, 3)), dimen=3),
            rule=lambda m, k, j, i: m.begun[k, j] + m.begun[j, i] <= 1 + m.begun[k, i],
        )
        m.is_over = pyo.Constraint(
            m.pairs, rule=lambda m, k, j: m.start[k] + self.seconds[k] <= m.start[j] + 2 * long * (1 - m.ended[k, j])
        )
        m.begun_first = pyo.Constraint(m.pairs, rule=lambda m, k, j: m.ended[k, j] <= m.begun[k, j])

    def parallel(self) -> None:
        """(2) No node takes part in more transfers at once than allowed."""
        p, m = self.problem, self.model
        ends = [(j, i) for j in self.count for i in (int(p.source[j]), int(p.target[j]))]

        def at_once(m: pyo.ConcreteModel, j: int, i: int) -> object:
            others = [k for k in self.count if k != j and i in (p.source[k], p.target[k])]
            if len(others) < p.parallel:
                return pyo.Constraint.Skip
            return pyo.quicksum(m.begun[k, j] - m.ended[k, j] for k in others) <= p.parallel - 1

        m.at_once = pyo.Constraint(pyo.Set(initialize=ends, dimen=2), rule=at_once)

    def limits(self) -> None:
        """(3) No node holds more than allowed when a transfer into it begins."""
        p, m = self.problem, self.model
        rows = [(r, j) for r in range(p.limit.shape[0]) for j in self.count if np.isfinite(p.limit[r, p.target[j]])]

        def held(m: pyo.ConcreteModel, r: int, j: int) -> object:
            node, use, unit = int(p.target[j]), p.usage[r], float(p.limit[r, p.target[j]])
            here = pyo.quicksum(float(use[k]) / unit * m.begun[k, j] for k in self._others(p.target, node, j))
            gone = pyo.quicksum(float(use[k]) / unit * m.ended[k, j] for k in self._others(p.source, node, j))
            row = here - gone <= 1 - float(p.held[r, node] + use[j]) / unit + 1e-9
            if not isinstance(row, bool | np.bool_):
                return row
            return pyo.Constraint.Feasible if row else pyo.Constraint.Infeasible  # nothing else moves here

        m.held = pyo.Constraint(pyo.Set(initialize=rows, dimen=2), rule=held)

    def _others(self, ends: IntArray, node: int, j: int) -> list[int]:
        return [int(k) for k in np.flatnonzero(ends == node) if k != j]

    def starts(self) -> FloatArray:
        """Seconds at which each transfer begins, by the order that the variables' values say; each as early as that allows."""
        p, m = self.problem, self.model
        made = np.zeros(p.transfers)
        for j in sorted(self.count, key=lambda j: sum(m.begun[k, j].value > 0.5 for k in self.count if k != j)):
            before = [k for k in self.count if k != j and m.begun[k, j].value > 0.5]
            over = [k for k in before if m.ended[k, j].value > 0.5]
            made[j] = max([0.0, *made[before], *(made[over] + p.seconds[over])])
        return made
