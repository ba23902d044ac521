"""Key splitting and key placement as one Pyomo model. The numbers are those of the problems' docstrings."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo

from keyshift.models.splitting.items import Items
from keyshift.models.workload import IntArray


class SplittingPyomo:
    """(1)-(3) over groups of like items, and (4) where the items are whole keys.

    Parameters
    ----------
    items : Items
        `Items.of_messages` states `KeySplitting`, `Items.of_keys` states `KeyPlacement`.
    least : float, default 0
        A known lower limit on the largest load.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[group, position]``, how many items of a group go to its candidate at that position, and
        ``largest``, the largest load.
    """

    def __init__(self, items: Items, least: float = 0.0) -> None:
        self.items = items
        self.speeds = items.problem.speeds
        group, at = items.pairs
        self.pairs = list(zip(group.tolist(), at.tolist(), strict=True))
        self.model = pyo.ConcreteModel(name=items.problem.name)
        self.variables(least)
        self.every_item_once()
        self.worker_loads()
        self.model.objective = pyo.Objective(expr=self.model.largest)

    def variables(self, least: float) -> None:
        """x, which exists only for candidates - that is (2) -, and for whole keys counts them - that is (4); and L."""
        m, count = self.model, self.items.count.tolist()
        m.pairs = pyo.Set(initialize=self.pairs, dimen=2)
        m.x = pyo.Var(m.pairs, domain=pyo.NonNegativeIntegers, bounds=lambda m, g, at: (0, count[g]))
        # All on the slowest worker is the worst there is: a finite box makes safe dual bounds possible.
        most = float(self.items.total.sum() / self.speeds.min())
        m.largest = pyo.Var(bounds=(min(least, most), max(least, most)))

    def every_item_once(self) -> None:
        """(1) All items of a group go to its candidates."""
        positions: dict[int, list[int]] = {}
        for g, at in self.pairs:
            positions.setdefault(g, []).append(at)
        count = self.items.count.tolist()
        self.model.once = pyo.Constraint(
            range(len(count)), rule=lambda m, g: sum(m.x[g, at] for at in positions[g]) == count[g]
        )

    def worker_loads(self) -> None:
        """(3) No worker's load per unit of speed exceeds the largest."""
        weight, options = self.items.weight.tolist(), self.items.options.tolist()
        terms: list[list[object]] = [[] for _ in range(self.items.problem.workers)]
        for g, at in self.pairs:
            if weight[g] > 0:
                terms[options[g][at]].append(weight[g] * self.model.x[g, at])
        speeds = self.speeds.tolist()
        self.model.worker_load = pyo.Constraint(
            range(len(terms)),
            rule=lambda m, i: pyo.quicksum(terms[i]) <= speeds[i] * m.largest if terms[i] else pyo.Constraint.Skip,
        )

    def set_start(self, assignment: np.ndarray) -> None:
        """Give every variable the value it has in a known assignment."""
        share = self.items.share(assignment)
        for g, at in self.pairs:
            self.model.x[g, at].value = int(share[g, at])
        self.model.largest.value = float(self.items.loads(share).max())

    def assignment(self) -> np.ndarray:
        """Read the worker of each message from the variables' values."""
        return self.items.assignment(self.share())

    def share(self) -> IntArray:
        """Numbers of items from the variables' values, rounded so that every group is complete."""
        made = np.zeros(self.items.options.shape, dtype=np.int64)
        for g, at in self.pairs:
            made[g, at] = round(self.model.x[g, at].value)
        made[np.arange(len(made)), made.argmax(axis=1)] += self.items.count - made.sum(axis=1)
        return made
