"""Replicas of hot key groups: hostile instances, and the least largest load by trying every set of nodes for every key group."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import draw as d
from hostile import exact as e

NAME = "replicated-allocation"
OPTIONS: dict[str, dict[str, list[Any]]] = {"milp": {"threads": [2]}, "cp-sat": {"threads": [2]}}
PARTIAL: set[str] = set()


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data."""
    w = d.workload(rng, most=4)
    p, n = len(w["state"]), e.node_number(w)
    o: dict[str, Any] = {"copies": p + rng.choice([0, 1, 1, 2, 3, p * n])}
    if rng.random() < 0.5:
        o["at_most"] = rng.randint(1, p)
    if rng.random() < 0.5:
        o["max_migrations"] = rng.choice([0, 1, 2, p])
    if rng.random() < 0.2:
        o["held"] = [[int(rng.random() < 0.5) for _ in range(n)] for _ in range(p)]
        for row in o["held"]:
            row[rng.randrange(n)] = 1
    return {"problem": NAME, "workload": w, "options": o}


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    return ks.ReplicatedAllocation(ks.Workload(**spec["workload"]), **spec["options"])


class Truth(e.Truth):
    """(1)-(8), and L."""

    def __init__(self, spec: dict[str, Any]) -> None:
        w, o = spec["workload"], spec["options"]
        self.n, self.kept = e.node_number(w), e.kept_nodes(w)
        load = w["load"]
        self.load = e.fractions(load[-1] if isinstance(load[0], list) else load)
        self.speed = [Fraction(1)] * self.n if isinstance(w["nodes"], int) else e.fractions(w["nodes"])
        current = [[int(i == q) for i in range(self.n)] for q in w["current"]]
        self.held, self.options = o.get("held", current), o
        self.scale = sum(self.load) / (sum(self.speed[i] for i in self.kept) or 1) or Fraction(1)
        self.unit = sum(self.load) / min(self.speed) or Fraction(1)

    def candidates(self) -> Iterator[e.Assignment]:
        rows = [
            tuple(int(i in nodes) for i in range(self.n))
            for size in range(1, len(self.kept) + 1)
            for nodes in itertools.combinations(self.kept, size)
        ]
        return itertools.product(rows, repeat=len(self.load))

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        o = self.options
        if sum(map(sum, a)) > o["copies"]:
            return "copies"
        if any(not any(row) for row in a):
            return "one_copy"
        if any(row[i] for row in a for i in range(self.n) if i not in self.kept):
            return "draining"
        if "at_most" in o and max(map(sum, zip(*a, strict=True))) > o["at_most"]:
            return "at_most"
        new = sum(x and not h for row, held in zip(a, self.held, strict=True) for x, h in zip(row, held, strict=True))
        return "max_migrations" if new > o.get("max_migrations", new) else None

    def read(self, assignment: Any) -> e.Assignment:
        return tuple(tuple(int(x) for x in row) for row in assignment)

    def value(self, a: e.Assignment) -> Fraction:
        loads = [Fraction(0)] * self.n
        for y, row in zip(self.load, a, strict=True):
            for i, x in enumerate(row):
                if x:
                    loads[i] += y / sum(row) / self.speed[i]
        return max(loads)
