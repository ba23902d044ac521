"""Exact numbers for `Problem.record`: whole multiples of a unit, fractions as text, and what all placements share."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.models.base.integers import whole_numbers
from keyshift.models.workload import FloatArray, Workload

Record = dict[str, Any]
ALLOWED = Fraction(1, 10**9)
"""The share by which the checks let a sum of floats exceed a limit: part of a record, so that both sides of a
claim mean the same assignments."""


def text(value: Fraction | float | int) -> int | str:
    """An exact number for JSON: a whole one as it is, a fraction as text."""
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else str(exact)


def amounts(values: Any) -> Record:
    """Numbers >= 0 as whole multiples of a power of two."""
    whole, shift = whole_numbers(np.asarray(values, dtype=np.float64))
    return {"unit": text(Fraction(1, 2**shift)), "numbers": [int(v) for v in whole]}


def row(load: Record, limits: list[tuple[int, int]] | None = None) -> Record:
    """Loads, and the least and the most of them on each node, in whole units of load."""
    least, most = (None, None) if limits is None else map(list, zip(*limits, strict=True))
    return {"load": load, "least": least, "most": most}


def windows_of(load: FloatArray) -> list[Record]:
    """Windows of loads, shape (windows, p), all in one unit."""
    flat, p = amounts(load.reshape(-1)), load.shape[1]
    return [{"unit": flat["unit"], "numbers": flat["numbers"][t * p : (t + 1) * p]} for t in range(len(load))]


def placed(workload: Workload, rows: list[Record], *, state: float | None = None, **rules: Any) -> Record:
    """Key groups on nodes: at most so much state moves, draining nodes must be empty, unless the rules say otherwise.

    Parameters
    ----------
    workload : Workload
    rows : list of dict
        As `row` makes them.
    state : float, optional
        The most that moves, before rounding.
    **rules
        `empty` and `closed`: draining nodes keep nothing, take nothing; `home`, `max_moves`, `max_entries`, `in_use`,
        `places`.
    """
    w = workload
    most = None if state is None else text(Fraction(state) * (1 + ALLOWED))
    usual = {"home": None, "max_moves": None, "max_entries": None, "in_use": None, "places": w.nodes}
    return {
        "nodes": w.nodes, "state": amounts(w.state), "current": w.current.tolist(), "empty": True, "closed": True,
        "draining": np.flatnonzero(w.draining).tolist(), "max_state": most, "rows": rows, **usual, **rules,
    }  # fmt: skip
