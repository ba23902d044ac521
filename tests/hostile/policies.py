"""Migration policies: hostile instances, and the least expected movement by policy iteration over every partition."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import exact as e
from hostile import intervals

NAME = "migration-policy"
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "mtm": {"threads": [2], "tolerance": [1e-5, 1e-9]},
    "value-iteration": {"tolerance": [1e-5]},
    "potentials": {"threads": [2], "partitions": [1, 5]},
    "mtm-restricted": {"partitions": [1, 5], "noise": [0.0, 1.0]},
}
PARTIAL = {"tolerance"}
DIGITS = 60
State = tuple[int, intervals.Cuts]


def draw(rng: random.Random) -> dict[str, Any]:
    """One instance, as plain data: rows that nobody reaches, probabilities of 0 and 1, discounts at their ends."""
    w = intervals.tasks(rng, most=5)
    now = len(e.kept_nodes(w))
    counts = sorted({now, *(rng.randint(1, 4) for _ in range(rng.choice([0, 1, 1, 2])))})
    matrix: dict[int, dict[int, float]] = {}
    for n in counts:
        chances = [rng.choice([0, 0, 1, 1, 2, 3]) for _ in counts]
        if not any(chances):
            chances[rng.randrange(len(counts))] = 1
        if rng.random() < 0.1:
            chances = [c + 1e-7 for c in chances]
        matrix[n] = {after: c / sum(chances) for after, c in zip(counts, chances, strict=True)}
    if rng.random() < 0.3:
        matrix[rng.randint(5, 9)] = {rng.choice(counts): 1.0}  # no row leads here
    o: dict[str, Any] = {
        "transitions": [[n, [[after, c] for after, c in row.items()]] for n, row in matrix.items()],
        "tau": intervals.tolerated(rng, w, rng.choice(counts)),
        "discount": rng.choice([0, 0.0, 0.5, 0.8, 0.9, 0.99, 0.9999, 1e-9, 1 / 3]),
    }
    if rng.random() < 0.25:
        o["nodes_after"] = rng.choice(counts)
    return {"problem": NAME, "workload": w, "options": o}


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    o = dict(spec["options"])
    o["transitions"] = {n: dict(map(tuple, row)) for n, row in o["transitions"]}
    return ks.MigrationPolicy(ks.Workload(**spec["workload"]), **o)


class Truth(e.Truth):
    """(1), from the state of now; only what can be reached counts. Values to `DIGITS` digits."""

    def __init__(self, spec: dict[str, Any]) -> None:
        o = spec["options"]
        self.tasks = intervals.Tasks(spec["workload"], o["tau"])
        self.gamma = Fraction(o["discount"])
        self.columns = sorted(n for n, _ in o["transitions"])
        self.rows = {n: self._row(row) for n, row in o["transitions"]}
        revealed = o.get("nodes_after")
        self.first = {revealed: Fraction(1)} if revealed is not None else self.rows[len(self.tasks.kept)]
        self.scale = self.tasks.total or Fraction(1)
        self.unit = self.scale / (1 - self.gamma)

    @staticmethod
    def _row(row: list[list[Any]]) -> dict[int, Fraction]:
        total = sum(Fraction(c) for _, c in row)
        return {n: Fraction(c) / total for n, c in row if c}

    def find(self) -> None:
        counts, waiting = set(), set(self.first)
        while waiting:
            n = waiting.pop()
            counts.add(n)
            waiting |= set(self.rows[n]) - counts
        classes = {n: self.tasks.partitions(n) for n in sorted(counts)}
        if not all(classes.values()):
            return
        self.best = self.loose = self.strict = self._least(classes)

    def _least(self, classes: dict[int, list[intervals.Cuts]]) -> Fraction:
        """Howard's policy iteration, and the first step."""
        t = self.tasks
        states = [(n, cuts) for n, found in classes.items() for cuts in found]
        at = {state: i for i, state in enumerate(states)}
        kinds = sorted({cuts for _, cuts in states})
        cost = {(x, y): t.cost(t.numbered(x), y) for x in kinds for y in kinds}
        choice = {(s, n): classes[n][0] for s in states for n in self.rows[s[0]]}
        while True:
            links = [
                [(c, at[n, choice[s, n]], cost[s[1], choice[s, n]]) for n, c in self.rows[s[0]].items()] for s in states
            ]
            values = solve(links, self.gamma)
            changed = False
            for s, n in choice:
                best = min(classes[n], key=lambda cuts, s=s, n=n: cost[s[1], cuts] + self.gamma * values[at[n, cuts]])
                gain = self._at(choice[s, n], s, n, cost, values, at) - self._at(best, s, n, cost, values, at)
                if gain > Fraction(1, 10**40) * self.unit:
                    choice[s, n], changed = best, True
            if not changed:
                break
        return sum(
            c * min(t.cost(t.now(), cuts) + self.gamma * values[at[n, cuts]] for cuts in classes[n])
            for n, c in self.first.items()
        )

    def _at(self, cuts: Any, s: State, n: int, cost: Any, values: Any, at: Any) -> Fraction:
        return cost[s[1], cuts] + self.gamma * values[at[n, cuts]]

    def candidates(self) -> Iterator[e.Assignment]:
        return iter(())

    def read(self, assignment: Any) -> e.Assignment:
        return tuple(tuple(tuple(int(i) for i in row) for row in state) for state in assignment)

    def _walk(self, a: e.Assignment) -> tuple[str | None, list[list[tuple[Fraction, int, Fraction]]]]:
        """Follow a policy's table: the first rule it breaks, and for each state (chance, next state, state moved)."""
        t = self.tasks
        states: list[tuple[int, tuple[int, ...]]] = [(len(t.kept), tuple(t.current))]
        known: dict[tuple[int, intervals.Cuts], int] = {}
        links: list[list[tuple[Fraction, int, Fraction]]] = []
        r = 0
        while r < len(states):
            if r >= len(a):
                return "closed", links
            n, before = states[r]
            links.append([])
            for after, chance in sorted((self.rows[n] if r else self.first).items()):
                row = a[r][self.columns.index(after)]
                numbers = t.n + max(0, after - len(t.kept)) if r == 0 else max(n, after)
                if rule := t.broken(row, after, numbers, drains=r == 0):
                    return rule, links
                cuts = (0, *(k for k in range(1, t.m) if row[k] != row[k - 1]), t.m)
                if (after, cuts) not in known:
                    known[after, cuts] = len(states)
                    states.append((after, tuple(t.numbered(cuts))))
                links[-1].append((chance, known[after, cuts], t.shift(before, row)))
            r += 1
        return (None if r == len(a) else "closed"), links

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        return self._walk(a)[0]

    def value(self, a: e.Assignment) -> Fraction:
        return solve(self._walk(a)[1], self.gamma)[0]


def solve(links: list[list[tuple[Fraction, int, Fraction]]], gamma: Fraction) -> list[Fraction]:
    """V with V[r] = sum of chance * (moved + gamma V[next]): Gauss's elimination to `DIGITS` digits."""
    with localcontext(Context(prec=DIGITS)):
        size = len(links)
        rows = [[Decimal(0)] * (size + 1) for _ in range(size)]
        for r, decisions in enumerate(links):
            rows[r][r] += 1
            for chance, target, moved in decisions:
                rows[r][target] -= decimal(gamma * chance)
                rows[r][size] += decimal(chance * moved)
        for c in range(size):  # diagonally dominant: no pivoting needed
            for r in range(c + 1, size):
                if rows[r][c]:
                    factor = rows[r][c] / rows[c][c]
                    rows[r] = [x - factor * y if y else x for x, y in zip(rows[r], rows[c], strict=True)]
        value = [Decimal(0)] * size
        for r in reversed(range(size)):
            rest = sum((rows[r][k] * value[k] for k in range(r + 1, size) if rows[r][k]), Decimal(0))
            value[r] = (rows[r][size] - rest) / rows[r][r]
        return [Fraction(v) for v in value]


def decimal(x: Fraction) -> Decimal:
    """A fraction in the digits of the context."""
    return Decimal(x.numerator) / Decimal(x.denominator)
