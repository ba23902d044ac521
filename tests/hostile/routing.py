"""Mixed routing: hostile instances, and the least movement by trying every assignment."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import draw as d
from hostile import exact as e
from hostile import over_windows

NAME = "mixed-routing"
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "milp": {"threads": [2], "largest": [1]},
    "cp-sat": {"threads": [2], "largest": [1]},
    "llfd": {"everything": [True]},
    "min-table": {"compact": [1, 2, 8, 64]},
    "min-mig": {"beta": [0.0, 1.0, 10.0], "compact": [1, 2, 8, 64]},
    "mixed": {"beta": [0.0, 1.0, 10.0], "compact": [1, 2, 8, 64]},
    "mixed-bf": {"beta": [0.0, 1.0, 10.0], "trials": [1, 3], "compact": [1, 2, 8]},
    "readj": {"sigma": [0.0, 0.5, 10.0], "rounds": [0, 1]},
}
PARTIAL = {"largest"}


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data."""
    w = d.workload(rng)
    p, n = len(w["current"]), e.node_number(w)
    w["home"] = [q if rng.random() < 0.4 else rng.randrange(n) for q in w["current"]]
    o: dict[str, Any] = {"theta_max": rng.choice([0.0, 0.08, 0.1, 0.3, 0.5, 1.0, 2.0, 1e6])}
    if rng.random() < 0.6:
        o["theta_max"] = _reached(rng, w, n)
    if rng.random() < 0.5:
        o["max_table_size"] = rng.choice([0, 1, 2, p, 10**9])
    if rng.random() < 0.35:
        o["sides"] = "both"
    return over_windows.draw(rng, {"problem": NAME, "workload": w, "options": o}, rules=False)


def _reached(rng: random.Random, w: dict[str, Any], n: int) -> float:
    """The balance factor of some assignment to kept nodes, met exactly or nearly."""
    kept, capacity, load = e.kept_nodes(w), e.capacities(w), e.last_load(w)
    mean = sum(load) / sum(capacity[i] for i in kept)
    if mean == 0:
        return 0.0
    loads = e.sums(tuple(rng.choice(kept) for _ in load), load, n)
    return d.near(rng, float(max(loads[i] / capacity[i] / mean - 1 for i in kept)))


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    return ks.MixedRouting(ks.Workload(**spec["workload"]), **spec["options"])


class OneWindow(e.Truth):
    """(1)-(5), and the state moved."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.w, self.o = spec["workload"], spec["options"]
        self.n, self.current = e.node_number(self.w), self.w["current"]
        self.home, self.kept = self.w["home"], e.kept_nodes(self.w)
        self.load, self.state, capacity = e.last_load(self.w), e.fractions(self.w["state"]), e.capacities(self.w)
        mean = sum(self.load) / sum(capacity[i] for i in self.kept)
        theta = Fraction(self.o["theta_max"])
        least = max(Fraction(0), 1 - theta) if self.o.get("sides") == "both" else Fraction(0)
        self.upper = {i: (1 + theta) * mean * capacity[i] for i in self.kept}
        self.lower = {i: least * mean * capacity[i] for i in self.kept}
        self.grain = mean * max(capacity)  # the slack of (2) and (3) is that share of the roomiest node's mean load
        self.scale = self.unit = sum(self.state) or Fraction(1)

    def candidates(self) -> Iterator[e.Assignment]:
        return e.everywhere([self.kept] * len(self.current))

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        if any(i not in self.upper for i in a):
            return "draining"
        most = self.o.get("max_table_size")
        if most is not None and sum(i != h for i, h in zip(a, self.home, strict=True)) > most:
            return "max_table_size"
        loads = e.sums(a, self.load, self.n)
        for i in self.kept:
            if loads[i] > self.upper[i] + slack * self.grain or loads[i] < self.lower[i] - slack * self.grain:
                return "theta_max"
        return None

    def value(self, a: e.Assignment) -> Fraction:
        return e.moved(a, self.current, self.state)


class Truth(over_windows.Truth):
    """Every window within theta; the state that moves is the same in all."""

    one = OneWindow
