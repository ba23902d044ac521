"""Key-group allocation over several windows as a CP-SAT model: (3), (4) and (5) for each window, and (8)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from keyshift.models.allocation.cpsat_model import AllocationCpSat
from keyshift.models.allocation.problem import SLACK, KeyGroupAllocation
from keyshift.models.allocation.whole_distances import WholeDistances
from keyshift.models.stages import WholeMeasure
from keyshift.models.windows_cpsat import combine


class AllocationWindowsCpSat(AllocationCpSat):
    """`AllocationCpSat` over several windows, in one unit of load distance for all of them.

    The weights of (8) become whole numbers too, rounded down: the model's objective, in its unit, exceeds no distance.

    Parameters
    ----------
    problem : KeyGroupAllocation
    """

    @classmethod
    def of(cls, problem: KeyGroupAllocation) -> AllocationCpSat:
        """The statement that a problem needs, over one window or several."""
        return cls(problem) if problem.several else AllocationCpSat(problem)

    def __init__(self, problem: KeyGroupAllocation) -> None:
        self.planned = problem.planned
        super().__init__(problem)
        self.whole_distance, self.factor = combine(self.model, self.planned, self.d_of, self.largest, self.d)
        self.model.minimize(self.whole_distance)

    def whole_distances(self) -> WholeDistances:
        """Loads and means in whole numbers, window by window; all have the unit of the first."""
        self.by_window = WholeDistances.of_windows(self.problem)
        return self.by_window[0]

    def variables(self) -> None:
        """X as over one window, and the integer distance of each window."""
        open_pairs = np.argwhere(self.problem.open_pairs).tolist()
        self.x = {(k, i): self.model.new_bool_var(f"x[k{k},n{i}]") for k, i in open_pairs}
        self.d_of = [self.model.new_int_var(0, it.most, f"d[s{s}]") for s, it in enumerate(self.by_window)]
        self.largest = max(it.most for it in self.by_window)
        self.d = self.model.new_int_var(0, self.largest, "worst" if self.planned.over == "max" else "t")

    def sides(self, max_distance: float | None) -> None:
        """One-sided deviations have no part in (8)."""
        self.upper = self.lower = 0

    def upper_loads(self) -> None:
        """(3) No node lies more than d[s] above the mean of window s."""
        for s, it in enumerate(self.by_window):
            for i, loads in enumerate(it.high):
                row = self.node_load(i, loads) <= it.mean_high + self.d_of[s]
                self.model.add(row).with_name(f"upper_load[s{s},n{i}]")

    def lower_loads(self) -> None:
        """(4) No kept node lies more than d[s] below the mean of window s."""
        for s, it in enumerate(self.by_window):
            for i in np.flatnonzero(self.workload.kept).tolist():
                row = self.node_load(i, it.low[i]) >= it.mean_low - self.d_of[s]
                self.model.add(row).with_name(f"lower_load[s{s},n{i}]")

    def distance_floor(self) -> None:
        """(5) No window's load distance exceeds its mean, as printed; off by default."""
        if not self.problem.distance_floor:
            return
        for s, (it, mean) in enumerate(zip(self.by_window, self.problem.means.tolist(), strict=True)):
            most = it.units(mean + 2 * SLACK * (mean or 1.0))
            self.model.add(self.d_of[s] <= most).with_name(f"distance_floor[s{s}]")

    def load_distance(self, integer_objective: float) -> float:
        return integer_objective / float(self.distances.unit * self.factor)

    def bound(self, integer_bound: float) -> float:
        """Turn a proven bound on the whole objective into a safe one on the combined load distance."""
        it = self.distances
        whole = Fraction(math.ceil(integer_bound - 1e-6)) / self.factor
        return max(0.0, float(whole / it.unit) * (1 - 2.0**-48) - it.doubt)

    def measure(self, name: str) -> WholeMeasure:
        """A measure of the problem in whole numbers."""
        if name != "load_distance":
            return super().measure(name)
        it = self.distances

        def most(distance: float) -> int:
            return math.floor(
                (Fraction(distance) * Fraction(1 + 2.0**-48) + Fraction(it.doubt)) * it.unit * self.factor
            )

        return WholeMeasure(self.whole_distance, most, lambda whole: self.bound(float(whole)))
