"""The pooled linear relaxation of mixed routing in OR-Tools MathOpt. The numbers are those of `PooledKeys`'s docstring."""

from __future__ import annotations

import numpy as np
from ortools.math_opt.python import mathopt

from keyshift.models.routing.pooled import MOST_CLASSES, PooledKeys
from keyshift.models.routing.problem import MixedRouting


class PooledRoutingMathOpt:
    """The same linear program as `PooledRoutingPyomo`, for GLOP and PDLP, one method for each family of constraints.

    Parameters
    ----------
    problem : MixedRouting
    most_classes : int
        Above it, keys of about the same load and state are one class.

    Attributes
    ----------
    model : ortools.math_opt.python.mathopt.Model
        Variables ``a[t]``, ``e[t]`` and ``w[d]``; the objective is in units of all the state.
    """

    def __init__(self, problem: MixedRouting, most_classes: int = MOST_CLASSES) -> None:
        self.problem, self.keys = problem, PooledKeys(problem, most_classes)
        self.model = mathopt.Model(name=problem.name)
        self.variables()
        self.every_key_once()
        self.node_loads()
        self.table_size()
        self.pool()
        self.state_moved()

    def variables(self) -> None:
        """(5') A home that drains, or that a class never left, has no a; a draining node no w."""
        add, keys, count = self.model.add_variable, self.keys, self.keys.count.tolist()
        self.a = {t: add(lb=0, ub=count[t], name=f"a[c{t}]") for t in keys.goes_home.tolist()}
        self.e = [add(lb=0, ub=most, name=f"e[c{t}]") for t, most in enumerate(count)]
        self.w = {d: add(lb=0, ub=float(keys.upper[d]), name=f"w[n{d}]") for d in keys.nodes.tolist()}
        self.leaves = [e + self.a[t] if t in self.a else 1.0 * e for t, e in enumerate(self.e)]

    def every_key_once(self) -> None:
        """(1') No more keys leave than there are; all do, from a draining node."""
        keys = self.keys
        for t, most in enumerate(keys.count.tolist()):
            if not keys.stays[t] or t in self.a:
                least = -np.inf if keys.stays[t] else most
                self.model.add_linear_constraint(lb=least, ub=most, expr=self.leaves[t], name=f"leave[c{t}]")

    def node_loads(self) -> None:
        """(2'), (3') What stays, comes home and comes from the pool fits every kept node."""
        keys = self.keys
        terms: dict[int, list[object]] = {d: [w] for d, w in self.w.items()}
        for t, (load, here) in enumerate(zip(keys.load.tolist(), keys.current.tolist(), strict=True)):
            if here in terms and load > 0:
                terms[here].append(-load * self.leaves[t])
            if t in self.a and load > 0:
                terms[int(keys.home[t])].append(load * self.a[t])
        for d, parts in terms.items():
            staying = float(keys.staying_load[d])
            least = float(keys.lower[d]) - staying if keys.lower[d] > 0 else -np.inf
            self.model.add_linear_constraint(
                lb=least, ub=float(keys.upper[d]) - staying, expr=mathopt.fast_sum(parts), name=f"load[n{d}]"
            )

    def table_size(self) -> None:
        """(4') Keys that stay away from home, and those in the pool, have entries."""
        keys = self.keys
        if keys.bounded_table:
            less = mathopt.fast_sum(self.leaves[t] for t in np.flatnonzero(keys.strays).tolist())
            room = keys.problem.table_limit - keys.staying_entries
            self.model.add_linear_constraint(lb=-np.inf, ub=room, expr=mathopt.fast_sum(self.e) - less, name="table")

    def pool(self) -> None:
        """(6) What goes to the pool comes out of it."""
        into = mathopt.fast_sum(load * e for load, e in zip(self.keys.load.tolist(), self.e, strict=True) if load > 0)
        self.model.add_linear_constraint(lb=0, ub=0, expr=into - mathopt.fast_sum(self.w.values()), name="pool")

    def state_moved(self) -> None:
        """The objective: state of the keys that leave their node."""
        moved = (state * left for state, left in zip(self.keys.state.tolist(), self.leaves, strict=True))
        self.model.minimize(mathopt.fast_sum(moved))

    def value(self, native: float) -> float:
        """State moved, from the model's objective."""
        return self.keys.value(native)

    def bound(self, proven: float) -> float:
        """Turn a lower bound on the model's objective into one on the state moved."""
        return max(0.0, self.value(proven))
