"""Migration sequences: hostile instances, and the least movement over every chain of partitions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import exact as e
from hostile import intervals

NAME = "migration-sequence"
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "oms": {"most_partitions": [0, 2]},
    "oms-restricted": {"partitions": [1, 5], "noise": [0.0, 1.0], "patience": [1, 100]},
}
PARTIAL: set[str] = set()


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data."""
    w = intervals.tasks(rng, most=5)
    counts = [rng.choice([1, 2, 2, 3, 4]) for _ in range(rng.choice([1, 2, 2, 3]))]
    tau = intervals.tolerated(rng, w, rng.choice(counts))
    return {"problem": NAME, "workload": w, "options": {"node_counts": counts, "tau": tau}}


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    return ks.MigrationSequence(ks.Workload(**spec["workload"]), **spec["options"])


def beyond(spec: dict[str, Any], run: dict[str, Any]) -> bool:
    """Whether a method says that it does not go so far: "oms" may be told to stop."""
    return "most_partitions" in run["options"]


class Truth(e.Truth):
    """(1)-(6). Between partitions only the least movement counts: labels can follow it at every step."""

    def __init__(self, spec: dict[str, Any]) -> None:
        o = spec["options"]
        self.tasks, self.counts = intervals.Tasks(spec["workload"], o["tau"]), o["node_counts"]
        self.scale = self.tasks.total or Fraction(1)
        self.unit = self.scale * len(self.counts)

    def find(self) -> None:
        t = self.tasks
        reached: dict[intervals.Cuts, Fraction] = {}
        for step, n in enumerate(self.counts):
            costs: dict[intervals.Cuts, Fraction] = {}
            for cuts in t.partitions(n):
                if step == 0:
                    costs[cuts] = t.cost(t.now(), cuts)
                elif reached:
                    costs[cuts] = min(so_far + t.cost(t.numbered(old), cuts) for old, so_far in reached.items())
            reached = costs
            if not reached:
                break
        self.best = self.loose = self.strict = min(reached.values(), default=None)

    def candidates(self) -> Iterator[e.Assignment]:
        return iter(())

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        if len(a) != len(self.counts):
            return "steps"
        before = (len(self.tasks.kept), *self.counts[:-1])
        numbers = self.tasks.n + sum(max(0, n - b) for b, n in zip(before, self.counts, strict=True))
        found = (self.tasks.broken(row, n, numbers) for row, n in zip(a, self.counts, strict=True))
        return next((rule for rule in found if rule is not None), None)

    def value(self, a: e.Assignment) -> Fraction:
        rows = [self.tasks.current, *a]
        return sum((self.tasks.shift(x, y) for x, y in itertools.pairwise(rows)), Fraction(0))

    def read(self, assignment: Any) -> e.Assignment:
        return tuple(tuple(int(i) for i in row) for row in assignment)
