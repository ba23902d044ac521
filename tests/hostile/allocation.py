"""Key-group allocation: hostile instances, and the least load distance by trying every assignment."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import draw as d
from hostile import exact as e
from hostile import over_windows

NAME = "key-group-allocation"
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "milp": {"second_stage": [False], "threads": [2], "rounds": [0, 1, 20], "enough": [0.0, 0.5]},
    "highs": {"second_stage": [True], "weights": [(1000.0, 1.0), (1.0, 1.0)], "threads": [2]},
    "cp-sat": {"threads": [2]},
    "flux": {"rounds": [0, 1, 5]},
    "potc": {"choices": [1, 3]},
}
PARTIAL = {"rounds", "enough", "weights"}  # options with which an exact method need not prove anything


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data."""
    w = d.workload(rng)
    return over_windows.draw(rng, {"problem": NAME, "workload": w, "options": options(rng, w)}, rules=True)


def options(rng: random.Random, w: dict[str, Any]) -> dict[str, Any]:
    """The problem's own options."""
    p, n = len(w["current"]), e.node_number(w)
    made = limits(rng, w)
    if rng.random() < 0.15 and not _mean_near_whole(w):
        made["mean"] = "ceiling"
    if rng.random() < 0.15:
        made["distance_floor"] = True
    if rng.random() < 0.12:
        load = w["load"][-1] if isinstance(w["load"][0], list) else w["load"]
        made["resource_capacity"] = {"load": _room(rng, load, [rng.randrange(n) for _ in range(p)], n)}
    return made


def limits(rng: random.Random, w: dict[str, Any]) -> dict[str, Any]:
    """Limits on migrations, and a resource; also those of collocation."""
    p, n = len(w["current"]), e.node_number(w)
    made: dict[str, Any] = {}
    if rng.random() < 0.4:
        made["max_migrations"] = rng.choice([0, 1, 2, p, 10**6])
    if rng.random() < 0.5:
        alpha = rng.choice([1.0, 1.0, 0.5, 0.1, 1e-6, 1e6, 0.0])
        limit = d.budget(rng, [alpha * s for s in w["state"]], w["current"], n)
        made |= {"alpha": alpha, "max_migration_cost": limit}
    if rng.random() < 0.2:
        made["into_draining"] = True
    if rng.random() < 0.15:
        use = d.numbers(rng, p)
        w["resources"] = {"memory": use}
        made["resource_capacity"] = {"memory": _room(rng, use, [rng.randrange(n) for _ in range(p)], n)}
    return made


def _room(rng: random.Random, use: list[float], assignment: list[int], n: int) -> float | list[float]:
    """Capacities that an assignment fills exactly, or nearly."""
    used = [sum(u for u, i in zip(use, assignment, strict=True) if i == node) for node in range(n)]
    return d.near(rng, max(used)) if rng.random() < 0.4 else [d.near(rng, u) for u in used]


def _mean_near_whole(w: dict[str, Any]) -> bool:
    """Whether rounding decides which way the mean is rounded up: nothing is documented for that."""
    mean = sum(e.last_load(w)) / sum(e.capacities(w)[i] for i in e.kept_nodes(w))
    away = abs(mean - round(mean))
    return mean > 10**15 or 0 < away <= Fraction(1, 10**9) * max(mean, 1)


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    return ks.KeyGroupAllocation(ks.Workload(**spec["workload"]), **spec["options"])


class OneWindow(e.Truth):
    """(1)-(7), and d."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.w, self.o = spec["workload"], spec["options"]
        self.n, self.current = e.node_number(self.w), self.w["current"]
        self.capacity, self.kept = e.capacities(self.w), set(e.kept_nodes(self.w))
        self.load, self.state = e.last_load(self.w), e.fractions(self.w["state"])
        alpha = Fraction(self.o.get("alpha", 1.0))
        self.cost = [alpha * s for s in self.state]
        exact = sum(self.load) / sum(self.capacity[i] for i in self.kept)
        self.mean = Fraction(math.ceil(exact)) if self.o.get("mean") == "ceiling" else exact
        self.scale = self.mean or Fraction(1)
        self.unit = max(self.mean, sum(self.load) / min(self.capacity)) or Fraction(1)
        self.rooms = []
        for name, limit in (self.o.get("resource_capacity") or {}).items():
            use = self.load if name == "load" else e.fractions(self.w["resources"][name])
            self.rooms.append((use, e.fractions(limit if isinstance(limit, list) else [limit] * self.n)))

    def candidates(self) -> Iterator[e.Assignment]:
        open_to = range(self.n) if self.o.get("into_draining") else sorted(self.kept)
        return e.everywhere([sorted({*open_to, q}) for q in self.current])

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        moves = sum(i != q for i, q in zip(a, self.current, strict=True))
        most, budget = self.o.get("max_migrations"), self.o.get("max_migration_cost")
        if most is not None and moves > most:
            return "max_migrations"
        if budget is not None and e.moved(a, self.current, self.cost) > Fraction(budget) * (1 + slack):
            return "max_migration_cost"
        if not self.o.get("into_draining"):
            if any(i != q and i not in self.kept for i, q in zip(a, self.current, strict=True)):
                return "into_draining"
        for use, limit in self.rooms:
            if any(u > r * (1 + slack) for u, r in zip(e.sums(a, use, self.n), limit, strict=True)):
                return "resource_capacity"
        if self.o.get("distance_floor") and self.value(a) - self.mean > slack * self.scale:
            return "distance_floor"
        return None

    def value(self, a: e.Assignment) -> Fraction:
        loads = e.sums(a, self.load, self.n)
        away = [loads[i] / self.capacity[i] - self.mean for i in range(self.n)]
        return max(abs(x) if i in self.kept else max(x, Fraction(0)) for i, x in enumerate(away))


class Truth(over_windows.Truth):
    """(8): what becomes of the windows' distances."""

    one = OneWindow
