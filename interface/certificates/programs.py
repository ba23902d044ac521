"""Formulations whose proofs are prices and branches, as linear programs: rows that prices belong to, a column for each choice."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from keyshift.certificates import verify
from keyshift.models.workload import IntArray

Columns = tuple[IntArray, IntArray, sp.csr_array]


@dataclass
class ChoiceProgram:
    """So many of every group go to each place; every row has a right side that what is chosen must not exceed.

    Attributes
    ----------
    case : verify.SplittingCase or verify.MovedCase
        What the checker makes of the instance: it has the last word on every price.
    target : Fraction or None
        What is to be refuted.
    group, place : ndarray of int, shape (columns,)
    rows : sparse array, shape (rows, columns)
    right : list of int
    twofold : int
        The first row that the checker has a least amount of as well: those from the middle on are the least amounts, negative.
    """

    case: verify.SplittingCase | verify.MovedCase
    target: Fraction | None
    group: IntArray
    place: IntArray
    rows: sp.csr_array
    right: list[int]
    twofold: int

    def __post_init__(self) -> None:
        case = self.case
        self.count = np.array(case.counts, dtype=float)
        self.most = np.array([case.most(g) for g in range(len(case.counts))], dtype=float)[self.group]
        size = abs(self.rows).max(axis=1).toarray().ravel()
        self.exponent: IntArray = np.frexp(np.maximum(size, 1.0))[1]  # rows are scaled by powers of two
        self.scaled = sp.csc_array(sp.diags_array(np.ldexp(1.0, -self.exponent)) @ self.rows)
        self.room = np.ldexp(np.array(self.right, dtype=float), -self.exponent)
        groups = (np.ones(self.group.size), (self.group, np.arange(self.group.size)))
        self.partition = sp.csc_array(groups, shape=(self.count.size, self.group.size))
        self.scarce = case.scarce(self.target)

    def joined(self, prices: list[int]) -> list[int]:
        """One price for each row of the checker: that of the most less that of the least."""
        alone, middle = prices[: self.twofold], (self.twofold + len(prices)) // 2
        return alone + [up - low for up, low in zip(prices[self.twofold : middle], prices[middle:], strict=True)]

    def refuted(self, joined: list[int], limits: Any) -> bool:
        """Whether the checker is convinced that nothing within the limits of a branch is below the target."""
        least = verify.cheapest(self.case, joined, limits)
        return least is None or least > sum(x * row[x > 0] for x, row in zip(joined, self.scarce, strict=True))


def program_of(case: verify.SplittingCase | verify.MovedCase, target: Fraction | None) -> ChoiceProgram:
    """The program whose emptiness says that no assignment is below the target (None: that there is none)."""
    scarce = case.scarce(target)
    if isinstance(case, verify.SplittingCase):
        return ChoiceProgram(case, target, *_splitting(case), [most for _, most in scarce], len(scarce))
    right = [most for _, most in scarce] + [-low for low, _ in scarce[2:]]
    return ChoiceProgram(case, target, *_moved(case), right, 2)


def _splitting(case: verify.SplittingCase) -> Columns:
    sizes = [len(group["candidates"]) for group in case.members]
    group = np.repeat(np.arange(len(sizes)), sizes)
    place = np.array([i for g in case.members for i in g["candidates"]], dtype=np.int64)
    weight = np.array(case.weights, dtype=float)[group]
    rows = sp.csr_array((weight, (place, np.arange(group.size))), shape=(len(case.speeds), group.size))
    return group, place, rows


def _moved(case: verify.MovedCase) -> Columns:
    """State moved, entries, most load and least load of each node; the last group are the nodes in use."""
    n, windows, kinds = case.places, len(case.loads), len(case.kinds)
    group, place = np.repeat(np.arange(len(case.counts)), len(case.open)), np.tile(case.open, len(case.counts))
    *load, state, now, home = np.array([*case.kinds, (0,) * (windows + 3)], dtype=float)[np.minimum(group, kinds)].T
    at, used = np.arange(group.size), group == kinds
    parts = [
        (np.zeros_like(at), at, state * (place != now) * ~used),
        (np.ones_like(at), at, (place != home) * ~used * 1.0),
    ]
    for t, limits in enumerate(case.limits):
        low, high = np.array(limits, dtype=float)[place].T
        parts.append((2 + t * n + place, at, np.where(used, -high, load[t])))
        parts.append((2 + (windows + t) * n + place, at, np.where(used, low, -load[t] * (low > 0))))
    row, column, value = (np.concatenate(p) for p in zip(*parts, strict=True))
    kept = value != 0
    return group, place, sp.csr_array((value[kept], (row[kept], column[kept])), shape=(2 + 2 * windows * n, group.size))
