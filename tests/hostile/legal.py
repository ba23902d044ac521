"""What may stand in the fields of files, said a second time, value by value: it shares no code with the library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

P, N, M = 6, 3, 2
"""Key groups, nodes and windows of the files that are changed."""


def number(v: Any) -> bool:
    return type(v) in (int, float) and math.isfinite(v) and v >= 0


def whole(below: float = 2**53, least: int = 0) -> Callable[[Any], bool]:
    return lambda v: type(v) in (int, float) and math.isfinite(v) and v == int(v) and least <= v < below


def only(*values: Any) -> Callable[[Any], bool]:
    return lambda v: any(v == w and type(v) is type(w) for w in values)


def anything(v: Any) -> bool:
    return True


def never(v: Any) -> bool:
    return False


LEGAL = {
    "workload": {
        "version": whole(3, 1), "load.*.*": number, "state.*": number, "current.*": whole(N),
        "nodes.*": lambda v: number(v) and v > 0, "nodes": whole(10_000_001, 3), "draining.*": lambda v: type(v) is bool,
        "draining": only(None), "traffic": lambda v: v is None or v == [], "traffic.*.0": whole(P), "traffic.*.1": whole(P),
        "traffic.*.2": number, "operator.*": whole(2**53 + 1), "operator": only(None), "home.*": whole(N), "home": only(None),
        "resources": lambda v: v is None or v == {}, "resources.memory.*": number, "keys": only(None),
        "keys.*": lambda v: type(v) is str or (type(v) is int),
    },
    "assignment": {"*": whole(N), "assignment.*": whole(N)},
    "replay": {"version": whole(3, 1)},
    "period": {"version": whole(3, 1)},
    "front": {"version": whole(3, 1), "about.seed": only(None), "about.keyshift_pareto": lambda v: v is None or type(v) is int},
    "table": {
        "version": whole(3, 1), "entries": only([]), "entries.*.node": whole(2**53), "entries.*.key": whole(2**53),
        "entries.*.label": lambda v: v is None or type(v) in (str, int),
    },
    "statistics": {
        "key_groups": whole(2**20 + 1, 3), "runs.ab12.refused": only([]),
        "length": anything, "origin": anything, "rejected": anything, "hash": lambda v: type(v) is str,
        "nodes": lambda v: v is None or (whole(10_000_001, 1)(v) and type(v) is int), "placement": only(None),
        "topology.operators.*.windows": lambda v: type(v) is int and 1 <= v < 2**53, "topology.operators.*.name": lambda v: type(v) is str,
        "topology.edges": only([]), "topology.operators.*.key": anything, "topology.operators.*.cost": anything,
    },
}  # fmt: skip
"""What may stand in a field besides what is there; every other change has to be refused."""

LEGAL["manifest"] = {
    "windows": whole(2**24 // P, M), "version": whole(3, 1), "tables.load.sums": lambda v: v is None or v == {}, "tables.key_groups.sums": lambda v: v is None or v == {},
    "tables.nodes.sums": lambda v: v is None or v == {}, "tables.traffic.sums": lambda v: v is None or v == {},
    **{f"tables.{t}.columns": lambda v: v is None or v == [] for t in ("load", "traffic", "key_groups", "nodes")},
    **{f"tables.{t}.rows": only(None) for t in ("load", "traffic", "key_groups", "nodes")}, "tables": only(None),
}  # fmt: skip
MAY_GO = {
    ("workload", n)
    for n in ("draining", "traffic", "operator", "home", "resources", "keys", "resources.memory", "traffic.*", "load.*")
}
MAY_GO |= {("replay", n) for n in ("forecast", "regret", "patience", "resource")}
MAY_GO |= {("front", "about.seed"), ("table", "entries.*"), ("table", "entries.*.label")}
MAY_GO |= {
    ("statistics", n)
    for n in (
        "nodes",
        "placement",
        "rejected",
        "topology.operators.*.windows",
        "topology.edges.*",
        "topology.operators.*.key",
        "topology.operators.*.cost",
        "topology.edges.*",
        "runs.ab12.windows.*",
        "runs.ab12.refused",
    )
}
MAY_GO |= {
    ("manifest", f"tables.{t}.{x}")
    for t in ("load", "traffic", "key_groups", "nodes")
    for x in ("rows", "sums", "columns", "columns.*")
}
MAY_GO |= {("manifest", "tables"), ("manifest", "tables.traffic")}
MAY_GO |= {
    ("manifest", f"tables.{t}.sums.{c}")
    for t, c in (
        ("load", "load"),
        ("traffic", "tuples"),
        ("nodes", "capacity"),
        ("key_groups", "state"),
        ("key_groups", "resource.memory"),
    )
}
"""Fields, and entries of lists, that may be left out."""
