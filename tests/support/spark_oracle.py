"""The statistics again, in plain pandas and Python integers: no Spark, no code of `keyshift.spark_stats`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

QUANTUM = 2**44
MASK = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def _rotl(x: int, r: int) -> int:
    return ((x << r) | (x >> (64 - r))) & MASK


def _round(acc: int, lane: int) -> int:
    return _rotl((acc + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """XXH64 as its specification writes it."""
    at, n = 0, len(data)
    if n >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed & MASK, (seed - P1) & MASK]
        while n - at >= 32:
            for i in range(4):
                lanes[i] = _round(lanes[i], int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little"))
            at += 32
        acc = sum(_rotl(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            acc = ((acc ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        acc = (seed + P5) & MASK
    acc = (acc + n) & MASK
    while n - at >= 8:
        acc = (_rotl(acc ^ _round(0, int.from_bytes(data[at : at + 8], "little")), 27) * P1 + P4) & MASK
        at += 8
    if n - at >= 4:
        acc = (_rotl(acc ^ (int.from_bytes(data[at : at + 4], "little") * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        acc = _rotl(acc ^ (byte * P5 & MASK), 11) * P1 & MASK
    acc = (acc ^ (acc >> 33)) * P2 & MASK
    acc = (acc ^ (acc >> 29)) * P3 & MASK
    return acc ^ (acc >> 32)


def spark_key_group(key: Any, count: int) -> int:
    """pmod(xxhash64(key), count) with Spark's seed: text by its UTF-8 bytes, a bigint by its eight bytes."""
    data = key.encode() if isinstance(key, str) else int(key).to_bytes(8, "little", signed=True)
    hashed = xxh64(data, 42)
    return (hashed - 2**64 if hashed >= 2**63 else hashed) % count


@dataclass
class OracleOperator:
    """An operator whose expressions are Python functions of a row (a dict)."""

    name: str
    key: Callable[[dict], Any]
    filter: Callable[[dict], bool | None] = lambda row: True
    cost: Callable[[dict], float | None] = lambda row: 1
    state: Callable[[dict], float | None] = lambda row: 1
    windows: int = 1


def _amount(value: float | None, kind: str) -> tuple[int, str | None]:
    """A number in whole quanta, or the reason for which it is refused."""
    if value is None:
        return 0, f"null {kind}"
    if math.isnan(value) or abs(value) > 2.0**43:
        return 0, f"{kind} infinite or above {2**43}"
    if value < 0:
        return 0, f"negative {kind}"
    return round(value * QUANTUM) if isinstance(value, float) else value * QUANTUM, None


@dataclass
class Expected:
    load: pd.DataFrame
    state: pd.DataFrame
    traffic: pd.DataFrame
    rejected: dict[str, int]
    arrivals: dict[int, int]


def recompute(rows: list[dict], operators: list[OracleOperator], edges, window_of, group_of) -> Expected:
    """Walk through the rows one by one. `window_of(row)` may be None: no time."""
    tuples, cost, state, traffic = Counter(), Counter(), Counter(), Counter()
    rejected, arrivals = Counter(), Counter()
    for row in rows:
        window = window_of(row)
        if window is None:
            rejected["no time"] += 1
            continue
        arrivals[window] += 1
        passed, kinds = {}, set()
        for o, operator in enumerate(operators):
            if not operator.filter(row):
                continue
            key = operator.key(row)
            if key is None:
                kinds.add("null key")
                continue
            (c, wrong), (s, wrong_too) = _amount(operator.cost(row), "cost"), _amount(operator.state(row), "state")
            if wrong or wrong_too:
                kinds.add(wrong or wrong_too)
                continue
            passed[operator.name] = group = group_of(key)
            tuples[o, group, window] += 1
            cost[o, group, window] += c
            state[o, group, window] += s
        rejected.update(kinds)
        for source, destination in edges:
            if source in passed and destination in passed:
                traffic[window, source, passed[source], destination, passed[destination]] += 1
    last, held = max(arrivals, default=0), Counter()
    for (o, group, window), s in state.items():
        for later in range(window, min(window + operators[o].windows - 1, last) + 1):
            held[o, group, later] += s
    names = [operator.name for operator in operators]
    return Expected(
        load=_frame(
            [(names[o], g, w, n, cost[o, g, w] / QUANTUM) for (o, g, w), n in tuples.items()],
            ["operator", "key_group", "window", "tuples", "load"],
        ),
        state=_frame(
            [(names[o], g, w, s / QUANTUM) for (o, g, w), s in held.items() if s > 0],
            ["operator", "key_group", "window", "state"],
        ),
        traffic=_frame(
            [(*key, n) for key, n in traffic.items()],
            ["window", "src_operator", "src_key_group", "dst_operator", "dst_key_group", "tuples"],
        ),
        rejected=dict(rejected),
        arrivals=dict(arrivals),
    )


def _frame(rows: list[tuple], columns: list[str]) -> pd.DataFrame:
    keys = [c for c in columns if c not in ("tuples", "load", "state")]
    return pd.DataFrame(rows, columns=columns).sort_values(keys, ignore_index=True)
