"""Small files that would fill the memory, or never end, if sizes were believed: certificates of less than a million bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

DIGITS = "9" * 999
Record = dict[str, Any]


def certificate(problem: str, instance: Record, proof: Any, assignment: Any = None, **claim: Any) -> str:
    """The text of a certificate; by default it claims that nothing is feasible."""
    stated = {"value": None, "bound": None, "infeasible": not claim} | claim
    record = {"format": "keyshift-certificate", "version": 1, "problem": problem, "claim": stated, "proof": proof}
    return json.dumps({**record, "assignment": assignment, "instance": instance}, separators=(",", ":"))


def placed(size: int, nodes: int, *, rows: int = 1, unit: Any = 1, **more: Any) -> Record:
    """Key groups of load 1 and state 1 on node 0, and so many rows of loads."""
    ones = {"unit": unit, "numbers": [1] * size}
    row = {"load": ones, "least": None, "most": None}
    return {
        "nodes": nodes, "places": nodes, "state": ones, "current": [0] * size, "empty": True, "closed": True, "draining": [],
        "max_state": None, "max_moves": None, "max_entries": None, "in_use": None, "home": None, "rows": [row] * rows, **more,
    }  # fmt: skip


def allocated(size: int, nodes: int, **more: Any) -> Record:
    capacity = {"unit": 1, "numbers": [1] * nodes}
    return placed(size, nodes, capacity=capacity, mean_rounded_up=False, widest=None, **more)


def bombs() -> Iterator[tuple[str, str]]:
    """A name and the text of a file."""
    million = 10**7
    split, leaf = {"split": [0, 0, 0]}, {"prices": [0]}
    divided = {
        "speeds": {"unit": 1, "numbers": [1]}, "weights": {"unit": 1, "numbers": [1]},
        "groups": [{"candidates": [0], "count": 1}],
    }  # fmt: skip
    tower = [{"split": [k, 0, 0]} for k in range(30_000)]
    yield "places of MCLB", certificate("mclb", placed(8, 8, rows=8, places=million), {"kind": "all"}, bound=1)
    yield (
        "nodes of MCLB",
        certificate("mclb", placed(8, million, rows=8), {"kind": "windows"}, [0] * 8, value=7, bound=1),
    )
    yield (
        "nodes of movement",
        certificate("movement-within-limits", placed(8, million, in_use=million), {"kind": "all"}),
    )
    no_rows = placed(2, million, rows=0, in_use=million)
    yield "no rows of movement", certificate("movement-within-limits", no_rows, {"kind": "tree", "tree": [leaf]})
    yield (
        "nodes of steps",
        certificate("interval-migration", intervals(50, [[million, [[1, 1]]], [million, []]]), {"kind": "filled"}),
    )
    yield "a tower of splits", certificate("key-splitting", divided, {"kind": "tree", "tree": tower}, bound=1)
    stairs = [node for k in range(1_500) for node in ({"split": [k, 0, 0]}, {"prices": [1]})]
    yield "stairs of splits", certificate("key-splitting", divided, {"kind": "tree", "tree": stairs}, bound=1)
    moves = {"kind": "moves", "one": 1, "steps": 1, "slopes": [int(DIGITS)] * 20, "tree": [{"prices": [0] * 20_000}]}
    yield "moves of allocation", certificate("key-group-allocation", allocated(20_000, 2), moves, bound=1)
    forest = {"kind": "forest", "scale": 1, "forest": [], "tree": [{"per_move": 0, "prices": [0] * 30_000}]}
    talk = {"traffic": {"unit": 1, "numbers": [1]}, "pairs": [[0, 1]]}
    yield (
        "collocation of many",
        certificate("collocated-allocation", allocated(30_000, 30_000, **talk), forest, bound=1),
    )
    expensive = {**forest, "scale": int(DIGITS), "tree": [{"per_move": 0, "prices": [int(DIGITS)] * 700}]}
    yield (
        "expensive collocation",
        certificate("collocated-allocation", allocated(1_400, 700, **talk), expensive, bound=1),
    )
    factor = {"kind": "semidefinite", "unit": "1/" + DIGITS, "anchors": [], "triangles": [], "price": 0}
    empty = {**factor, "factor": [[]] * 60_000}
    yield "a matrix of nothing", certificate("mclb", placed(60_000, 2), empty, bound=1)
    full = {**factor, "factor": [[1]] * 250}
    yield "a matrix of long numbers", certificate("mclb", placed(250, 2, unit=f"1/{DIGITS}"), full, bound=1)
    chain = [[k % 7 + 1, [[k + 1, 1]]] for k in range(3_000)]
    yield (
        "partitions",
        certificate("migration-sequence", intervals(60, [*chain, [60, []]]), {"kind": "values", "values": []}, bound=1),
    )
    flat = intervals(100_000, [[100_000, [[1, 1]]], [100_000, []]])
    yield "long partitions", certificate("interval-migration", flat, {"kind": "values", "values": []}, bound=1)
    modes = [[1, [[k + 1, 1]]] for k in range(12_000)]
    yield "a long chain", certificate("migration-sequence", intervals(2, [*modes, [1, []]]), {"kind": "filled"})
    small = [[2, [[1, 1]]], [2, [[1, 1]]]]
    values = {"kind": "values", "values": [[1], [1] * 200_000]}
    long = intervals(22, small, discount=f"1/{DIGITS}")
    yield "a long discount", certificate("migration-policy", long, values, bound=1)
    yield "all assignments", certificate("key-group-allocation", allocated(60_000, 60_000), {"kind": "all"}, bound=1)
    yield (
        "capacities",
        certificate("key-group-allocation", allocated(2, 300_000, unit=f"1/{DIGITS}"), {"kind": "all"}, bound=1),
    )
    yield "nested lists", "[" * 900_000
    yield "nested objects", '{"a":' * 150_000
    yield "empty lists", "[" + ",".join(["[]"] * 300_000) + "]"
    yield "empty objects", "[" + ",".join(["{}"] * 300_000) + "]"
    yield "a long number", "9" * 900_000
    yield "a long exponent", '{"format": 1e99999999}'
    yield "a long fraction", certificate("key-splitting", divided, None, bound="1/" + "9" * 900_000)
    yield (
        "a split of everything",
        certificate("key-splitting", divided, {"kind": "tree", "tree": [split] * 40_000}, bound=1),
    )


def intervals(size: int, modes: list[Any], discount: Any = 1) -> Record:
    return placed(size, 2, tau=10**6, modes=modes, discount=discount)


NONSENSE = (
    '{"format": "keyshift-certificate", "format": "keyshift-certificate"}', '{"format": NaN}', '{"format": Infinity}',
    '{"format": -1e400}', '{"version": true}', "{1: 2}", '{"a": 1,}', "\ufeff{}", '"\\ud800"', "null", "-0", "\x1b[31m",
)  # fmt: skip
"""What is no certificate."""
