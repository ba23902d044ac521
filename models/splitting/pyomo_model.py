"""Key splitting and key placement as one Pyomo model. The numbers are those of the problems' docstrings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from keyshift.models.base.integers import scaled
from keyshift.models.base.pyomo import LinearExpression, pyo
from keyshift.models.splitting.items import Items
from keyshift.models.workload import IntArray

if TYPE_CHECKING:
    from keyshift.models.splitting.problem import KeySplitting

ROUNDING = 1e-9
"""Limits are wider by this much: rounding may exclude nothing that keeps them in exact arithmetic."""


class SplittingPyomo:
    """(1)-(3) over groups of like items, and (4) where the items are whole keys.

    Parameters
    ----------
    items : Items
        `Items.of_messages` states `KeySplitting`, `Items.of_keys` states `KeyPlacement`.
    least, most : float
        Known limits on the largest load. An item that alone exceeds `most` on a worker never goes there. Loads are in units
        that make them small whole numbers, where weights allow it and speeds are equal, or else near 1.
    near : float, optional
        The size that loads are measured by, where `most` is far above what occurs.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[group, position]``, how many items of a group go to its candidate at that position, and
        ``largest``, the largest load, in units.
    unit : float
        What a unit of load is worth.
    """

    letters: ClassVar[dict[str, str]] = {"worker_load": "n"}
    group: ClassVar[str] = "g"
    """The letter of a group; k, where each is of a single key."""

    @classmethod
    def of(cls, problem: KeySplitting, strengthened: bool = True) -> Self:
        """The whole problem; strengthened, no item goes where it alone is more than the most that dealing groups out makes."""
        items = Items.of(problem, each=cls.group == "k")
        dealt = float(items.loads(items.dealt()).max())
        return cls(items, 0.0, dealt if strengthened else items.most_load, near=dealt)

    def __init__(
        self,
        items: Items,
        least: float,
        most: float,
        near: float | None = None,
    ) -> None:
        self.items = items
        self.whole = self._choose_unit(most if near is None else near)
        self.filled = items.filled(self.unit)
        group, at = items.pairs
        fits = self.filled[group, at] <= most / self.unit * (1 + ROUNDING)
        self.pairs = list(zip(group[fits].tolist(), at[fits].tolist(), strict=True))
        self.model = pyo.ConcreteModel(name=items.problem.name)
        self.variables(min(least, most))
        self.every_item_once()
        self.worker_loads()
        self.model.objective = pyo.Objective(expr=self.model.largest)

    def _choose_unit(self, most: float) -> bool:
        """The unit of load: what divides all weights, where that makes loads small whole numbers; else near `most`."""
        weights = scaled(np.unique(self.items.weight), bits=52).coarsest()
        whole = weights.exact and self.items.problem.equal_speeds and 0 < most <= 2.0**20 * weights.unit
        near = math.ldexp(0.5, math.frexp(most)[1]) if most > 0 else 1.0
        self.unit = weights.unit if whole else near
        return whole

    def variables(self, least: float) -> None:
        """x, which exists only for candidates - that is (2) -, and for whole keys counts them - that is (4); and L."""
        m, count = self.model, self.items.count.tolist()
        m.pairs = pyo.Set(initialize=self.pairs, dimen=2)
        m.x = pyo.Var(m.pairs, domain=pyo.NonNegativeIntegers, bounds=lambda m, g, at: (0, count[g]))
        lower = least / self.unit
        # No upper bound: with one, presolve of HiGHS 1.13 proves wrong optima (tests/solvers/test_splitting_exact.py).
        bounds = (math.ceil(lower - ROUNDING) if self.whole else lower, None)
        m.largest = pyo.Var(domain=pyo.Integers if self.whole else pyo.Reals, bounds=bounds)

    def every_item_once(self) -> None:
        """(1) All items of a group go to its candidates."""
        positions: dict[int, list[int]] = {}
        for g, at in self.pairs:
            positions.setdefault(g, []).append(at)
        count, x = self.items.count.tolist(), self.model.x
        self.model.once = pyo.Constraint(
            range(len(count)), rule=lambda m, g: sum(x[g, at] for at in positions[g]) == count[g]
        )

    def worker_loads(self) -> None:
        """(3) No worker's load per unit of speed exceeds the largest."""
        filled, options = self.filled.tolist(), self.items.options.tolist()
        weights: list[list[float]] = [[] for _ in range(self.items.problem.workers)]
        placed: list[list[object]] = [[] for _ in weights]
        for (g, at), x in self.model.x.items():
            if filled[g][at] > 0:
                weights[options[g][at]].append(filled[g][at])
                placed[options[g][at]].append(x)

        def load(m: pyo.ConcreteModel, i: int) -> object:
            filled_by = LinearExpression(linear_coefs=weights[i], linear_vars=placed[i])
            return filled_by <= m.largest if placed[i] else pyo.Constraint.Skip

        self.model.worker_load = pyo.Constraint(range(len(placed)), rule=load)

    def set_start(self, assignment: np.ndarray) -> None:
        """Give every variable the value it has in a known assignment."""
        share = self.items.share(assignment)
        for pair, x in self.model.x.items():
            x.set_value(int(share[pair]), skip_validation=True)
        self.model.largest.set_value(float(self.items.loads(share).max()) / self.unit, skip_validation=True)

    def label(self, name: str, index: tuple[int, ...]) -> str | None:
        """Say which group of like items, and which worker, a variable is about."""
        if name == "x":
            return f"{self.group}{index[0]},n{self.items.options[index]}"
        return f"{self.group}{index[0]}" if name == "once" else None

    def bound(self, proven: float) -> float:
        """Turn a bound that HiGHS proves into one on the largest load."""
        return max(0.0, proven * self.unit) if math.isfinite(proven) else 0.0

    def assignment(self) -> np.ndarray:
        """Read the worker of each message from the variables' values."""
        return self.items.assignment(self.share())

    def share(self) -> IntArray:
        """Numbers of items from the variables' values, rounded so that every group is complete."""
        made = np.zeros(self.items.options.shape, dtype=np.int64)
        for pair, x in self.model.x.items():
            made[pair] = round(x.value)
        return self.items.completed(made)


class SplittingKeysPyomo(SplittingPyomo):
    """The same with no two keys in one group, alike or not, for rules that name a key.

    ``x[k3,n1]`` is how much of key 3 goes to worker 1; keys are numbered in the order in which they first come, that of
    ``problem.histogram.keys``. Where messages have weights, a key has a group for each weight.
    """

    group: ClassVar[str] = "k"
