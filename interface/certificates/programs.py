"""Formulations whose proofs are prices and branches, as linear programs: rows that prices belong to, a column for each choice."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np
import scipy.sparse as sp

from keyshift.certificates import verify
from keyshift.models.workload import BoolArray, FloatArray, IntArray

Columns = tuple[IntArray, IntArray, sp.csr_array]


@dataclass
class ChoiceProgram:
    """So many of every group go to each place; every row has a right side that what is chosen must not exceed.

    Attributes
    ----------
    case : verify.SplittingCase, verify.RoutingCase or verify.MovementCase
        What the checker makes of the instance: it has the last word on every price.
    group, place : ndarray of int, shape (columns,)
    rows : sparse array, shape (rows, columns)
    right : list of int
        For the target that is to be refuted.
    """

    case: verify.SplittingCase | verify.RoutingCase | verify.MovementCase
    group: IntArray
    place: IntArray
    rows: sp.csr_array
    right: list[int]

    def __post_init__(self) -> None:
        case = self.case
        self.count = np.array([case.count(g) for g in range(case.groups)], dtype=float)
        self.most = np.array([case.most(g) for g in range(case.groups)], dtype=float)[self.group]
        size = abs(self.rows).max(axis=1).toarray().ravel()
        self.exponent: IntArray = np.frexp(np.maximum(size, 1.0))[1]  # rows are scaled by powers of two
        self.scaled = sp.csc_array(sp.diags_array(np.ldexp(1.0, -self.exponent)) @ self.rows)
        self.room = np.ldexp(np.array(self.right, dtype=float), -self.exponent)
        groups = (np.ones(self.group.size), (self.group, np.arange(self.group.size)))
        self.partition = sp.csc_array(groups, shape=(case.groups, self.group.size))


def program_of(case: object, target: Fraction | None) -> ChoiceProgram:
    """The program whose emptiness says that no assignment is below the target (None: that there is none)."""
    if isinstance(case, verify.SplittingCase):
        assert target is not None
        step = gcd(*case.weights) or 1
        right = [verify.steps_below(target / case.unit * speed, step) for speed in case.speeds]
        return ChoiceProgram(case, *_splitting(case), right)
    if isinstance(case, verify.RoutingCase):
        right = [case.most_moved(target), case.table, *case.upper, *(-low for low in case.lower)]
        return ChoiceProgram(case, *_routing(case, target is not None), right)
    assert isinstance(case, verify.MovementCase)
    right = [case.most_moved(target)] + [0] * (2 * len(case.load) * case.places)
    return ChoiceProgram(case, *_movement(case, target is not None), right)


def _splitting(case: verify.SplittingCase) -> Columns:
    sizes = [len(group["candidates"]) for group in case.members]
    group = np.repeat(np.arange(case.groups), sizes)
    place = np.array([i for g in case.members for i in g["candidates"]], dtype=np.int64)
    weight = np.array(case.weights, dtype=float)[group]
    rows = sp.csr_array((weight, (place, np.arange(group.size))), shape=(len(case.speeds), group.size))
    return group, place, rows


def _pairs(groups: int, places: list[int]) -> tuple[IntArray, IntArray]:
    """Every group with every place."""
    return np.repeat(np.arange(groups), len(places)), np.tile(np.array(places), groups)


def _stacked(parts: list[tuple[IntArray, IntArray, FloatArray]], shape: tuple[int, int]) -> sp.csr_array:
    """A sparse array of (row, column, value) parts."""
    row, column, value = (np.concatenate(p) for p in zip(*parts, strict=True))
    kept = value != 0
    return sp.csr_array((value[kept], (row[kept], column[kept])), shape=shape)


def _routing(case: verify.RoutingCase, with_cost: bool) -> Columns:
    group, place = _pairs(case.groups, case.open)
    load, state, now, home = (np.array(v, dtype=float)[group] for v in zip(*case.kinds, strict=True))
    at, n = np.arange(group.size), case.nodes
    low: BoolArray = np.array(case.lower)[place] > 0
    parts = [
        (np.zeros_like(at), at, state * (place != now) * with_cost),
        (np.ones_like(at), at, (place != home) * 1.0),
        (2 + place, at, load),
        (2 + n + place, at, -load * low),
    ]
    return group, place, _stacked(parts, (2 + 2 * n, group.size))


def _movement(case: verify.MovementCase, with_cost: bool) -> Columns:
    n, windows, last = case.places, len(case.load), case.groups - 1
    group, place = _pairs(case.groups, case.open)
    at = np.arange(group.size)
    kinds = np.array([*case.kinds, (0,) * (windows + 2)], dtype=float)[group]
    used = group == last
    parts = [(np.zeros_like(at), at, kinds[:, windows] * (place != kinds[:, windows + 1]) * ~used * with_cost)]
    for t in range(windows):
        up = np.where(used, -float(case.upper[t]), kinds[:, t])
        down = np.where(used, float(case.lower[t]), -kinds[:, t])
        parts += [(1 + 2 * t * n + place, at, up), (1 + (2 * t + 1) * n + place, at, down)]
    return group, place, _stacked(parts, (1 + 2 * windows * n, group.size))
