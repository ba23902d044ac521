"""Instances that drain, with priorities: what comes first is the load that stays on draining nodes, and then another measure."""

from __future__ import annotations

import copy
import random
from fractions import Fraction
from typing import Any

from hostile import exact as e

DRAIN = ("key-group-allocation",)
LATER = ("load_distance", "migrations", "state_moved")


def added(spec: dict[str, Any], seed: int, index: int) -> dict[str, Any]:
    """The instance, half of those that drain with priorities; drawn by a generator of its own."""
    rng = random.Random(f"{seed}/{spec['problem']}/{index}/drains")
    plain = spec["problem"] in DRAIN and not {"windows", "scenarios"} & set(spec["options"])
    if not plain or not any(spec["workload"].get("draining") or []) or rng.random() < 0.5:
        return spec
    made = copy.deepcopy(spec)
    made["options"]["priorities"] = ["draining_load", rng.choice(LATER)]
    return made


def known(truth: e.Truth, spec: dict[str, Any]) -> e.Truth:
    """The truth about the first priority."""
    if not spec["options"].get("priorities"):
        return truth
    w = spec["workload"]
    load, draining = e.last_load(w), w["draining"]
    truth.second = truth.value  # type: ignore[attr-defined]
    truth.value = lambda a: sum((y for y, i in zip(load, a, strict=True) if draining[i]), Fraction(0))  # type: ignore[method-assign]
    truth.scale = truth.unit = sum(load) or Fraction(1)
    return truth


def second(truth: e.Truth, spec: dict[str, Any], solution: Any) -> list[tuple[str, str]]:
    """What is wrong with the second priority of an answer that calls itself optimal."""
    if not spec["options"].get("priorities") or solution.status != "optimal" or truth.best is None:
        return []
    measure, w = spec["options"]["priorities"][1], spec["workload"]
    state, current = e.fractions(w["state"]), w["current"]
    count = [Fraction(1)] * len(current)
    value = {
        "migrations": lambda a: e.moved(a, current, count), "state_moved": lambda a: e.moved(a, current, state),
    }.get(measure)  # fmt: skip
    value = value or truth.second  # type: ignore[attr-defined]
    able = (a for a in truth.candidates() if truth.value(a) <= truth.best and truth.broken(a, Fraction(0)) is None)
    least = min(map(value, able), default=None)
    found = value(truth.read(solution.assignment))
    size = max(truth.unit, sum(state), sum(e.last_load(w)) / min(e.capacities(w)), Fraction(1))
    if least is not None and found > least + size * Fraction(1, 10**6) * (1 + Fraction(1, 10**9)):
        return [
            ("wrong optimum", f"{measure} is {float(found)!r}, {float(least)!r} is possible at the same first priority")
        ]
    return []
