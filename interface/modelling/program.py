"""A model as matrices with names: the one form that both languages of linear models are read into."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from keyshift.solvers.safe_bounds import LinearProgram


@dataclass(frozen=True, eq=False)
class NamedProgram:
    """A linear program, with whole columns and a quadratic objective where it has them, and the names of all.

    Attributes
    ----------
    name : str
    linear : LinearProgram
    squares : dict of (int, int) to float
        Coefficients of products of two columns in the objective, the first not after the second.
    columns, rows : list of str
    """

    name: str
    linear: LinearProgram
    squares: dict[tuple[int, int], float]
    columns: list[str]
    rows: list[str]

    @property
    def whole(self) -> bool:
        """Whether any column is whole."""
        return bool(self.linear.integer.any())

    @property
    def fitting_solver(self) -> str:
        """The solver that is asked where nobody says which."""
        if not self.squares:
            return "highs"
        return "scip" if self.whole else "pdlp"

    def fingerprint(self) -> str:
        """One text for all numbers: two programs with the same one are the same program, but for names."""
        p, digest = self.linear, hashlib.sha256()
        matrix = sp.csr_array(p.matrix)
        matrix.sort_indices()
        for array in (
            p.cost, np.array([p.offset]), matrix.indptr, matrix.indices, matrix.data, p.row_lower, p.row_upper,
            p.column_lower, p.column_upper, p.integer,
        ):  # fmt: skip
            digest.update(repr((array.shape, array.dtype.kind)).encode())
            digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
        digest.update(repr(sorted(self.squares.items())).encode())
        return digest.hexdigest()

    def extends(self, stated: NamedProgram) -> bool:
        """Whether nothing of another program is gone: its objective, its rows and its limits, or narrower ones."""
        mine, theirs = self._by_name(), stated._by_name()
        return (
            mine.cost == theirs.cost
            and self.linear.offset == stated.linear.offset
            and all(name in mine.boxes and _within(mine.boxes[name], box) for name, box in theirs.boxes.items())
            and all(row in mine.rows and _within(mine.rows[row], sides) for row, sides in theirs.rows.items())
        )

    def _by_name(self) -> _ByName:
        p, made = self.linear, _ByName({}, {}, {})
        for name, cost in zip(self.columns, p.cost.tolist(), strict=True):
            if cost:
                made.cost[name, ""] = cost
        for (a, b), factor in self.squares.items():
            made.cost[self.columns[a], self.columns[b]] = factor
        boxes = zip(p.column_lower.tolist(), p.column_upper.tolist(), strict=True)
        made.boxes.update(zip(self.columns, boxes, strict=True))
        for name, terms, low, high in self.terms():
            known = made.rows.get(row := (name, frozenset(terms)), (-math.inf, math.inf))
            made.rows[row] = max(low, known[0]), min(high, known[1])
        return made

    def made_whole(self, family: str) -> NamedProgram:
        """The same with the variables of a family whole."""
        whole = np.array([name.startswith(f"{family}[") for name in self.columns], dtype=bool)
        return replace(self, linear=replace(self.linear, integer=self.linear.integer | whole))

    def values(self, of: np.ndarray) -> dict[str, float]:
        """Numbers of the columns by their names."""
        return dict(zip(self.columns, of.tolist(), strict=True))

    def multipliers(self, of: np.ndarray) -> dict[str, float]:
        """Numbers of the rows by their names; a range, which is two rows, has the sum."""
        made: dict[str, float] = {}
        for name, value in zip(self.rows, of.tolist(), strict=True):
            made[name] = made.get(name, 0.0) + value
        return made

    def terms(self) -> Iterable[tuple[str, list[tuple[float, str]], float, float]]:
        """Every row: its name, its terms, its two sides."""
        p = self.linear
        matrix = sp.csr_array(p.matrix)
        ends, columns, factors = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
        sides = zip(self.rows, p.row_lower.tolist(), p.row_upper.tolist(), strict=True)
        for r, (name, low, high) in enumerate(sides):
            at = range(ends[r], ends[r + 1])
            yield name, [(factors[e], self.columns[columns[e]]) for e in at if factors[e] != 0], low, high


class _ByName(NamedTuple):
    """A program by its names: costs, limits of the columns, and rows with their terms."""

    cost: dict[tuple[str, str], float]
    boxes: dict[str, tuple[float, float]]
    rows: dict[tuple[str, frozenset[tuple[float, str]]], tuple[float, float]]


def _within(box: tuple[float, float], other: tuple[float, float]) -> bool:
    return box[0] >= other[0] and box[1] <= other[1]


def distinct(names: Iterable[str]) -> list[str]:
    """The same names without blanks, and with a number after a name that is taken."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        clean = "".join("_" if c.isspace() else c for c in name) or "unnamed"
        seen[clean] = seen.get(clean, 0) + 1
        made.append(clean if seen[clean] == 1 else f"{clean}_{seen[clean]}")
    return made
