"""Movement within limits: hostile instances, and the least movement by trying every assignment."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import draw as d
from hostile import exact as e

NAME = "movement-within-limits"
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "milp": {"threads": [2]},
    "cp-sat": {"threads": [2]},
    "elb": {"overloaded_above": ["upper"]},
}
PARTIAL: set[str] = set()


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data: limits that some assignment meets exactly, or any."""
    w = d.workload(rng, equal=True, most=5, windows=True)
    n = w["nodes"]
    load = w["load"][-1] if isinstance(w["load"][0], list) else w["load"]
    after = rng.choice([1, 2, 2, 3])
    loads = [0.0] * after
    for y in load:
        loads[rng.randrange(after)] += y
    upper = d.near(rng, max(loads)) or 1.0
    lower = rng.choice([0.0, 0.0, min(loads), upper * 0.5, upper * (1 - 1e-10), upper * 1e-10, upper * 0.9, 1e-9])
    if lower >= upper:
        lower = upper * 0.5 if upper * 0.5 < upper else 0.0
    o: dict[str, Any] = {"lower": lower, "upper": upper}
    if rng.random() < 0.7:
        o["nodes_after"] = rng.choice([after, after, after, n, rng.randint(1, 4)])
    elif 2 * sum(load) / (lower + upper) > 1000 and rng.random() < 0.8:  # seldom more nodes than memory holds
        o["nodes_after"] = after
    if rng.random() < 0.3:
        o["windows"] = "all"
    return {"problem": NAME, "workload": w, "options": o}


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    return ks.MovementWithinLimits(ks.Workload(**spec["workload"]), **spec["options"])


class Truth(e.Truth):
    """(1)-(5), and psi."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.w, o = spec["workload"], spec["options"]
        self.n, self.current = e.node_number(self.w), self.w["current"]
        self.kept, self.state = e.kept_nodes(self.w), e.fractions(self.w["state"])
        self.lower, self.upper = Fraction(o["lower"]), Fraction(o["upper"])
        rows = self.w["load"] if isinstance(self.w["load"][0], list) else [self.w["load"]]
        self.rows = [e.fractions(row) for row in (rows if o.get("windows") == "all" else rows[-1:])]
        self.after = o.get("nodes_after") or self._printed(sum(e.fractions(rows[-1])))
        self.limit = max(self.n, self.after + self.n - len(self.kept))
        self.scale = self.unit = sum(self.state) or Fraction(1)

    def _printed(self, total: Fraction) -> int:
        """ceil(2 W / (u + v)), at least 1; a quotient within 1e-9 of a whole number is it, as documented."""
        quotient = 2 * total / (self.lower + self.upper)
        nearest = round(quotient)
        near = abs(quotient - nearest) <= e.SLACK * max(nearest, 1)
        return max(1, nearest if near else math.ceil(quotient))

    def candidates(self) -> Iterator[e.Assignment]:
        """New nodes are alike: as many of them as there are key groups will do."""
        new = range(self.n, min(self.limit, self.n + len(self.current)))
        return e.everywhere([[*self.kept, *new]] * len(self.current))

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        used = set(a)
        if any(i < self.n and i not in self.kept for i in used):
            return "draining"
        if len(used) != self.after and not (len(used) < self.after and self.lower == 0):
            return "nodes_after"
        # The library allows a slack of 1e-9 of the UPPER limit on either side.
        for row in self.rows:
            loads = dict.fromkeys(used, Fraction(0))
            for i, y in zip(a, row, strict=True):
                loads[i] += y
            for x in loads.values():
                if x > self.upper * (1 + slack) or x < self.lower - slack * self.upper:
                    return "limits"
        return None

    def value(self, a: e.Assignment) -> Fraction:
        return e.moved(a, self.current, self.state)
