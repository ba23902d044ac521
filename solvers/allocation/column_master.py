"""The master program of the column generation in `keyshift.solvers.allocation.prices`."""

from __future__ import annotations

from typing import NamedTuple

import highspy
import numpy as np

from keyshift.models.workload import FloatArray

LEAST_PRICE, LARGEST_PRICE = -1.0, 2.0
"""Arrival prices are sought in this range; any range gives a bound."""


class Column(NamedTuple):
    """What one node sends and takes."""

    node: int
    cost: float
    """Departures."""
    balance: FloatArray
    """Arrivals less departures under each hat of the price curve."""
    distance: float
    """Least distance from which on the column may be used, in units of the mean."""
    key: tuple[object, ...]
    """Tells columns apart."""


class Master:
    """(P1) to (P3) over the columns met so far, (P3) summed up by the hats of the price curve.

    Parameters
    ----------
    nodes, knots : int
    dear : float
        Price of leaving a node without a column, and of one unit of (P3) out of balance.
    """

    def __init__(self, nodes: int, knots: int, dear: float) -> None:
        self.nodes = nodes
        self.value = np.inf
        self.keys: set[tuple[object, ...]] = set()
        self.highs = highspy.Highs()
        self.highs.silent()
        for _ in range(nodes):
            self.highs.addRow(1.0, 1.0, 0, [], [])
        for _ in range(knots):
            self.highs.addRow(0.0, 0.0, 0, [], [])
        for node in range(nodes):
            self._add(dear + 1.0, np.array([node]), np.ones(1))
        for row in range(nodes, nodes + knots):
            self._add(LARGEST_PRICE, np.array([row]), -np.ones(1))
            self._add(-LEAST_PRICE, np.array([row]), np.ones(1))

    def _add(self, cost: float, rows: np.ndarray, values: FloatArray) -> None:
        self.highs.addCol(cost, 0.0, np.inf, rows.size, rows.astype(np.int32), values.astype(np.float64))

    def add(self, column: Column) -> bool:
        """Take a column in; False when it is there already."""
        if column.key in self.keys:
            return False
        self.keys.add(column.key)
        rows = np.flatnonzero(np.abs(column.balance) > 1e-12)
        self._add(
            column.cost,
            np.concatenate([[column.node], self.nodes + rows]),
            np.concatenate([[1.0], column.balance[rows]]),
        )
        return True

    def solve(self) -> FloatArray:
        """The price curve that the multipliers of (P3) give, and the program's `value` in moves."""
        self.highs.run()
        self.value = float(self.highs.getInfo().objective_function_value)
        return -np.array(self.highs.getSolution().row_dual)[self.nodes :]
