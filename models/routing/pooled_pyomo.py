"""The pooled linear relaxation of mixed routing in Pyomo. The numbers are those of `PooledKeys`'s docstring."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyomo.environ as pyo

from keyshift.models.routing.pooled import MOST_CLASSES, PooledKeys
from keyshift.models.routing.problem import MixedRouting


class PooledRoutingPyomo:
    """One method for each family of constraints.

    Parameters
    ----------
    problem : MixedRouting
    most_classes : int
        Above it, keys of about the same load and state are one class.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``a[t]`` and ``e[t]``, the keys of class t that go home and to the pool, and ``w[d]``, the load that
        node d takes from the pool; the objective is in units of all the state.
    """

    letters: ClassVar[dict[str, str]] = {
        "a": "c", "e": "c", "w": "n", "leave": "c", "vacate": "c", "upper_load": "n", "lower_load": "n"
    }  # fmt: skip

    def __init__(self, problem: MixedRouting, most_classes: int = MOST_CLASSES) -> None:
        self.problem, self.keys = problem, PooledKeys(problem, most_classes)
        self.model = pyo.ConcreteModel(name=problem.name)
        self.variables()
        self.every_key_once()
        self.node_loads()
        self.table_size()
        self.pool()
        self.state_moved()

    def variables(self) -> None:
        """(5') A home that drains, or that a class never left, has no a; a draining node no w."""
        m, keys, count = self.model, self.keys, self.keys.count.tolist()
        m.a = pyo.Var(keys.goes_home.tolist(), bounds=lambda m, t: (0, count[t]))
        m.e = pyo.Var(range(keys.size), bounds=lambda m, t: (0, count[t]))
        m.w = pyo.Var(keys.nodes.tolist(), bounds=lambda m, d: (0, float(keys.upper[d])))

    def leaves(self, t: int) -> pyo.Expression:
        """Keys of a class that leave their node."""
        m = self.model
        return m.e[t] + m.a[t] if t in m.a else 1.0 * m.e[t]

    def every_key_once(self) -> None:
        """(1') No more keys leave than there are; all do, from a draining node."""
        m, keys, count = self.model, self.keys, self.keys.count.tolist()
        m.leave = pyo.Constraint(
            keys.goes_home[keys.stays[keys.goes_home]].tolist(), rule=lambda m, t: self.leaves(t) <= count[t]
        )
        m.vacate = pyo.Constraint(np.flatnonzero(~keys.stays).tolist(), rule=lambda m, t: self.leaves(t) == count[t])

    def node_loads(self) -> None:
        """(2'), (3') What stays, comes home and comes from the pool fits every kept node."""
        m, keys = self.model, self.keys
        terms: dict[int, list[object]] = {d: [m.w[d]] for d in keys.nodes.tolist()}
        for t, (load, here) in enumerate(zip(keys.load.tolist(), keys.current.tolist(), strict=True)):
            if here in terms and load > 0:
                terms[here].append(-load * self.leaves(t))
        for t in keys.goes_home.tolist():
            if keys.load[t] > 0:
                terms[int(keys.home[t])].append(float(keys.load[t]) * m.a[t])
        staying = keys.staying_load
        m.upper_load = pyo.Constraint(
            list(terms), rule=lambda m, d: pyo.quicksum(terms[d]) <= float(keys.upper[d] - staying[d])
        )
        m.lower_load = pyo.Constraint(
            [d for d in terms if keys.lower[d] > 0],
            rule=lambda m, d: pyo.quicksum(terms[d]) >= float(keys.lower[d] - staying[d]),
        )

    def table_size(self) -> None:
        """(4') Keys that stay away from home, and those in the pool, have entries."""
        m, keys = self.model, self.keys
        if keys.bounded_table:
            less = pyo.quicksum(self.leaves(t) for t in np.flatnonzero(keys.strays).tolist())
            room = keys.problem.table_limit - keys.staying_entries
            m.table = pyo.Constraint(expr=pyo.quicksum(m.e.values()) - less <= room)

    def pool(self) -> None:
        """(6) What goes to the pool comes out of it."""
        m, load = self.model, self.keys.load.tolist()
        into = pyo.quicksum(load[t] * e for t, e in m.e.items() if load[t] > 0)
        m.pool = pyo.Constraint(expr=into - pyo.quicksum(m.w.values()) == 0)

    def state_moved(self) -> None:
        """The objective: state of the keys that leave their node."""
        state = self.keys.state.tolist()
        self.model.moved = pyo.Objective(expr=pyo.quicksum(state[t] * self.leaves(t) for t in range(self.keys.size)))

    def value(self, native: float) -> float:
        """State moved, from the model's objective."""
        return self.keys.value(native)

    def bound(self, proven: float) -> float:
        """Turn a lower bound on the model's objective into one on the state moved."""
        return max(0.0, self.value(proven))
