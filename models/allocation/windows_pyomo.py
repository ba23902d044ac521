"""Key-group allocation over several windows as a Pyomo model: (3), (4) and (5) for each window, and (8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyomo.environ as pyo

from keyshift.models.allocation.problem import KeyGroupAllocation
from keyshift.models.allocation.pyomo_model import NEGLIGIBLE, AllocationPyomo
from keyshift.models.tuning import HIGHS_DOUBT
from keyshift.models.windows_pyomo import combine, start_combined
from keyshift.models.workload import IntArray


class AllocationWindowsPyomo(AllocationPyomo):
    """`AllocationPyomo` over several windows: a load distance d[s] for each, and what (8) makes of them.

    Parameters
    ----------
    problem : KeyGroupAllocation
    negligible : float, default 0
        As in `AllocationPyomo`.
    """

    letters: Mapping[str, str] = {
        **AllocationPyomo.letters, "d": "s", "above": "s", "excess": "s", "worst": "s",
        "upper_load": "sn", "lower_load": "sn", "distance_floor": "s",
    }  # fmt: skip

    @classmethod
    def of(cls, problem: KeyGroupAllocation) -> Self | AllocationPyomo:  # type: ignore[override]
        """The statement that a problem needs, over one window or several, without loads that solvers lose."""
        return cls(problem, NEGLIGIBLE) if problem.several else AllocationPyomo.of(problem)

    def __init__(self, problem: KeyGroupAllocation, negligible: float = 0.0) -> None:
        self.planned = problem.planned
        super().__init__(problem, negligible=negligible)

    def variables(self, max_distance: float | None) -> None:
        """x as over one window; d[s]."""
        m, it = self.model, self.planned
        m.pairs = pyo.Set(initialize=[(k, i) for k, nodes in enumerate(self.open) for i in nodes], dimen=2)
        m.x = pyo.Var(m.pairs, domain=pyo.Binary)
        self.most = it.load.sum(axis=1) / self.workload.capacity.min() + self.problem.means
        m.d = pyo.Var(range(it.count), bounds=lambda m, s: (0, float(self.most[s])))

    def set_objective(self, objective: Any) -> None:
        """(8) Minimise the worst distance, their mean, or CVaR, with its rows."""
        m = self.model
        self.distance = combine(m, self.planned, m.d, self.most)
        m.objective = pyo.Objective(expr=self.distance)

    def load_in(self, s: int, i: int) -> tuple[pyo.Expression, float]:
        """Load per unit of capacity of node i in window s, and what negligible loads could add to it."""
        self.load = self.planned.load[s].tolist()
        return self.significant_load(i, float(self.problem.means[s]))

    def upper_loads(self) -> None:
        """(3) No node lies more than d[s] above the mean of window s."""
        mean = self.problem.means.tolist()
        self.model.upper_load = pyo.Constraint(
            range(self.planned.count), range(self.workload.nodes),
            rule=lambda m, s, i: self.load_in(s, i)[0] <= mean[s] + m.d[s],
        )  # fmt: skip

    def lower_loads(self) -> None:
        """(4) No kept node lies more than d[s] below the mean of window s."""
        mean, kept = self.problem.means.tolist(), np.flatnonzero(self.workload.kept).tolist()

        def enough(m: pyo.ConcreteModel, s: int, i: int) -> object:
            load, lost = self.load_in(s, i)
            return load >= mean[s] - lost - m.d[s]

        self.model.lower_load = pyo.Constraint(range(self.planned.count), kept, rule=enough)

    def distance_floor(self) -> None:
        """(5) No window's load distance exceeds its mean, as printed; off by default."""
        if self.problem.distance_floor:
            mean = self.problem.means.tolist()
            self.model.distance_floor = pyo.Constraint(
                range(self.planned.count), rule=lambda m, s: mean[s] - m.d[s] >= 0
            )

    def measure(self, name: str) -> tuple[Any, float]:
        """A measure of the problem: an expression, and its unit."""
        if name == "load_distance":
            return self.distance, 1.0
        return super().measure(name)

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable the value it has in a known assignment."""
        m, distances = self.model, self.problem.distances(assignment)
        for (k, i), x in m.x.items():
            x.value = int(assignment[k] == i)
        for s, d in enumerate(distances.tolist()):
            m.d[s].set_value(d, skip_validation=True)
        start_combined(m, self.planned, distances)

    def bound(self, proven: float) -> float | None:
        """Turn a bound that HiGHS proves into one on (8): less what its tolerances amount to in the heaviest window."""
        if not np.isfinite(proven):
            return 0.0
        w, it = self.workload, self.planned
        roughness = self.problem.means
        if (w.capacity != w.capacity[0]).any():
            roughness = np.maximum(roughness, it.load.max(axis=1) / w.capacity.min())
        return max(0.0, proven - HIGHS_DOUBT * (it.combined(roughness) or 1.0))
