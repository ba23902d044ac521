"""Interval migration: hostile instances, and the least movement by trying every partition and every labelling."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import draw as d
from hostile import exact as e

NAME = "interval-migration"
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "free": {"seconds": [0.5]},
    "ssm-printed": {"flaws": [("range",), ("base",), ("lemma-4.3",), ("lines-10-12",), ()]},
}
PARTIAL: set[str] = set()
Cuts = tuple[int, ...]


def tasks(rng: random.Random, most: int = 6) -> dict[str, Any]:
    """A workload whose nodes run consecutive tasks, as plain data."""
    w = d.workload(rng, most=most)
    given = w["nodes"]
    n = given if isinstance(given, int) else len(given)
    w["nodes"] = [given[0]] * n if isinstance(given, list) else n
    m = len(w["current"])
    order = rng.sample(range(n), n)
    inner = sorted(rng.sample(range(1, m), min(rng.randint(0, n - 1), m - 1))) if m > 1 else []
    bounds = [0, *inner, m]
    w["current"] = [order[j] for j, (a, b) in enumerate(itertools.pairwise(bounds)) for _ in range(a, b)]
    return w


def tolerated(rng: random.Random, w: dict[str, Any], after: int) -> float | str:
    """Tau: at its ends, usual, or what some partition needs exactly."""
    if rng.random() < 0.6:
        return rng.choice([0, 0.0, 0.1, 0.2, "0.2", 0.3, 0.5, "1/3", 1, 1.2, 2, 100, 1e9])
    load = e.last_load(w)
    m, total = len(load), sum(load)
    if total == 0:
        return 0
    inner = sorted(rng.sample(range(1, m), min(after, m) - 1)) if m > 1 else []
    most = max(sum(load[a:b]) for a, b in itertools.pairwise([0, *inner, m]))
    needed = max(Fraction(0), most * after / total - 1)
    return rng.choice([str(needed), str(needed), float(needed), str(needed * Fraction(999999, 1000000))])


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data."""
    w = tasks(rng)
    after = rng.choice([1, 2, 2, 3, 3, 4, 7])
    return {"problem": NAME, "workload": w, "options": {"nodes_after": after, "tau": tolerated(rng, w, after)}}


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    return ks.IntervalMigration(ks.Workload(**spec["workload"]), **spec["options"])


class Tasks:
    """Partitions of the tasks within a load limit, and what it costs to go from one to another."""

    def __init__(self, w: dict[str, Any], tau: Any) -> None:
        self.w, self.n, self.kept = w, e.node_number(w), set(e.kept_nodes(w))
        self.current, self.load, self.state = w["current"], e.last_load(w), e.fractions(w["state"])
        # A float means the decimal that it prints as: documented for tau, and only there.
        self.share = 1 + (Fraction(tau) if isinstance(tau, int | str) else Fraction(repr(float(tau))))
        self.m, self.total = len(self.load), sum(self.state)

    def limit(self, nodes: int) -> Fraction:
        """(3): what a node may carry when there are this many."""
        return self.share * sum(self.load) / nodes

    def partitions(self, nodes: int) -> list[Cuts]:
        """All partitions into at most this many non-empty intervals within the limit."""
        limit, found = self.limit(nodes), []
        for k in range(min(nodes, self.m)):
            for inner in itertools.combinations(range(1, self.m), k):
                cuts = (0, *inner, self.m)
                if all(sum(self.load[a:b]) <= limit for a, b in itertools.pairwise(cuts)):
                    found.append(cuts)
        return found

    def stays(self, before: Sequence[Any], cuts: Cuts) -> Fraction:
        """The most state that can stay where it is: every interval takes one old node at most, no node two."""
        worth: list[dict[Any, Fraction]] = []
        for a, b in itertools.pairwise(cuts):
            here: dict[Any, Fraction] = {}
            for k in range(a, b):
                if before[k] is not None:
                    here[before[k]] = here.get(before[k], Fraction(0)) + self.state[k]
            worth.append(here)

        def most(j: int, used: frozenset[Any]) -> Fraction:
            if j == len(worth):
                return Fraction(0)
            best = most(j + 1, used)
            for node, value in worth[j].items():
                if node not in used:
                    best = max(best, value + most(j + 1, used | {node}))
            return best

        return most(0, frozenset())

    def now(self) -> list[int | None]:
        """The node of each task; None where it drains and nothing can stay."""
        return [q if q in self.kept else None for q in self.current]

    def cost(self, before: Sequence[Any], cuts: Cuts) -> Fraction:
        """The least state that moves from an assignment to a partition."""
        return self.total - self.stays(before, cuts)

    def numbered(self, cuts: Cuts) -> list[int]:
        """A partition as an assignment to 0, 1, 2, ..."""
        return [j for j, (a, b) in enumerate(itertools.pairwise(cuts)) for _ in range(a, b)]

    def broken(self, row: Sequence[int], nodes: int, numbers: int, drains: bool = True) -> str | None:
        """What one assignment breaks, (2)-(5), when there are this many nodes and node numbers."""
        order = [k for k, _ in itertools.groupby(row)]
        if len(set(order)) < len(order):
            return "intervals"
        if len(order) > nodes:
            return "nodes_after"
        if min(row) < 0 or max(row) >= numbers:
            return "node_numbers"
        limit = self.limit(nodes)
        if any(sum(y for i, y in zip(row, self.load, strict=True) if i == node) > limit for node in order):
            return "load"
        if drains and any(i < self.n and i not in self.kept for i in order):
            return "draining"
        return None

    def shift(self, before: Sequence[int], after: Sequence[int]) -> Fraction:
        """State that moves between two assignments."""
        return sum((s for a, b, s in zip(before, after, self.state, strict=True) if a != b), Fraction(0))


class Truth(e.Truth):
    """(1)-(5), and the state moved. The load test is exact: there is no slack."""

    def __init__(self, spec: dict[str, Any]) -> None:
        o = spec["options"]
        self.tasks, self.after = Tasks(spec["workload"], o["tau"]), o["nodes_after"]
        self.scale = self.unit = self.tasks.total or Fraction(1)

    def find(self) -> None:
        costs = [self.tasks.cost(self.tasks.now(), cuts) for cuts in self.tasks.partitions(self.after)]
        self.best = self.loose = self.strict = min(costs, default=None)

    def candidates(self) -> Iterator[e.Assignment]:
        return iter(())

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        numbers = self.tasks.n + max(0, self.after - len(self.tasks.kept))
        return self.tasks.broken(a, self.after, numbers)

    def value(self, a: e.Assignment) -> Fraction:
        return self.tasks.shift(self.tasks.current, a)
