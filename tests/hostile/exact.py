"""The truth by trying everything, in exact fractions. Nothing here, or in the truths built on it, imports keyshift."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

SLACK = Fraction(1, 10**9)
"""The problems' docstrings and checks hold a sum of floats against a limit with this relative rounding allowed."""

TIGHT, LOOSE = SLACK * Fraction(9, 10), SLACK * Fraction(11, 10)
"""What lies between the two may pass the library's check or fail it, by the rounding of its own sums."""

Assignment = tuple[Any, ...]


class Truth:
    """What is true of an instance. A subclass says which assignments there are, what they break, what they cost.

    Attributes
    ----------
    best : Fraction or None
        Least objective among assignments that keep every rule within `TIGHT`; None if there is none.
    loose : Fraction or None
        The same within `LOOSE`: below it nothing can be reached at all.
    strict : Fraction or None
        The same with no slack: tells apart what is feasible only by the rounding that the check allows.
    example, first, poorest : assignment or None
        One that attains `best`; the first that keeps every rule within `TIGHT`, and one of those that cost most, to start from.
    """

    scale: Fraction = Fraction(1)
    """One natural unit of the objective as documented, > 0: a stated tolerance is a millionth of it, or less."""

    unit: Fraction = Fraction(1)
    """The largest number that a float computation of the objective has to add up or subtract: what rounding is
    measured against."""

    best: Fraction | None = None
    loose: Fraction | None = None
    strict: Fraction | None = None
    example: Assignment | None = None
    first: Assignment | None = None
    poorest: Assignment | None = None

    def candidates(self) -> Iterator[Assignment]:
        """Every assignment that has a chance."""
        raise NotImplementedError

    def broken(self, assignment: Assignment, slack: Fraction) -> str | None:
        """The first rule that an assignment breaks by more than the slack."""
        raise NotImplementedError

    def value(self, assignment: Assignment) -> Fraction:
        """Its objective, exactly."""
        raise NotImplementedError

    def find(self) -> None:
        """Try every assignment; sets the attributes."""
        most = None
        for a in self.candidates():
            if self.broken(a, LOOSE) is not None:
                continue
            value = self.value(a)
            if self.loose is None or value < self.loose:
                self.loose = value
            if (most is None or value < self.best or value > most) and self.broken(a, TIGHT) is None:
                self.first = self.first or a
                if self.best is None or value < self.best:
                    self.best, self.example = value, a
                if most is None or value > most:
                    most, self.poorest = value, a
            if (self.strict is None or value < self.strict) and self.broken(a, Fraction(0)) is None:
                self.strict = value

    def read(self, assignment: Any) -> Assignment:
        """The library's assignment as plain numbers."""
        return tuple(int(i) for i in assignment)


def fractions(values: Sequence[float]) -> list[Fraction]:
    """Floats as the fractions that they are."""
    return [Fraction(v) for v in values]


def everywhere(places: Sequence[Sequence[int]]) -> Iterator[Assignment]:
    """Every way to choose one of each."""
    return itertools.product(*places)


def sums(assignment: Assignment, values: Sequence[Fraction], nodes: int) -> list[Fraction]:
    """Sum of the values on every node."""
    total = [Fraction(0)] * nodes
    for i, v in zip(assignment, values, strict=True):
        total[i] += v
    return total


def moved(assignment: Assignment, current: Sequence[int], values: Sequence[Fraction]) -> Fraction:
    """Sum of the values of what changes node."""
    return sum((v for i, q, v in zip(assignment, current, values, strict=True) if i != q), Fraction(0))


def kept_nodes(workload: dict[str, Any]) -> list[int]:
    """Nodes that do not drain."""
    n = node_number(workload)
    draining = workload.get("draining") or [False] * n
    return [i for i in range(n) if not draining[i]]


def node_number(workload: dict[str, Any]) -> int:
    """How many nodes there are."""
    nodes = workload["nodes"]
    return nodes if isinstance(nodes, int) else len(nodes)


def capacities(workload: dict[str, Any]) -> list[Fraction]:
    """Their capacities."""
    nodes = workload["nodes"]
    return [Fraction(1)] * nodes if isinstance(nodes, int) else fractions(nodes)


def last_load(workload: dict[str, Any]) -> list[Fraction]:
    """Load in the last window."""
    load = workload["load"]
    return fractions(load[-1] if isinstance(load[0], list) else load)
