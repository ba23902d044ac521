"""The master program of the column generation in `keyshift.solvers.allocation.pricing.bound`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.set_partitioning import ColumnProgram

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


class Master(ColumnProgram):
    """(P1) to (P3) over the columns met so far, (P3) summed up by the hat functions of the price curve.

    Parameters
    ----------
    nodes, knots : int
    artificial : float
        Price of leaving a node without a column, in moves.
    """

    def __init__(self, nodes: int, knots: int, artificial: float) -> None:
        self.nodes = nodes
        self.value = np.inf
        self.columns: list[Column] = []
        self.keys: set[tuple[object, ...]] = set()
        right = np.concatenate([np.ones(nodes), np.zeros(knots)])  # (P2), then (P3) under each hat
        costs = np.repeat([artificial, LARGEST_PRICE, -LEAST_PRICE], [nodes, knots, knots])
        place, balance = sp.eye_array(nodes, right.size), sp.eye_array(knots, right.size, k=nodes)
        super().__init__(right, right, costs, sp.csr_array(sp.vstack([place, -balance, balance])))

    def add(self, columns: Iterable[Column]) -> list[Column]:
        """Take columns in; returns those that were not there already."""
        fresh = list({column.key: column for column in columns if column.key not in self.keys}.values())
        if fresh:
            self.keys.update(column.key for column in fresh)
            self.columns += fresh
            balance = np.array([column.balance for column in fresh])
            at = np.arange(len(fresh)), np.array([column.node for column in fresh])
            place = sp.csr_array((np.ones(len(fresh)), at), shape=(len(fresh), self.nodes))
            rows = sp.hstack([place, sp.csr_array(np.where(np.abs(balance) > 1e-12, balance, 0.0))])
            self.add_columns(np.array([column.cost for column in fresh]), sp.csr_array(rows))
        return fresh

    def solve(self) -> FloatArray:
        """The price curve that the multipliers of (P3) give, and the program's `value` in moves."""
        duals = self.run()
        self.value = float(self.highs.getInfo().objective_function_value)
        return -duals[self.nodes :]

    def used(self) -> list[Column]:
        """Columns that the solution has a share of."""
        return [self.columns[at] for at in np.flatnonzero(self.shares[self.spare :] > 1e-7)]

    def use(self) -> NodeUse:
        """Departures and arrivals of each node in the solution."""
        shares, spare = self.shares, self.spare
        mean, most = np.zeros((self.nodes, 2)), np.zeros((self.nodes, 2), np.int64)
        least = np.full((self.nodes, 2), np.iinfo(np.int64).max)
        for at in np.flatnonzero(shares[spare:] > 1e-7):
            column = self.columns[at]
            counts = np.array([column.departures, column.arrivals])
            mean[column.node] += shares[spare + at] * counts
            least[column.node] = np.minimum(least[column.node], counts)
            most[column.node] = np.maximum(most[column.node], counts)
        return NodeUse(mean, least, most, bool(shares[:spare].sum() < 1e-6))
