"""A forger of certificates, and a judge who knows the truth: every assignment of the changed instance is tried.

The judge reads the record by itself and imports nothing of keyshift.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np

MOST = 20_000
CLOSE = Fraction(1, 10**9)
"""What floats, which solve for the values of policies, may be off by, as a share."""
Record = dict[str, Any]


class Senseless(Exception):  # noqa: N818 - no error of the program: the forger broke the instance itself
    """The instance says nothing."""


class Undecided(Exception):  # noqa: N818 - no error either
    """There is too much to try."""


def sensible(holds: object) -> None:
    if not holds:
        raise Senseless


def amounts(record: Record, name: str, length: int | None = None) -> list[Fraction]:
    unit, numbers = Fraction(record[name]["unit"]), record[name]["numbers"]
    sensible(unit > 0 and all(type(x) is int and x >= 0 for x in numbers) and length in (None, len(numbers)))
    return [unit * x for x in numbers]


def nodes_of(values: Any, length: int | None, nodes: int) -> list[int]:
    sensible(isinstance(values, list) and length in (None, len(values)))
    sensible(all(type(i) is int and 0 <= i < nodes for i in values))
    return list(values)


def sensible_forms(rules: Record, size: int, places: int) -> None:
    """Whether the forms of rules name what is there."""
    sensible(set(rules) >= {"merged", "closed", "rooms", "budgets"})
    for members in rules["merged"]:
        nodes_of(members, None, size)
    for k, nodes in rules["closed"]:
        nodes_of([k], 1, size)
        nodes_of(nodes, None, places)
    for form in [*rules["rooms"], *rules["budgets"]]:
        nodes_of(form["key_groups"], None, size)
        amounts(form, "weights", len(form["key_groups"]))
    for room in rules["rooms"]:
        least, most, domain = room["least"], room["most"], room["domain"]
        sensible(all(type(x) is int and x >= 0 for x in [*least, *most]) and len(least) == len(most))
        sensible(len(domain) == places and all(type(d) is int and -1 <= d < len(most) for d in domain))
    for budget in rules["budgets"]:
        nodes_of(budget["into"], None, places)
        sensible(type(budget["most"]) is int and budget["most"] >= 0)


def keeps_forms(rules: Record, a: Any, now: Any, places: int) -> bool:
    """Whether an assignment keeps the four forms of rules."""
    if any(a[k] != a[members[0]] for members in rules["merged"] for k in members):
        return False
    if any(a[k] in nodes for k, nodes in rules["closed"]):
        return False
    for room in rules["rooms"]:
        for d, (least, most) in enumerate(zip(room["least"], room["most"], strict=True)):
            inside = {i for i in range(places) if room["domain"][i] == d}
            pairs = zip(room["key_groups"], room["weights"]["numbers"], strict=True)
            if not least <= sum(w for k, w in pairs if a[k] in inside) <= most:
                return False
    for budget in rules["budgets"]:
        pairs = zip(budget["key_groups"], budget["weights"]["numbers"], strict=True)
        if sum(w for k, w in pairs if a[k] != now[k] and a[k] in budget["into"]) > budget["most"]:
            return False
    return True


# The truth -----------------------------------------------------------------------------------------------------------


class Placed:
    """Allocation, collocation, MCLB, mixed routing and movement: a node for each key group."""

    def __init__(self, problem: str, given: Record) -> None:
        self.problem, self.given = problem, given
        self.state = amounts(given, "state")
        self.size, self.nodes, self.places = len(self.state), given["nodes"], given["places"]
        grows = problem in ("mixed-routing", "movement-within-limits")
        sensible(type(self.nodes) is int and self.places >= self.nodes > 0 and (grows or self.places == self.nodes))
        self.now = nodes_of(given["current"], self.size, self.nodes)
        self.home = self.now if given["home"] is None else nodes_of(given["home"], self.size, self.nodes)
        self.draining = set(nodes_of(given["draining"], None, self.nodes))
        sensible(len(self.draining) < self.nodes)
        self.rows = []
        for row in given["rows"]:
            unit = Fraction(row["load"]["unit"])
            ends = [None if row[name] is None else [unit * x for x in row[name]] for name in ("least", "most")]
            sensible(all(end is None or len(end) == self.places for end in ends))
            self.rows.append((amounts(row, "load", self.size), *ends))

        if given.get("rules"):
            sensible_forms(given["rules"], self.size, self.places)

    def assignments(self) -> Iterator[tuple[int, ...]]:
        if self.places**self.size > MOST:
            raise Undecided
        return itertools.product(range(self.places), repeat=self.size)

    def sums(self, load: list[Fraction], a: Any) -> list[Fraction]:
        total = [Fraction(0)] * self.places
        for x, i in zip(load, a, strict=True):
            total[i] += x
        return total

    def moved(self, a: Any) -> Fraction:
        return sum((s for s, i, q in zip(self.state, a, self.now, strict=True) if i != q), Fraction(0))

    def keeps(self, a: Any) -> bool:
        """Whether an assignment keeps every rule."""
        given, used = self.given, set(a)
        differ = [sum(i != q for i, q in zip(a, b, strict=True)) for b in (self.now, self.home)]
        if any(
            given[m] is not None and x > given[m] for x, m in zip(differ, ("max_moves", "max_entries"), strict=True)
        ):
            return False
        if given["max_state"] is not None and self.moved(a) > Fraction(given["max_state"]):
            return False
        if given["empty"] and used & self.draining:
            return False
        if given["closed"] and any(i != q and i in self.draining for i, q in zip(a, self.now, strict=True)):
            return False
        if given.get("rules") and not keeps_forms(given["rules"], a, self.now, self.places):
            return False
        wanted = given["in_use"]
        idle = all(not any(least or ()) for _, least, _ in self.rows)
        if wanted is not None and len(used) != wanted and not (len(used) < wanted and idle):
            return False
        held = range(self.places) if wanted is None else used
        for load, least, most in self.rows:
            total = self.sums(load, a)
            if any((least and total[i] < least[i]) or (most and total[i] > most[i]) for i in held):
                return False
        return True

    def value(self, a: Any) -> Fraction | None:
        """The objective; None for what breaks a rule."""
        a = nodes_of(a, self.size, self.places) if isinstance(a, list) else a
        if not self.keeps(a):
            return None
        if self.problem in ("key-group-allocation", "collocated-allocation"):
            distance, widest = self.distance(a), self.given["widest"]
            if widest is not None and distance > Fraction(widest):
                return None
            return distance if self.problem == "key-group-allocation" else self.traffic(a)
        return self.imbalance(a) if self.problem == "mclb" else self.moved(a)

    def distance(self, a: Any) -> Fraction:
        capacity, load = amounts(self.given, "capacity", self.nodes), self.rows[0][0]
        sensible(min(capacity) > 0)
        mean = sum(load) / sum(c for i, c in enumerate(capacity) if i not in self.draining)
        mean = Fraction(-(-mean // 1)) if self.given["mean_rounded_up"] else mean
        off = [x / c - mean for x, c in zip(self.sums(load, a), capacity, strict=True)]
        return max(0, *(x if i in self.draining else abs(x) for i, x in enumerate(off)))

    def traffic(self, a: Any) -> Fraction:
        traffic = amounts(self.given, "traffic", len(self.given["pairs"]))
        return sum((t for t, (k, l) in zip(traffic, self.given["pairs"], strict=True) if a[k] != a[l]), Fraction(0))

    def imbalance(self, a: Any) -> Fraction:
        left, total = self.nodes - len(self.draining), Fraction(0)
        for load, *_ in self.rows:
            mean = sum(load) / left
            own = self.sums(load, a)
            total += sum((own[i] - mean) ** 2 for i in range(self.nodes) if i not in self.draining) / left
        return total

    def best(self) -> Fraction | None:
        values = [value for a in self.assignments() if (value := self.value(a)) is not None]
        return min(values, default=None)


class Split:
    """Key splitting and placement: so many items of each group to each candidate."""

    def __init__(self, problem: str, given: Record) -> None:
        self.speeds, self.groups = amounts(given, "speeds"), given["groups"]
        self.weights = amounts(given, "weights", len(self.groups))
        sensible(self.speeds and min(self.speeds) > 0)
        for group in self.groups:
            at = nodes_of(group["candidates"], None, len(self.speeds))
            sensible(len(set(at)) == len(at) > 0 and group["count"] > 0)

    def value(self, a: Any) -> Fraction | None:
        load = [Fraction(0)] * len(self.speeds)
        if len(a) != len(self.groups):
            return None
        for group, weight, counts in zip(self.groups, self.weights, a, strict=True):
            if len(counts) != len(group["candidates"]) or sum(counts) != group["count"] or min(counts) < 0:
                return None
            for i, x in zip(group["candidates"], counts, strict=True):
                load[i] += weight * x
        return max(x / v for x, v in zip(load, self.speeds, strict=True))

    def best(self) -> Fraction | None:
        ways = [list(divided(group["count"], len(group["candidates"]))) for group in self.groups]
        if np.prod([float(len(w)) for w in ways]) > MOST:
            raise Undecided
        return min(value for a in itertools.product(*ways) if (value := self.value(a)) is not None)


def divided(count: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to divide a count into so many parts."""
    if count > MOST:
        raise Undecided
    for cuts in itertools.combinations(range(count + parts - 1), parts - 1):
        yield tuple(b - a - 1 for a, b in itertools.pairwise((-1, *cuts, count + parts - 1)))


class Intervals(Placed):
    """Steps, sequences and policies: a state is a mode and an assignment with nodes numbered from left to right."""

    def __init__(self, problem: str, given: Record) -> None:
        super().__init__(problem, given)
        limits = [given[name] for name in ("home", "max_moves", "max_entries", "max_state", "in_use")]
        sensible(
            limits == [None] * 5 and given["empty"] and [*self.rows[0][1:]] == [None, None] and len(self.rows) == 1
        )
        self.load, self.share, self.gamma = self.rows[0][0], 1 + Fraction(given["tau"]), Fraction(given["discount"])
        sensible(self.share >= 1 and self.gamma >= 0)
        self.modes = [(n, [(m, Fraction(c)) for m, c in row]) for n, row in given["modes"]]
        for n, row in self.modes:
            sensible(n > 0 and all(0 < m < len(self.modes) and c >= 0 for m, c in row))
            sensible(not row or sum(c for _, c in row) == 1)
        self.whole = all(m > at for at, (_, row) in enumerate(self.modes) for m, _ in row)
        sensible(self.whole or self.gamma < 1)
        sensible(contiguous(self.now))

    def partitions(self, n: int) -> list[tuple[int, ...]]:
        if 2 ** (self.size - 1) > 200:
            raise Undecided
        limit, found = self.share * sum(self.load) / n, []
        for k in range(min(n, self.size)):
            for inner in itertools.combinations(range(1, self.size), k):
                ends = (0, *inner, self.size)
                if all(sum(self.load[a:b]) <= limit for a, b in itertools.pairwise(ends)):
                    found.append(tuple(i for i, (a, b) in enumerate(itertools.pairwise(ends)) for _ in range(a, b)))
        return found

    def shift(self, before: Any, after: Any, lost: Any = ()) -> Fraction:
        """The least state that moves when new intervals choose their nodes: every way to give old nodes to them."""
        old = sorted({i for i in before if i not in lost})
        worth = [Counter() for _ in range(max(after) + 1)]
        for s, i, j in zip(self.state, before, after, strict=True):
            worth[j][i] += s
        chosen = itertools.permutations([*old, *(-1 for _ in worth)], len(worth))
        return sum(self.state) - max(sum(w[i] for w, i in zip(worth, a, strict=True) if i >= 0) for a in set(chosen))

    def best(self) -> Fraction | None:
        at = {(0, tuple(self.now)): 0}
        reached, waiting = {0}, [0]
        while waiting:
            more = {m for m, c in self.modes[waiting.pop()][1] if c} - reached
            reached, waiting = reached | more, [*waiting, *more]
        found = {m: self.partitions(self.modes[m][0]) for m in reached if m}
        if not all(found.values()):
            return None
        for m in found:
            for p in found[m]:
                at[m, p] = len(at)
        if sum(len(found.get(m, [0])) * sum(len(found[t]) for t, c in self.modes[m][1] if c) for m in reached) > 4000:
            raise Undecided
        shift = cache(lambda m, a, b: self.shift(a, b, self.draining if m == 0 else ()))
        return self._recursive(found, shift) if self.whole else self._iterated(found, at, shift)

    def _recursive(self, found: Any, shift: Any) -> Fraction:
        @cache
        def least(m: int, p: Any) -> Fraction:
            after = [(t, c) for t, c in self.modes[m][1] if c]
            ahead = (c * min(shift(m, p, b) + self.gamma * least(t, b) for b in found[t]) for t, c in after)
            return sum(ahead, Fraction(0))

        return least(0, tuple(self.now))

    def _iterated(self, found: Any, at: Any, shift: Any) -> Fraction:
        """Policy iteration in floats."""
        gamma, size, choice = float(self.gamma), len(at), {}
        values = np.zeros(size)
        for _ in range(100):
            chain, paid = np.eye(size), np.zeros(size)
            before = dict(choice)
            for (m, p), r in at.items():
                for t, c in self.modes[m][1]:
                    ways = {b: float(shift(m, p, b)) + gamma * values[at[t, b]] for b in (found[t] if c else [])}
                    if not ways:
                        continue
                    b = min(ways, key=ways.__getitem__)
                    old = choice.get((r, t))
                    if old is None or ways[b] < ways[old] * (1 - 1e-13):
                        choice[r, t] = b
                    chain[r, at[t, choice[r, t]]] -= gamma * float(c)
                    paid[r] += float(c) * float(shift(m, p, choice[r, t]))
            values = np.linalg.solve(chain, paid)
            if choice == before:
                break
        return Fraction(float(values[0]))

    def value(self, policy: Any) -> Fraction | None:
        """Of a policy by following its table."""
        table, states, known, links = policy["table"], [(0, tuple(self.now))], {}, []
        while len(links) < len(states):
            m, before = states[len(links)]
            first, row = not links, []
            if len(links) >= len(table) or len(table[len(links)]) != len(self.modes[m][1]):
                return None
            for (t, c), decided in zip(self.modes[m][1], table[len(links)], strict=True):
                n = self.modes[t][0]
                if not self._allowed(decided, n, first):
                    return None
                after = tuple(itertools.accumulate((x != y for x, y in itertools.pairwise(decided)), initial=0))
                if (t, after) not in known:
                    known[t, after] = len(states)
                    states.append((t, after))
                moved = sum((s for s, i, q in zip(self.state, decided, before, strict=True) if i != q), Fraction(0))
                row.append((c, known[t, after], moved))
            links.append(row)
        if self.whole:
            worth: dict[int, Fraction] = {}
            for r in reversed(range(len(links))):
                worth[r] = sum((c * (moved + self.gamma * worth[t]) for c, t, moved in links[r]), Fraction(0))
            return worth[0]
        chain, paid = np.eye(len(links)), np.zeros(len(links))
        for r, row in enumerate(links):
            for c, t, moved in row:
                chain[r, t] -= float(c * self.gamma)
                paid[r] += float(c * moved)
        return Fraction(float(np.linalg.solve(chain, paid)[0]))

    def _allowed(self, decided: Any, n: int, first: bool) -> bool:
        if len(decided) != self.size or not contiguous(decided) or len(set(decided)) > n:
            return False
        limit, load = self.share * sum(self.load) / n, Counter()
        for i, x in zip(decided, self.load, strict=True):
            load[i] += x
        return max(load.values()) <= limit and not (first and self.draining & set(decided))


def contiguous(assignment: Any) -> bool:
    return len(set(assignment)) == 1 + sum(a != b for a, b in itertools.pairwise(assignment))


TRUTHS: dict[str, Callable[[str, Record], Any]] = {
    "key-splitting": Split, "key-placement": Split, "mixed-routing": Placed, "movement-within-limits": Placed,
    "key-group-allocation": Placed, "collocated-allocation": Placed, "mclb": Placed,
    "interval-migration": Intervals, "migration-sequence": Intervals, "migration-policy": Intervals,
}  # fmt: skip
BROKEN = (Senseless, KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError)


@lru_cache(1000)
def least(problem: str, instance: str) -> Fraction | None:
    """The truth about an instance, given as JSON: most forgeries change what is said of one, and not the instance."""
    return TRUTHS[problem](problem, json.loads(instance)).best()


def is_false(record: Record) -> bool:
    """Whether what the record claims is false of the instance that it holds, or the instance says nothing."""
    try:
        truth = TRUTHS[record["problem"]](record["problem"], record["instance"])
        claim, exact = record["claim"], getattr(truth, "whole", True)
        if claim["value"] is not None:
            value, claimed = truth.value(record["assignment"]), Fraction(claim["value"])
            if value is None or (value != claimed if exact else value > claimed + CLOSE * (1 + value)):
                return True
        if claim["bound"] is not None and Fraction(claim["bound"]) <= 0 and not claim["infeasible"]:
            return Fraction(claim["bound"]) < 0
        best = least(record["problem"], json.dumps(record["instance"]))
        if claim["infeasible"]:
            return best is not None
        doubt = 0 if exact else CLOSE * (1 + (best or 0))
        return claim["bound"] is not None and best is not None and Fraction(claim["bound"]) > best + doubt
    except BROKEN:
        return True


# The forger ----------------------------------------------------------------------------------------------------------


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field, entry and number."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def forged(record: Record, rng: random.Random, path: tuple[Any, ...] | None = None) -> Record:
    """A copy with one to three changes - of that field first, if there is one -, and often a claim that fits them better."""
    made = copy.deepcopy(record)
    for turn in range(rng.choice([1, 1, 1, 2, 3])):
        fields = [p for p in places(made) if p[0] in ("instance", "claim", "proof", "assignment")]
        part = rng.choice(["instance", "claim", "proof", "assignment"])
        some = [p for p in fields if p[0] == part] or fields
        _change(made, path if path and not turn else rng.choice(some), rng)
    if rng.random() < 0.7:
        _claim(made, rng)
    return made


def _change(made: Record, path: tuple[Any, ...], rng: random.Random) -> None:
    parent = made
    for key in path[:-1]:
        parent = parent[key]
    old = parent[path[-1]]
    if isinstance(parent, list) and rng.random() < 0.3:
        at, other = path[-1], rng.randrange(len(parent))
        match rng.choice(["swap", "drop", "twice"]):
            case "swap":
                parent[at], parent[other] = parent[other], parent[at]
            case "drop":
                del parent[at]
            case "twice":
                parent.insert(other, copy.deepcopy(old))
    elif type(old) is bool:
        parent[path[-1]] = not old
    elif type(old) is int or (type(old) is str and set(old) <= set("-/0123456789")):
        near = [Fraction(old) + rng.choice([-2, -1, 1, 1, 2, 7]) for _ in range(4)]
        new = rng.choice(
            [*near, Fraction(old) * rng.choice([2, 3, Fraction(1, 2)]), -Fraction(old), Fraction(0), Fraction(10**6)]
        )
        parent[path[-1]] = int(new) if new.denominator == 1 else str(new)
    elif old is None:
        parent[path[-1]] = rng.choice([0, 1, 2, True, []])
    elif isinstance(old, list) and rng.random() < 0.7:
        parent[path[-1]] = rng.choice([[], None, old[::-1], old[:-1], [*old, *old[-1:]]])
    else:
        parent[path[-1]] = rng.choice([None, 0, [], {}, "x", True])


def _claim(made: Record, rng: random.Random) -> None:
    """Let the value be that of the changed assignment, and the bound as high: a suboptimal answer that is called optimal."""
    if rng.random() < 0.1:
        made["claim"] = {"value": None, "bound": None, "infeasible": True}
        return
    try:
        truth = TRUTHS[made["problem"]](made["problem"], made["instance"])
        value = truth.value(made["assignment"])
        if value is None:
            return
        if isinstance(made["assignment"], dict):
            value += 0 if truth.whole else 100 * CLOSE * (1 + value)  # above what floats are off by
            made["assignment"]["values"][0] = str(value)
        steps = [Fraction(0), Fraction(1), Fraction(1, 10**6), value / 10]
        bound = min(value, Fraction(made["claim"]["bound"] or 0) + rng.choice(steps)) if rng.random() < 0.5 else value
        made["claim"] = {"value": str(value), "bound": str(bound), "infeasible": False}
    except BROKEN:
        return
