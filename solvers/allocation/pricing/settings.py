"""Tuning numbers of branch and price."""

from __future__ import annotations

from dataclasses import dataclass

from keyshift.models.tuning import Settings


@dataclass(frozen=True)
class PriceSettings(Settings):
    """Effort and resolution of the bound by prices.

    Attributes
    ----------
    knots : int
        Numbers that make up a price curve. Sixty gave the same bounds in two to three times the rounds.
    rounds : int
        Curves tried for one distance at most.
    most_subsets : int
        Sets of departures of one node that are tried one by one.
    most_out, most_in : int
        Departures and arrivals of a column that are priced one by one; beyond, a weaker bound takes over.
    slopes : tuple of float
        Prices for the spread of the loads, tried for columns beyond those.
    steps, most_steps : int
        Steps of the sums of three arrivals and more to the width of a target, and to the spread of the loads at most.
    most_work : float
        Elementary steps to answer one curve at most; larger instances are left to the counts.
    widest : float
        Windows are counted in steps of the narrowest, that of the smallest node: beyond this ratio of capacities the
        tables get too wide.
    most_columns : int
        Columns kept for other distances.
    most_nodes : int
        Branches priced for one distance by the method "prices".
    precision : float
        How finely the bound is searched for by bisection, in units of the mean load.
    """

    knots: int = 24
    rounds: int = 60
    most_subsets: int = 30_000
    most_out: int = 6
    most_in: int = 5
    slopes: tuple[float, ...] = (-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0)
    steps: int = 100
    most_steps: int = 20_000
    most_work: float = 3e8
    widest: float = 1_000.0
    most_columns: int = 3_000
    most_nodes: int = 64
    precision: float = 1e-6
