"""Minimum-cost load balancing: hostile instances, and the least imbalance by trying every assignment."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import draw as d
from hostile import exact as e

NAME = "mclb"
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "branch-and-bound": {"max_tree": [1, 10]},
    "scip": {"threads": [2]},
    "cp-sat": {"threads": [2]},
    "milp": {"threads": [2], "max_rounds": [1, 3]},
    "sdp": {"triangles": [False]},
    "local-search": {"effort": [0.1, 3.0]},
    "qp": {"steps": [1, 10]},
    "elb": {"overloaded_above": ["upper"]},
    "clb": {"theta": [0.5, 0.99], "scale": ["covariance"], "labels": ["printed"]},
    "clb-moment": {"split": ["threshold"], "theta": [0.5, 0.99], "labels": ["printed"]},
    "pkg": {"choices": [1, 3]},
}
PARTIAL = {"max_tree", "max_rounds"}


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data."""
    w = d.workload(rng, equal=True, windows=True)
    limit = d.budget(rng, w["state"], w["current"], w["nodes"])
    return {"problem": NAME, "workload": w, "options": {"max_state_moved": limit}}


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    return ks.MCLB(ks.Workload(**spec["workload"]), **spec["options"])


class Truth(e.Truth):
    """(1)-(4), and h."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.w = spec["workload"]
        self.budget = spec["options"]["max_state_moved"]
        self.n, self.current = e.node_number(self.w), self.w["current"]
        self.kept, self.state = e.kept_nodes(self.w), e.fractions(self.w["state"])
        rows = self.w["load"] if isinstance(self.w["load"][0], list) else [self.w["load"]]
        self.rows = [e.fractions(row) for row in rows]
        squares = sum(y * y for row in self.rows for y in row)
        self.scale = squares / (len(self.current) * len(self.kept)) or Fraction(1)
        self.unit = sum((sum(row) ** 2 for row in self.rows), Fraction(0)) or Fraction(1)

    def candidates(self) -> Iterator[e.Assignment]:
        return e.everywhere([self.kept] * len(self.current))

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        if any(i not in self.kept for i in a):
            return "draining"
        if self.budget is not None and e.moved(a, self.current, self.state) > Fraction(self.budget) * (1 + slack):
            return "max_state_moved"
        return None

    def value(self, a: e.Assignment) -> Fraction:
        total = Fraction(0)
        for row in self.rows:
            loads = e.sums(a, row, self.n)
            mean = sum(loads) / len(self.kept)
            total += sum((loads[i] - mean) ** 2 for i in self.kept) / len(self.kept)
        return total
