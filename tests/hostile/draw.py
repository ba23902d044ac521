"""What hostile instances are made of: values at every scale, ties, zeros, limits met exactly, odd nodes, odd keys."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

FLAVOURS = (
    "ties", "zeros", "digits", "one-decimal", "bytes", "gibibytes", "tiny", "huge", "mixed", "two scales", "thirds",
    "near ties", "uniform",
)  # fmt: skip
LABELS = ("日本", "żółw", "", " ", "k\n2", "😀", "a\tb", "NaN", "-1", "null", "É", "é")


def number(rng: random.Random, flavour: str, base: float) -> float:
    """One value >= 0 of a flavour; `base` is what the values of one instance share."""
    match flavour:
        case "ties":
            return base
        case "zeros":
            return rng.choice([0.0, 0.0, base])
        case "digits":
            return float(rng.randint(0, 9))
        case "one-decimal":
            return rng.randint(0, 30) / 10
        case "bytes":
            return float(rng.randint(1, 9) * rng.choice([10**8, 10**9, 10**10, 123456789]))
        case "gibibytes":
            return float(rng.randint(0, 64) * 2**30 + rng.choice([0, 0, 1, 4096]))
        case "tiny":
            return rng.randint(0, 9) * 1e-9
        case "huge":
            return rng.randint(1, 99) * 1e10
        case "mixed":
            return 10 ** rng.uniform(-9, 12)
        case "two scales":
            return rng.choice([1e-9, 2e-9, 1e-6, 1e-4, 1.0, 3.0, 1e6, 1e9, 1e12])
        case "thirds":
            return rng.randint(0, 9) / rng.choice([3, 7])
        case "near ties":
            return base * (1 + rng.choice([0, 1e-15, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5]))
    return rng.random() * base


def numbers(rng: random.Random, size: int, flavours: Sequence[str] = FLAVOURS) -> list[float]:
    """So many values >= 0 of one flavour; now and then of two, or all zero."""
    if rng.random() < 0.02:
        return [0.0] * size
    base = rng.choice([1.0, 1.0, 3.0, 0.1, 7.0, 1e-9, 1e-6, 1e6, 3e9, 1e12])
    first, second = rng.choice(flavours), rng.choice(flavours)
    share = rng.choice([0.0, 0.0, 0.0, 0.3])
    return [number(rng, second if rng.random() < share else first, base) for _ in range(size)]


def nodes(rng: random.Random, most: int = 3) -> int | list[float]:
    """A number of nodes, or their capacities: ratios up to 1e6."""
    n = rng.choice([1, 2, 2, 2, 3, 3, most])
    kind = rng.random()
    if kind < 0.6:
        return n
    if kind < 0.7:
        return [rng.choice([1.0, 2.0, 0.5, 1e-3, 1e3, 1e9])] * n
    if kind < 0.85:
        return [rng.choice([1.0, 2.0, 1.1, 0.7, 3.0]) for _ in range(n)]
    return [rng.choice([1e-3, 1e3, 1.0, 1e-3, 10 ** rng.uniform(-3, 3)]) for _ in range(n)]


def draining(rng: random.Random, n: int) -> list[bool] | None:
    """None, some, or all nodes but one."""
    kind = rng.random()
    if kind < 0.6 or n == 1:
        return None
    keep = rng.randrange(n)
    return [i != keep and (kind > 0.85 or rng.random() < 0.4) for i in range(n)]


def size(rng: random.Random, most: int = 6) -> int:
    """Number of key groups: often fewer than nodes."""
    return rng.choice([1, 2, 3, 3, 4, 4, 5, most])


def workload(rng: random.Random, *, equal: bool = False, most: int = 6, windows: bool = False) -> dict[str, Any]:
    """The arguments of a workload, as plain lists."""
    p = size(rng, most)
    given = nodes(rng, 4 if p <= 4 else 3)
    if equal and isinstance(given, list):
        given = len(given)
    n = given if isinstance(given, int) else len(given)
    m = rng.choice([1, 1, 2, 3]) if windows else 1
    load: Any = [numbers(rng, p) for _ in range(m)]
    made = {
        "load": load if m > 1 or rng.random() < 0.3 else load[0],
        "state": numbers(rng, p),
        "current": [rng.randrange(n) for _ in range(p)],
        "nodes": given,
        "draining": draining(rng, n),
    }
    if rng.random() < 0.1:
        made["keys"] = rng.sample(LABELS, p) if p <= len(LABELS) and rng.random() < 0.5 else [-k for k in range(p)]
    return made


def near(rng: random.Random, value: float) -> float:
    """A limit met exactly, or missed by a hair on either side, or by half, or by orders of magnitude."""
    return abs(value) * rng.choice([1, 1, 1, 1, 1 + 1e-12, 1 - 1e-12, 1 - 1e-10, 1 + 1e-6, 1 - 1e-6, 0.5, 2, 1e-6, 1e6])


def budget(rng: random.Random, values: Sequence[float], current: Sequence[int], n: int) -> float | None:
    """A budget of what may move: none, 0, as good as infinite, or what some assignment moves."""
    kind = rng.random()
    if kind < 0.25:
        return None
    if kind < 0.35:
        return 0.0
    if kind < 0.42:
        return rng.choice([1e9, 1e15, 1e30])
    moves = [v for v, q in zip(values, current, strict=True) if rng.randrange(max(n, 2)) != q]
    return near(rng, sum(moves))
