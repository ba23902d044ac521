"""A model as matrices with names: the one form that both languages of linear models are read into."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

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


def distinct(names: Iterable[str]) -> list[str]:
    """The same names without blanks, and with a number after what came before."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        clean = "".join("_" if c.isspace() else c for c in name) or "unnamed"
        seen[clean] = seen.get(clean, 0) + 1
        made.append(clean if seen[clean] == 1 else f"{clean}_{seen[clean]}")
    return made
