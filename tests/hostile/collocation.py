"""Collocated allocation: hostile instances, and the least remote traffic or total load by trying every assignment."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import allocation, over_windows
from hostile import draw as d
from hostile import exact as e

NAME = "collocated-allocation"
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "milp": {"threads": [2], "search_steps": [0, 10], "bound_steps": [0, 5], "finish": [False]},
    "milp-plain": {"threads": [2]},
    "cp-sat": {"threads": [2]},
    "lagrange": {"steps": [0, 3]},
    "albic": {
        "max_partition_load": [5.0, 100.0], "step_partition_load": [1.0, 50.0], "score_factor": [0.0, 1.0, 3.0],
        "plan_rounds": [1], "anticipate": [False],
    },
    "cola": {"relabel": [True]},
    "flux": {"rounds": [0, 1]},
    "allocation-milp": {"plan_rounds": [1]},
}  # fmt: skip
PARTIAL = {"search_steps", "bound_steps", "finish"}


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data."""
    w = d.workload(rng, most=5)
    p = len(w["current"])
    talk = iter(d.numbers(rng, p * p))
    share = rng.choice([0.2, 0.5, 1.0])
    w["traffic"] = [[t if rng.random() < share else 0.0 for t in (next(talk) for _ in range(p))] for _ in range(p)]
    o = allocation.limits(rng, w)
    for name in ("serialisation", "deserialisation"):
        if rng.random() < 0.35:
            o[name] = rng.choice([1.0, 0.5, 0.1, 1e-9, 1e-6, 1e3, 1 / 3])
    if rng.random() < 0.3:
        o["minimise"] = "total_load"
    if rng.random() < 0.2:
        o["sides"] = "upper"
    if (
        rng.random() < 0.25
        and len(w["current"]) > 0
        and not o.keys() & {"serialisation", "deserialisation", "minimise"}
    ):
        o["costs"], w["domains"] = levels(rng, e.node_number(w))
    o |= distance(rng, {"problem": NAME, "workload": w, "options": o})
    return over_windows.draw(rng, {"problem": NAME, "workload": w, "options": o}, rules=True)


def levels(rng: random.Random, n: int) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Costs that grow from nodes to racks to zones, of which a rack may lie in several; labels that look like numbers."""
    racks = [rng.choice(["01", "1", "b"]) for _ in range(n)]
    zones = (
        [rng.choice(["x", "y"]) for _ in range(n)] if rng.random() < 0.5 else ["x" if r == "b" else "y" for r in racks]
    )
    within = len({*zip(racks, zones, strict=True)}) == len({*zones})
    cost = sorted(rng.choice([0.0, 1.0, 1 / 3, 1e-9, 1e-6, 7.0, 1e3, 1e12]) for _ in range(3))
    chosen = (
        ["node", "rack"]
        if within
        else rng.choice([["node", "rack", "zone"], ["rack", "zone"], ["zone"], ["node", "rack"]])
    )
    cost[len(chosen) - 1] = cost[len(chosen) - 1] or 1.0
    return dict(zip(chosen, sorted(cost[: len(chosen)]), strict=True)), {"rack": racks, "zone": zones}


def distance(rng: random.Random, spec: dict[str, Any]) -> dict[str, Any]:
    """A limit on the load distance: the default, none, 0, any, or what some assignment has."""
    kind = rng.random()
    if kind < 0.1:
        return {}
    if kind < 0.3:
        return {"max_load_distance": None}
    if kind < 0.5:
        return {"max_load_distance": rng.choice([0.0, 10.0, 50.0, 100.0, 300.0, 1e6])}
    truth = OneWindow(spec)
    n = e.node_number(spec["workload"])
    reached, mean = truth.distance(tuple(rng.randrange(n) for _ in spec["workload"]["current"]))
    if rng.random() < 0.5 or mean == 0:
        return {"max_load_distance": d.near(rng, max(0.0, float(reached))), "distance_unit": "load"}
    return {"max_load_distance": d.near(rng, max(0.0, float(100 * reached / mean)))}


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    return ks.CollocatedAllocation(ks.Workload(**spec["workload"]), **spec["options"])


class OneWindow(allocation.OneWindow):
    """(1), (2), (6), (7) of key-group allocation, and (8), (9)."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        ser, des = (Fraction(self.o.get(name, 0.0)) for name in ("serialisation", "deserialisation"))
        p = len(self.current)
        given = [e.fractions(row) for row in self.w["traffic"]]
        self.links = [(k, j, given[k][j]) for k in range(p) for j in range(p) if k != j and given[k][j]]
        self.send, self.receive = ser, des
        labels = {"node": range(self.n), **self.w.get("domains", {})}
        self.costs = [(Fraction(c), labels[name]) for name, c in self.o.get("costs", {"node": 1.0}).items()]
        traffic = sum((t for *_, t in self.links), Fraction(0)) * max(c for c, _ in self.costs)
        everything = sum(self.load) + (ser + des) * traffic
        self.of_traffic = self.o.get("minimise", "remote_traffic") == "remote_traffic"
        self.scale = (traffic if self.of_traffic else everything) or Fraction(1)
        self.unit = self.scale

    def node_loads(self, a: e.Assignment) -> list[Fraction]:
        """Load of every node, with what remote traffic costs at both ends."""
        loads = e.sums(a, self.load, self.n)
        if self.send or self.receive:
            for k, j, t in self.links:
                if a[k] != a[j]:
                    loads[a[k]] += self.send * t
                    loads[a[j]] += self.receive * t
        return loads

    def distance(self, a: e.Assignment) -> tuple[Fraction, Fraction]:
        """How far the most deviating node is from the mean, on the sides that are limited, and the mean; per unit of capacity."""
        loads = self.node_loads(a)
        mean = sum(loads) / sum(self.capacity[i] for i in self.kept)
        away = [x / c - mean for x, c in zip(loads, self.capacity, strict=True)]
        both = self.o.get("sides", "both") == "both"
        return max(abs(x) if both and i in self.kept else x for i, x in enumerate(away)), mean

    def candidates(self) -> Iterator[e.Assignment]:
        return super().candidates()

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        if broken := super().broken(a, slack):
            return broken
        limit = self.o.get("max_load_distance", 10.0)
        if limit is None:
            return None
        far, mean = self.distance(a)
        share = mean / 100 if self.o.get("distance_unit", "percent") == "percent" else 1
        return "max_load_distance" if far - Fraction(limit) * share > slack * mean else None

    def value(self, a: e.Assignment) -> Fraction:
        if self.of_traffic:
            cost = [
                [max([c for c, of in self.costs if of[i] != of[j]], default=Fraction(0)) for j in range(self.n)]
                for i in range(self.n)
            ]
            return sum((t * cost[a[k]][a[j]] for k, j, t in self.links), Fraction(0))
        return sum(self.node_loads(a), Fraction(0))


class Truth(over_windows.Truth):
    """(14) and (15): what becomes of the windows' traffic, or load."""

    one, usual = OneWindow, "mean"
