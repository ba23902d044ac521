"""The master program of the column generation in `keyshift.solvers.allocation.pricing.bound`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import highspy
import numpy as np

from keyshift.models.workload import FloatArray, IntArray

LEAST_PRICE, LARGEST_PRICE = -2.0, 3.0
"""Arrival prices are sought in this range; any range gives a bound."""


class Column(NamedTuple):
    """Departures and arrivals of one node."""

    node: int
    departures: int
    arrivals: int
    cost: float
    """The departures; another sum when the column's load window has a price of its own."""
    balance: FloatArray
    """Arrivals less departures under each hat of the price curve."""
    distance: float
    """Least distance from which on the column may be used, in units of the mean."""
    key: tuple[object, ...]
    """Tells columns apart."""


class NodeUse(NamedTuple):
    """Departures (column 0) and arrivals (column 1) of every node in the master's solution, shapes (n, 2)."""

    mean: FloatArray
    least: IntArray
    most: IntArray
    balanced: bool
    """Whether (P2) and (P3) hold; otherwise the numbers mean little."""


class Master:
    """(P1) to (P3) over the columns met so far, (P3) summed up by the hat functions of the price curve.

    Parameters
    ----------
    nodes, knots : int
    artificial : float
        Price of leaving a node without a column, in moves.
    """

    def __init__(self, nodes: int, knots: int, artificial: float) -> None:
        self.nodes, self.knots = nodes, knots
        self.value = np.inf
        self.columns: list[Column] = []
        self.keys: set[tuple[object, ...]] = set()
        self.highs = highspy.Highs()
        self.highs.silent()
        right = np.concatenate([np.ones(nodes), np.zeros(knots)])  # (P2), then (P3) under each hat
        nothing = np.empty(0, np.int32)
        self.highs.addRows(
            nodes + knots, right, right, 0, np.zeros(nodes + knots, np.int32), nothing, np.empty(0, np.float64)
        )
        balance = np.arange(nodes, nodes + knots)
        rows = np.concatenate([np.arange(nodes), balance, balance])
        signs = np.concatenate([np.ones(nodes), -np.ones(knots), np.ones(knots)])
        costs = np.repeat([artificial, LARGEST_PRICE, -LEAST_PRICE], [nodes, knots, knots])
        self._add(costs, [np.array([row]) for row in rows], [np.array([sign]) for sign in signs])

    def _add(self, costs: FloatArray, rows: list[IntArray], values: list[FloatArray]) -> None:
        sizes = np.array([row.size for row in rows])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        self.highs.addCols(
            costs.size, costs, np.zeros(costs.size), np.full(costs.size, np.inf), int(sizes.sum()), starts,
            np.concatenate(rows).astype(np.int32), np.concatenate(values).astype(np.float64),
        )  # fmt: skip

    def add(self, columns: Iterable[Column]) -> list[Column]:
        """Take columns in; returns those that were not there already."""
        fresh = list({column.key: column for column in columns if column.key not in self.keys}.values())
        if fresh:
            self.keys.update(column.key for column in fresh)
            self.columns += fresh
            held = [np.flatnonzero(np.abs(column.balance) > 1e-12) for column in fresh]
            rows = [np.concatenate([[column.node], self.nodes + at]) for column, at in zip(fresh, held, strict=True)]
            values = [np.concatenate([[1.0], column.balance[at]]) for column, at in zip(fresh, held, strict=True)]
            self._add(np.array([column.cost for column in fresh]), rows, values)
        return fresh

    def solve(self) -> FloatArray:
        """The price curve that the multipliers of (P3) give, and the program's `value` in moves."""
        self.highs.run()
        self.value = float(self.highs.getInfo().objective_function_value)
        return -np.array(self.highs.getSolution().row_dual)[self.nodes :]

    def used(self) -> list[Column]:
        """Columns that the solution has a share of."""
        shares = np.array(self.highs.getSolution().col_value)[self.nodes + 2 * self.knots :]
        return [self.columns[at] for at in np.flatnonzero(shares > 1e-7)]

    def use(self) -> NodeUse:
        """Departures and arrivals of each node in the solution."""
        shares = np.array(self.highs.getSolution().col_value)
        spare = self.nodes + 2 * self.knots
        mean, most = np.zeros((self.nodes, 2)), np.zeros((self.nodes, 2), np.int64)
        least = np.full((self.nodes, 2), np.iinfo(np.int64).max)
        for at in np.flatnonzero(shares[spare:] > 1e-7):
            column = self.columns[at]
            counts = np.array([column.departures, column.arrivals])
            mean[column.node] += shares[spare + at] * counts
            least[column.node] = np.minimum(least[column.node], counts)
            most[column.node] = np.maximum(most[column.node], counts)
        return NodeUse(mean, least, most, bool(shares[:spare].sum() < 1e-6))
