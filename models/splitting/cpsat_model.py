"""Key splitting and key placement as a CP-SAT model. The numbers are those of the problems' docstrings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.base.integers import scaled
from keyshift.models.splitting.items import Items
from keyshift.models.splitting.problem import KeySplitting
from keyshift.models.workload import IntArray


class SplittingCpSat:
    """(1)-(3) over groups of like items in whole numbers, and (4) where the items are whole keys.

    An item's load per unit of speed becomes a whole number (`keyshift.models.base.integers`); what that can round a
    worker's load by, all its items together, `bound` takes off.

    Parameters
    ----------
    problem : KeySplitting or KeyPlacement

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
        Variables ``x[group,worker]``, how many items of a group go to a worker, and ``largest``.
    """

    def __init__(self, problem: KeySplitting) -> None:
        self.problem, self.items = problem, Items.of(problem)
        group, at = self.items.pairs
        worker = self.items.options[group, at]
        # Once for every item there is, on each of its workers: no worker's load, nor any bound on it, leaves the bits.
        most = int(self.items.count.max()).bit_length()
        self.load = scaled(self.items.weight[group] / problem.speeds[worker], 56 - most)
        self.places = list(zip(group.tolist(), at.tolist(), worker.tolist(), strict=True))
        self.model = cp_model.CpModel()
        self.variables()
        self.every_item_once()
        self.worker_loads()
        self.model.minimize(self.largest)

    def variables(self) -> None:
        """x, which exists only for candidates - that is (2) -, and for whole keys counts them - that is (4); and L."""
        count = self.items.count.tolist()
        self.x = [self.model.new_int_var(0, count[g], f"x[g{g},n{i}]") for g, _, i in self.places]
        most = sum(y * count[g] for y, (g, _, _) in zip(self.load.values.tolist(), self.places, strict=True))
        self.largest = self.model.new_int_var(0, most, "largest")

    def every_item_once(self) -> None:
        """(1) All items of a group go to its candidates."""
        parts: dict[int, list[Any]] = {}
        for x, (g, _, _) in zip(self.x, self.places, strict=True):
            parts.setdefault(g, []).append(x)
        for g, terms in parts.items():
            self.model.add(sum(terms) == int(self.items.count[g])).with_name(f"once[g{g}]")

    def worker_loads(self) -> None:
        """(3) No worker's load per unit of speed exceeds the largest."""
        on: dict[int, list[int]] = {}
        for j, (_, _, i) in enumerate(self.places):
            on.setdefault(i, []).append(j)
        for i, places in on.items():
            loads = self.load.values[places].tolist()
            filled = cp_model.LinearExpr.weighted_sum([self.x[j] for j in places], loads)
            self.model.add(filled <= self.largest).with_name(f"worker_load[n{i}]")

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        share = self.items.share(assignment)
        self.model.clear_hints()
        for x, (g, at, _) in zip(self.x, self.places, strict=True):
            self.model.add_hint(x, int(share[g, at]))

    def assignment(self, value: Callable[[Any], int]) -> IntArray:
        """Read the worker of each message through ``value``, a function from a variable to its value."""
        share = np.zeros(self.items.options.shape, dtype=np.int64)
        for x, (g, at, _) in zip(self.x, self.places, strict=True):
            share[g, at] = value(x)
        return self.items.assignment(share)

    def bound(self, integer_bound: float) -> float:
        """Turn a proven bound on the integer objective into a safe one on the largest load."""
        least = self.load.lower(math.ceil(integer_bound - 1e-6), terms=int(self.items.count.sum()))
        exact = self.load.exact and self.problem.equal_speeds and self.problem.weights is None
        # Relative rounding of a load that is a quotient of a float sum and a speed.
        return max(0.0, least if exact else least * (1 - 1e-12))
