"""Key splitting: hostile streams, and the least largest load by trying every worker for every message."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keyshift as ks
from hostile import draw as d
from hostile import exact as e

NAME = "key-splitting"
PLACEMENT = "key-placement"
_ESTIMATE: dict[str, list[Any]] = {"estimate": ["global"], "probe_every": [1, 3]}
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "flow": {"threads": [2]},
    "milp": {"threads": [2]},
    "pkg": _ESTIMATE,
    "greedy-d": {"d": [1, 3], **_ESTIMATE},
    "d-choices": {"threshold": [0.1, 0.9], "slack": [0.0, 1.0], "counters": [1, 5], **_ESTIMATE},
    "w-choices": {"threshold": [0.1, 0.9], "counters": [1, 5], **_ESTIMATE},
    "potc": _ESTIMATE,
    "on-greedy": _ESTIMATE,
}
PARTIAL: set[str] = set()


def draw(rng: random.Random) -> dict[str, Any]:
    """One stream of a few messages, as plain data."""
    m = rng.choice([1, 2, 3, 4, 4, 5, 6])
    different = rng.randint(1, 4)
    keys: list[Any]
    if rng.random() < 0.3:
        keys = rng.sample(d.LABELS, different)
    elif rng.random() < 0.5:
        keys = [rng.randint(-(2**63), 2**63 - 1) for _ in range(different)]
    else:
        keys = [rng.choice([-1, 0, 1, 2**63 - 1, -(2**63), -7, 5]) for _ in range(different)]
    w = rng.choice([1, 2, 2, 3, 3, 4])
    speeds = rng.random()
    o: dict[str, Any] = {
        "stream": [rng.choice(keys) for _ in range(m)],
        "workers": w if speeds < 0.5 else [_speed(rng, speeds > 0.75) for _ in range(w)],
        "choices": rng.choice([2, 2, 2, 1, 3, None]),
        "hash_seed": rng.choice([0, 1, 8, 41, rng.randrange(2**31)]),
    }
    if rng.random() < 0.75:
        o["weights"] = d.numbers(rng, m)
    if rng.random() < 0.3:
        o |= {"sources": rng.randint(1, 3), "feed": rng.choice(["shuffle", "key"])}
    if rng.random() < 0.1:
        o["aggregation_period"] = rng.randint(1, 3)
    return {"problem": NAME, "options": o}


def _speed(rng: random.Random, wide: bool) -> float:
    return 10 ** rng.uniform(-3, 3) if wide and rng.random() < 0.7 else rng.choice([1.0, 2.0, 3.0, 0.1, 1e6])


def build(spec: dict[str, Any]) -> ks.Problem:
    """The library's problem."""
    kind = ks.KeyPlacement if spec["problem"] == PLACEMENT else ks.KeySplitting
    return kind(**spec["options"])


class Truth(e.Truth):
    """(1)-(3), for placement (4), and L."""

    def __init__(self, spec: dict[str, Any]) -> None:
        o = spec["options"]
        self.keys = o["stream"]
        workers = o["workers"]
        self.n = workers if isinstance(workers, int) else len(workers)
        self.speed = [Fraction(1)] * self.n if isinstance(workers, int) else e.fractions(workers)
        self.weight = e.fractions(o.get("weights") or [1.0] * len(self.keys))
        self.together = spec["problem"] == PLACEMENT
        self.open_to = {k: self._candidates(k, o["choices"], o["hash_seed"]) for k in set(self.keys)}
        self.scale = sum(self.weight) / sum(self.speed) or Fraction(1)
        self.unit = self.scale
        self.counts = o.get("weights") is None and all(v == 1 for v in self.speed)
        if self.counts:
            self.scale = min(self.scale, Fraction(10**6, 2))  # a tolerance of less than a message

    def _candidates(self, key: int | str, choices: int | None, seed: int) -> list[int]:
        if choices is None:
            return list(range(self.n))
        if isinstance(key, str):
            key = murmur(key.encode(), 0)[0]
        data = (key & MASK).to_bytes(8, "little")
        halves = [murmur(data, seed + j // 2)[j % 2] for j in range(choices)]
        return sorted({(half >> 32) * self.n >> 32 for half in halves})

    def candidates(self) -> Iterator[e.Assignment]:
        if not self.together:
            yield from e.everywhere([self.open_to[k] for k in self.keys])
            return
        different = list(dict.fromkeys(self.keys))
        for choice in e.everywhere([self.open_to[k] for k in different]):
            place = dict(zip(different, choice, strict=True))
            yield tuple(place[k] for k in self.keys)

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        if any(i not in self.open_to[k] for i, k in zip(a, self.keys, strict=True)):
            return "candidates"
        if self.together and len(set(zip(self.keys, a, strict=True))) > len(self.open_to):
            return "one_place"
        return None

    def value(self, a: e.Assignment) -> Fraction:
        return max(x / v for x, v in zip(e.sums(a, self.weight, self.n), self.speed, strict=True))


MASK = 2**64 - 1
C1, C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def murmur(data: bytes, seed: int) -> tuple[int, int]:
    """Both halves of MurmurHash3_x64_128, after Appleby's reference in C++."""

    def rotate(x: int, r: int) -> int:
        return (x << r | x >> (64 - r)) & MASK

    def finish(k: int) -> int:
        k = (k ^ k >> 33) * 0xFF51AFD7ED558CCD & MASK
        k = (k ^ k >> 33) * 0xC4CEB9FE1A85EC53 & MASK
        return k ^ k >> 33

    def first(k: int) -> int:
        return rotate(k * C1 & MASK, 31) * C2 & MASK

    def second(k: int) -> int:
        return rotate(k * C2 & MASK, 33) * C1 & MASK

    h1 = h2 = seed
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        k1, k2 = (int.from_bytes(data[at + b : at + b + 8], "little") for b in (0, 8))
        h1 = (rotate(h1 ^ first(k1), 27) + h2) * 5 + 0x52DCE729 & MASK
        h2 = (rotate(h2 ^ second(k2), 31) + h1) * 5 + 0x38495AB5 & MASK
    h1 ^= first(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= second(int.from_bytes(data[whole + 8 :], "little"))
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & MASK
    h2 = (h2 + h1) & MASK
    h1, h2 = finish(h1), finish(h2)
    h1 = (h1 + h2) & MASK
    return h1, (h2 + h1) & MASK
