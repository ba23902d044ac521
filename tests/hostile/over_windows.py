"""Problems over several windows: hostile ones, and the truth about them from the truths about their windows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar

from hostile import draw as d
from hostile import exact as e

SHARE = 0.25
"""Of the instances, so many are about several windows or scenarios."""
SAID = ("windows", "scenarios", "over", "level", "probabilities")


def draw(rng: random.Random, spec: dict[str, Any], *, rules: bool) -> dict[str, Any]:
    """Make an instance one over windows or scenarios, now and then; `rules`: its values are combined."""
    w, o = spec["workload"], spec["options"]
    rooms = o.get("resource_capacity") or {}
    if rng.random() >= SHARE or "mean" in o or "load" in rooms:
        return spec
    last = w["load"][-1] if isinstance(w["load"][0], list) else w["load"]
    k = rng.choice([1, 2, 2, 3])
    near = rng.random() < 0.7
    rows = [
        [x * rng.choice([1.0, 1.0, 0.5, 2.0, 0.0]) for x in last] if near else d.numbers(rng, len(last))
        for _ in range(k - 1)
    ]
    rows.append(list(last))
    if rng.random() < 0.4:
        o["scenarios"] = rows
    else:
        w["load"], o["windows"] = rows, k
        if "traffic" in w and rng.random() < 0.6:
            w["traffic"] = [[[t * rng.choice([1.0, 0.0, 3.0]) for t in row] for row in w["traffic"]] for _ in rows]
    if rules:
        o["over"] = rng.choice(["max", "mean", "cvar"])
        if o["over"] == "cvar":
            o["level"] = rng.choice([0.0, 0.5, 0.9, 1 / 3])
        if rng.random() < 0.5:
            parts = [rng.choice([0, 1, 1, 3]) for _ in rows[1:]] + [1]
            o["probabilities"] = [part / sum(parts) for part in parts]
    return spec


class Truth(e.Truth):
    """Every window keeps the rules; their values become one. A subclass says what is true of one window."""

    one: ClassVar[type[e.Truth]]
    usual: ClassVar[str] = "max"
    """The rule where none is named."""

    def __init__(self, spec: dict[str, Any]) -> None:
        o = spec["options"]
        specs = _windows(spec)
        shares = e.fractions(o.get("probabilities") or [1.0] * len(specs))
        self.shares = [q / sum(shares) for q in shares if q]
        self.parts = [self.one(part) for part, q in zip(specs, shares, strict=True) if q]
        self.over, self.level = o.get("over", self.usual), Fraction(o.get("level", 0.9))
        self.scale = self.combined([part.scale for part in self.parts])
        self.unit = max(part.unit for part in self.parts)

    def combined(self, values: list[Fraction]) -> Fraction:
        """The mean, the worst, or the mean of the worst share 1 - level."""
        if self.over == "max" or len(values) == 1:
            return max(values)
        room = 1 - self.level if self.over == "cvar" else Fraction(1)
        left, total = room, Fraction(0)
        for value, share in sorted(zip(values, self.shares, strict=True), reverse=True):
            total += value * min(share, left)
            left -= min(share, left)
        return total / room

    def candidates(self) -> Iterator[e.Assignment]:
        return self.parts[-1].candidates()

    def broken(self, a: e.Assignment, slack: Fraction) -> str | None:
        return next((broken for part in self.parts if (broken := part.broken(a, slack))), None)

    def value(self, a: e.Assignment) -> Fraction:
        return self.combined([part.value(a) for part in self.parts])


def _windows(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The instance about each of its windows."""
    w, o = spec["workload"], spec["options"]
    own = {name: value for name, value in o.items() if name not in SAID}
    rows = o.get("scenarios") or (w["load"] if isinstance(w["load"][0], list) else [w["load"]])[-o.get("windows", 1) :]
    traffic = w.get("traffic")
    each = traffic if traffic and isinstance(traffic[0][0], list) else [traffic] * len(rows)
    return [
        {
            **spec,
            "workload": {**w, "load": row, **({} if own_traffic is None else {"traffic": own_traffic})},
            "options": own,
        }
        for row, own_traffic in zip(rows, each[-len(rows) :], strict=True)
    ]
