"""Collocated allocation as a Pyomo model. The numbers are those of `CollocatedAllocation`'s docstring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from keyshift.models.allocation.pyomo_model import AllocationPyomo, combine, start_combined
from keyshift.models.base.pyomo import identify_variables, pyo
from keyshift.models.collocation.problem import CollocatedAllocation
from keyshift.models.stages import PlacedPyomo
from keyshift.models.workload import BoolArray, FloatArray, IntArray


class CollocationPyomo(AllocationPyomo):
    """The linearised model, one method for each family of constraints; (1), (2), (7) are key-group allocation's.

    Parameters
    ----------
    problem : CollocatedAllocation
    open_to : ndarray of bool, shape (p, n), optional
        Which key group may run on which node; None takes all that (6) allows. Key groups with one node left become
        constants: their pairs need no z.
    explicit : ndarray of bool, shape (pairs,), optional
        Pairs that get a z where both ends are open; None gives one to all. What the others may add to the collocated
        traffic is then bounded by `beyond`, so that the model is a relaxation. Only where remote traffic costs no load.
    beyond : ndarray, shape (p, n), optional
        By what share of all traffic moving k to i may raise the collocated traffic of pairs without a z, above today's.
    strengthened : bool, default True
        Key groups with one node left are constants, and z is held from above alone where that is enough for the
        objective. Without, z is 1 just where both ends run, so that a rule may speak of it.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[k, i]``, and ``z[e, i]`` for the pairs and nodes where both ends are open.
    """

    letters: Mapping[str, str] = {
        **AllocationPyomo.letters, "z": "en", "z_first": "en", "z_second": "en", "z_lower": "en", "kept_in": "s",
        "kept_in_sum": "s", "worst": "s", "above": "s", "excess": "s",
    }  # fmt: skip

    @classmethod
    def of(cls, problem: CollocatedAllocation, strengthened: bool = True) -> Self:  # type: ignore[override]
        """The whole problem."""
        return cls(problem, strengthened=strengthened)

    def __init__(
        self,
        problem: CollocatedAllocation,
        open_to: BoolArray | None = None,
        explicit: BoolArray | None = None,
        beyond: FloatArray | None = None,
        strengthened: bool = True,
    ) -> None:
        self.strengthened = strengthened
        self.both_ways = not strengthened or problem.load_model.per_tuple > 0
        self.collocated = problem
        self.problem = problem.allocation
        self.workload = problem.workload
        self.current = problem.workload.current.tolist()
        allowed = self.problem.open_pairs.copy()
        if open_to is not None:
            stay = np.arange(self.workload.key_groups), self.current  # (2) counts the key groups that stay
            staying = allowed[stay]
            allowed &= open_to
            allowed[stay] = staying
        self.open = [np.flatnonzero(row).tolist() for row in allowed]
        self.all_traffic = problem.all_remote or 1.0
        self.traffic = problem.links.traffic / self.all_traffic  # sizes are the problem's own affair
        self.about(problem)
        self.model = pyo.ConcreteModel(name=problem.name)
        self.variables()
        self.together(np.ones(len(problem.links), dtype=bool) if explicit is None else explicit, beyond)
        self.set_objective()
        self.one_node_each()
        self.migration_limits()
        self.upper_loads()
        self.lower_loads()
        self.resource_capacities()
        self.rules()

    def about(self, window: CollocatedAllocation, number: int | None = None) -> None:
        """Write rows with the loads and the traffic of a window; (8) and (9) are written in means."""
        self.window = number
        self.remote = window.remote_loads
        self.total_remote = float(self.remote.sum())
        self.unit = self.total_remote / window.kept_capacity or 1.0

    def variables(self) -> None:
        """x; a key group with one node is a constant."""
        self.placements()
        for k, nodes in enumerate(self.open):
            if not self.is_free(k):
                self.model.x[k, nodes[0]].fix(1)

    def together(self, explicit: BoolArray, beyond: FloatArray | None) -> None:
        """(10), (11) z says whether both ends run on a node, or in a block (17); with one end fixed it is the other end's x."""
        m, pairs, here = self.model, self.collocated.links, self.workload.current
        first, second, size = pairs.first.tolist(), pairs.second.tolist(), len(self.collocated.pairs)
        levels = self.collocated.levels.gathered(self.open)

        def within(e: int, k: int, i: int) -> Any:
            """Whether key group k runs in the block of node i, at the level of e."""
            return self.total(k, levels[e // size][k][i])

        ends = {e: (first[e], second[e]) for e in np.flatnonzero(explicit).tolist()}
        free = {e: [k for k in both if self.is_free(k)] for e, both in ends.items()}
        common = [
            (e, i) for e, (k, other) in ends.items() for i in levels[e // size][k] if i in levels[e // size][other]
        ]
        m.shared = pyo.Set(initialize=[(e, i) for e, i in common if len(free[e]) == 2], dimen=2)
        m.z = pyo.Var(m.shared, bounds=(0, 1))
        m.z_first = pyo.Constraint(m.shared, rule=lambda m, e, i: m.z[e, i] <= within(e, first[e], i))
        m.z_second = pyo.Constraint(m.shared, rule=lambda m, e, i: m.z[e, i] <= within(e, second[e], i))
        if self.both_ways:
            both = lambda e, i: within(e, first[e], i) + within(e, second[e], i)  # noqa: E731
            m.z_lower = pyo.Constraint(m.shared, rule=lambda m, e, i: m.z[e, i] >= both(e, i) - 1)
        self.held: list[list[tuple[int, Any]]] = [[] for _ in range(self.workload.nodes)]  # the pairs that a node holds
        for e, i in common:
            self.held[i].append((e, m.z[e, i] if (e, i) in m.z else within(e, (free[e] or ends[e])[0], i)))
        self.whole = self.whole_by(self.traffic)
        self.sum_up(float(self.traffic[~explicit & (here[first] == here[second])].sum()), beyond)
        self.in_windows()

    def total(self, k: int, nodes: Sequence[int]) -> Any:
        """Whether key group k runs on one of some nodes that are open to it."""
        x = self.model.x
        return x[k, nodes[0]] if len(nodes) == 1 else pyo.quicksum(x[k, i] for i in nodes)

    def whole_by(self, traffic: FloatArray) -> list[Any]:
        """Traffic of the pairs that each node holds whole."""
        return [pyo.quicksum(float(traffic[e]) * both for e, both in held if traffic[e]) for held in self.held]

    def in_windows(self) -> None:
        """The traffic that each window has of its own: what nodes hold whole, and kept_in[s], its sum."""
        p, m = self.collocated, self.model
        if not p.separate:
            return
        own = p.levels.weighed(p.pair_traffic) / self.all_traffic
        self.whole_in = [self.whole_by(row) for row in own]
        m.kept_in = pyo.Var(range(len(own)), bounds=lambda m, s: (0, float(own[s].sum())))

        def summed(m: pyo.ConcreteModel, s: int) -> object:
            right = pyo.quicksum(self.whole_in[s])
            return m.kept_in[s] == right if self.both_ways else m.kept_in[s] <= right

        m.kept_in_sum = pyo.Constraint(range(len(own)), rule=summed)

    def sum_up(self, today: float, beyond: FloatArray | None) -> None:
        """The share of the traffic that is collocated: z's, and today's without one with what moving may add."""
        m = self.model
        m.together = pyo.Var(bounds=(0, 1))
        right = pyo.quicksum(self.whole) + today
        if beyond is not None:
            right += pyo.quicksum(float(beyond[k, i]) * x for (k, i), x in m.x.items() if beyond[k, i] != 0)
        m.together_sum = pyo.Constraint(expr=m.together == right if self.both_ways else m.together <= right)

    def is_free(self, k: int) -> bool:
        """Whether key group k has variables: one with a single node open to it is a constant."""
        return not self.strengthened or len(self.open[k]) != 1

    def set_objective(self) -> None:  # type: ignore[override]
        """Minimise the remote traffic, or the load of the whole system; (14), (15) where each window has its own."""
        p, m = self.collocated, self.model
        value = p.value(self.all_traffic * m.together)
        if p.combines:
            kept = [m.kept_in[s] if p.separate else m.together for s in range(p.planned.count)]
            apart = zip(p.apart.tolist(), kept, strict=True)
            value = combine(m, p.planned, [most - p.saved * p.total_traffic * k for most, k in apart], p.apart)
        m.objective = pyo.Objective(expr=value)

    def bound(self, proven: float) -> float:
        """Turn a bound that HiGHS proves into one on the objective: the model's is the problem's own."""
        return max(0.0, proven)

    def node_load(self, i: int) -> pyo.Expression:
        """Load of node i less what its whole pairs save, in units of the mean."""
        x, shares = self.model.x, enumerate((self.remote / self.unit).tolist())
        load = pyo.quicksum(share * x[k, i] for k, share in shares if share > 0 and (k, i) in x)
        return load - (self.cost / self.unit * self.saving[0][i] if self.cost > 0 else 0.0)

    @property
    def cost(self) -> float:
        """Load of all traffic between key groups, were it remote."""
        return self.collocated.load_model.per_tuple * self.collocated.total_traffic

    @property
    def mean(self) -> pyo.Expression:
        """The mean node load, in units of the mean with all traffic remote."""
        return (self.total_remote - self.cost * self.saving[1]) / (self.unit * self.collocated.kept_capacity)

    @property
    def saving(self) -> tuple[list[Any], Any]:
        """The traffic that each node holds whole and its sum, in the window that rows are written about."""
        if self.window is None or not self.collocated.separate:
            return self.whole, self.model.together
        return self.whole_in[self.window], self.model.kept_in[self.window]

    def upper_loads(self) -> None:
        """(8) No node lies too far above the mean."""
        self._in_windows("upper_load", list(range(self.workload.nodes)), +1)

    def lower_loads(self) -> None:
        """(9) No kept node lies too far below the mean, where both sides are limited."""
        if self.collocated.sides == "both":
            self._in_windows("lower_load", np.flatnonzero(self.workload.kept).tolist(), -1)

    def _in_windows(self, name: str, nodes: list[int], side: int) -> None:
        """Add the rows of a side, in every window."""
        each = self.collocated.by_window
        for s, window in enumerate(each):
            self.about(window, s)
            at = f"{name}_s{s}" if len(each) > 1 else name
            self.letters = {**self.letters, at: "n"}
            setattr(self.model, at, pyo.Constraint(nodes, rule=lambda m, i: self._load_row(i, side)))
        self.about(self.collocated)

    def _load_row(self, i: int, side: int) -> object:
        p = self.collocated
        if p.max_load_distance is None:
            return pyo.Constraint.Skip
        c, relative = float(self.workload.capacity[i]), p.distance_unit == "percent"
        # Relative width of a limit beyond what is printed: the model admits all that the check admits. Far wider than
        # a solver's tolerance: with bands as narrow as that HiGHS calls feasible relaxations infeasible.
        share = (p.max_load_distance / 100 if relative else 0.0) + 1e-6
        absolute = 0.0 if relative else p.max_load_distance / self.unit
        row = side * self.node_load(i) - c * (side + share) * self.mean - c * absolute
        if isinstance(row, int | float) or next(identify_variables(row, include_fixed=False), None) is None:
            return pyo.Constraint.Feasible if pyo.value(row) <= 1e-6 else pyo.Constraint.Infeasible
        return row <= 0

    def measure(self, name: str) -> tuple[Any, float]:
        """A measure of collocated allocation: an expression, and its unit."""
        p, m = self.collocated, self.model
        if name == "remote_traffic":
            return 1 - m.together, p.unit(name)
        if name == "total_load":
            return (self.total_remote - self.cost * m.together) / p.unit(name), p.unit(name)
        if name != "load_distance":
            return super().measure(name)
        if not hasattr(m, "distance"):
            m.distance = pyo.Var(bounds=(0, 2 * max(1.0, p.kept_capacity / float(self.workload.capacity.min()))))
            m.distances = pyo.ConstraintList()
            for i in range(self.workload.nodes):
                c = float(self.workload.capacity[i])
                m.distances.add(self.node_load(i) / c - self.mean <= m.distance)
                if self.workload.kept[i]:
                    m.distances.add(self.mean - self.node_load(i) / c <= m.distance)
        return m.distance, self.unit

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable that is open the value it has in a known assignment."""
        m, p = self.model, self.collocated
        PlacedPyomo.set_start(self, assignment)  # no distances, as key-group allocation has them
        one, other = p.ends(assignment)
        for (e, i), z in m.z.items():
            z.value = int(one[e] == i == other[e])
        m.together.value = min(1.0, float(self.traffic[one == other].sum()))
        kept = p.levels.weighed(p.pair_traffic)[:, one == other].sum(axis=1)
        for s, row in enumerate(kept.tolist() if p.separate else ()):
            m.kept_in[s].set_value(row / self.all_traffic, skip_validation=True)
        if p.combines:
            unit = p.saved if p.minimise == "total_load" else 1.0
            start_combined(m, p.planned, p.apart - unit * kept)
