"""A linear model as matrices with names, for printing and writing; Pyomo and MathOpt models are both read into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from keyshift.models import InputError
from keyshift.models.base import disk as files
from keyshift.models.base.disk import digest_of_arrays
from keyshift.models.errors import refusing
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
        """The default solver."""
        if not self.squares:
            return "highs"
        return "scip" if self.whole else "pdlp"

    def fingerprint(self) -> str:
        """One text for all numbers: two programs with the same one are the same program, but for names."""
        p, matrix = self.linear, sp.csr_array(self.linear.matrix)
        matrix.sort_indices()
        numbers = (p.cost, p.offset, matrix.indptr, matrix.indices, matrix.data)
        sides = (p.row_lower, p.row_upper, p.column_lower, p.column_upper, p.integer)
        return digest_of_arrays((*numbers, *sides), repr(sorted(self.squares.items())))

    def extends(self, stated: NamedProgram) -> bool:
        """Whether this program still has another one's objective, rows and limits, or tighter ones."""
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


# A program as the algebra that a person reads --------------------------------------------------------------------------


def program_algebra(program: NamedProgram, every: bool = False) -> str:
    """Objective, rows by family, and columns by their boxes."""
    rows = ((name, between(summed(terms), low, high)) for name, terms, low, high in program.terms())
    return "\n".join(
        [*_objective(program), "subject to", *by_family(rows, every), "where", *by_kind(_columns(program))]
    )


def number(value: float) -> str:
    """A number as people write it."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def summed(terms: list[tuple[float, str]]) -> str:
    """Terms with their signs: 2 a - b."""
    if not terms:
        return "0"
    parts = []
    for place, (factor, name) in enumerate(terms):
        sign = "-" if factor < 0 else "+"
        size = "" if abs(factor) == 1 else f"{number(abs(factor))} "
        parts.append((f"{sign} " if place else ("-" if factor < 0 else "")) + size + name)
    return " ".join(parts)


def folded(head: str, text: str, tail: str = "") -> Iterator[str]:
    """A row in lines of `80`, the following ones indented; broken before a sign."""
    line = f"  {head}"
    words = (text + tail).split(" ")
    for place, word in enumerate(words):
        sign = word in ("+", "-", "<=", ">=", "=")
        ahead = word if not sign else " ".join(words[place : place + 3])
        if len(line) + 1 + len(ahead) > 80 and line.strip():
            yield line
            line = "     "
        line += f" {word}"
    yield line


def _objective(program: NamedProgram) -> Iterator[str]:
    cost = program.linear.cost.tolist()
    terms = [(c, name) for c, name in zip(cost, program.columns, strict=True) if c]
    for (a, b), factor in sorted(program.squares.items()):
        left, right = program.columns[a], program.columns[b]
        terms.append((factor, f"{left}^2" if a == b else f"{left} {right}"))
    offset = program.linear.offset
    yield "minimise"
    yield from folded("", summed(terms), f" {'-' if offset < 0 else '+'} {number(abs(offset))}" if offset else "")


def between(text: str, low: float, high: float) -> str:
    """A row between two sides, of which one may be infinite, or both equal."""
    if low == high:
        return f"{text} = {number(low)}"
    if math.isinf(low):
        return f"{text} <= {number(high)}"
    return f"{text} >= {number(low)}" + ("" if math.isinf(high) else f" and <= {number(high)}")


def by_family(rows: Iterable[tuple[str, str]], every: bool) -> Iterator[str]:
    """Rows, each a name and a text; the first few of each family, or `every` one."""
    families: dict[str, list[tuple[str, str]]] = {}
    for name, text in rows:
        families.setdefault(name.partition("[")[0] or text.partition("(")[0], []).append((name, text))
    for family in families.values():
        # This many rows of a family are shown, unless all are asked for.
        shown = family if every or len(family) <= 4 else family[:3]
        for name, text in shown:
            yield from folded(f"{name}:" if name else "", text)
        if len(shown) < len(family):
            yield f"  ... and {len(family) - len(shown)} more like these"


def by_kind(columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Columns, each a name and a kind; one line for all of a family that are of one kind."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, kind in columns:
        kinds.setdefault((name.partition("[")[0], kind), []).append(name)
    for (family, kind), names in kinds.items():
        first = names[0] if len(names) == 1 else f"{names[0]}, ... ({len(names)} of {family})"
        yield f"  {first}: {kind}"


def _columns(program: NamedProgram) -> Iterator[tuple[str, str]]:
    p = program.linear
    boxes = zip(p.column_lower.tolist(), p.column_upper.tolist(), p.integer.tolist(), strict=True)
    for name, (low, high, whole) in zip(program.columns, boxes, strict=True):
        binary = whole and (low, high) == (0, 1)
        yield name, "0 or 1" if binary else f"between {number(low)} and {number(high)}" + ", whole" * whole


# Programs written to files that every solver reads: MPS and LP, every number with all its digits -----------------------


def write_text(path: Path, lines: Iterable[str]) -> None:
    """Write lines, nothing half."""
    files.write_text(path, "\n".join(lines) + "\n")


def write_nl(model: Any, path: Path, row_name: Callable[[Any], str], column_name: Callable[[Any], str]) -> None:
    """Write a Pyomo model as .nl by Pyomo's own writer, with the names in .row and .col beside it."""
    from pyomo.repn.plugins.nl_writer import NLWriter

    written: list[Any] = []

    def fill(scratch: Path) -> None:
        with scratch.open("w", newline="\n") as file:
            written.append(NLWriter().write(model, file))

    files.write_by_name(path, fill)
    rows = [row_name(c) for c in written[0].constraints]
    write_text(path.with_suffix(".row"), [*rows, *(o.local_name for o in written[0].objectives)])
    write_text(path.with_suffix(".col"), [column_name(v) for v in written[0].variables])


def names_in_lp(names: Iterable[str]) -> list[str]:
    """Names for an LP file, where square brackets mean squares, and signs are signs: x(k3,n1)."""
    return distinct(name.translate(_IN_LP) for name in names)


_IN_LP = str.maketrans({"[": "(", "]": ")", **dict.fromkeys("+-*/^<>=:\\", "_")})


def mps_lines(program: NamedProgram) -> Iterator[str]:
    """A program in free MPS."""
    p = program.linear
    rows, columns = distinct(program.rows), distinct(program.columns)
    yield f"NAME {program.name}"
    yield "ROWS"
    yield " N objective"
    kinds = [_kind(low, high) for low, high in zip(p.row_lower.tolist(), p.row_upper.tolist(), strict=True)]
    yield from (f" {kind} {row}" for kind, row in zip(kinds, rows, strict=True))
    yield "COLUMNS"
    matrix = sp.csc_array(p.matrix)
    ends, at, factors = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
    cost, whole = p.cost.tolist(), p.integer.tolist()
    inside = False
    for j, column in enumerate(columns):
        if whole[j] != inside:
            inside = whole[j]
            yield f" MARKER 'MARKER' '{'INTORG' if inside else 'INTEND'}'"
        yield f" {column} objective {cost[j]!r}"  # also where it is 0: a column that no row has must be named once
        yield from (f" {column} {rows[at[e]]} {factors[e]!r}" for e in range(ends[j], ends[j + 1]))
    if inside:
        yield " MARKER 'MARKER' 'INTEND'"
    yield "RHS"
    if p.offset:
        yield f" RHS objective {-p.offset!r}"
    yield from _sides(kinds, rows, p.row_lower.tolist(), p.row_upper.tolist())
    yield "BOUNDS"
    for column, low, high in zip(columns, p.column_lower.tolist(), p.column_upper.tolist(), strict=True):
        yield f" MI BOUND {column}" if math.isinf(low) else f" LO BOUND {column} {low!r}"
        yield f" PL BOUND {column}" if math.isinf(high) else f" UP BOUND {column} {high!r}"
    if program.squares:
        yield "QUADOBJ"  # of half the quadratic form
        for (a, b), factor in sorted(program.squares.items()):
            yield f" {columns[a]} {columns[b]} {factor * (2 if a == b else 1)!r}"
    yield "ENDATA"


def _kind(low: float, high: float) -> str:
    if low == high:
        return "E"
    if math.isinf(low):
        return "N" if math.isinf(high) else "L"
    return "G"


def _sides(kinds: list[str], rows: list[str], low: list[float], high: list[float]) -> Iterator[str]:
    for kind, row, least, most in zip(kinds, rows, low, high, strict=True):
        side = most if kind == "L" else least
        if kind != "N":
            yield f" RHS {row} {side!r}"
    ranges = [(row, most - least) for kind, row, least, most in zip(kinds, rows, low, high, strict=True)
              if kind == "G" and not math.isinf(most)]  # fmt: skip
    if ranges:
        yield "RANGES"
        yield from (f" RANGE {row} {width!r}" for row, width in ranges)


def lp_lines(program: NamedProgram) -> Iterator[str]:
    """A program in the LP format of CPLEX."""
    p = program.linear
    columns = names_in_lp(program.columns)
    yield f"\\ {program.name}"
    yield "minimize"
    yield " objective:"
    yield from _wrapped((cost, name) for cost, name in zip(p.cost.tolist(), columns, strict=True) if cost)
    if program.squares:
        yield "  + ["
        for (a, b), factor in sorted(program.squares.items()):
            product = f"{columns[a]} ^ 2" if a == b else f"{columns[a]} * {columns[b]}"
            yield f"  {_signed(2 * factor)} {product}"
        yield "  ] / 2"
    if p.offset:
        yield f"  {_signed(p.offset)}"
    yield "subject to"
    named = dict(zip(program.columns, columns, strict=True))
    for row, (_, terms, low, high) in zip(names_in_lp(program.rows), program.terms(), strict=True):
        for part, sign, side in _halves(low, high):
            yield f" {row}{part}:"
            yield from _wrapped((factor, named[name]) for factor, name in terms or [(0.0, program.columns[0])])
            yield f"  {sign} {side!r}"
    yield "bounds"
    for name, low, high in zip(columns, p.column_lower.tolist(), p.column_upper.tolist(), strict=True):
        yield f" {_end(low)} <= {name} <= {_end(high)}"
    whole = [name for name, integer in zip(columns, p.integer.tolist(), strict=True) if integer]
    if whole:
        yield "general"
        yield from (f" {name}" for name in whole)
    yield "end"


def _halves(low: float, high: float) -> list[tuple[str, str, float]]:
    if low == high:
        return [("", "=", low)]
    sides = [("_low" if not math.isinf(high) else "", ">=", low)] if not math.isinf(low) else []
    return sides + ([("", "<=", high)] if not math.isinf(high) else [])


def _wrapped(terms: Iterable[tuple[float, str]]) -> Iterator[str]:
    yield from (f"  {_signed(factor)} {name}" for factor, name in terms)


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {abs(value)!r}"


def _end(value: float) -> str:
    return ("-" if value < 0 else "+") + "inf" if math.isinf(value) else repr(value)


# Solution files of HiGHS, SCIP, CBC and Gurobi: the values, by the model's own names -----------------------------------


def parse_solution(text: str, source: Path) -> tuple[str, dict[str, float]]:
    """Which solver wrote a solution, and the values in it, by the variables' names."""
    lines = [line.strip() for line in text.splitlines()]
    heads = [line for line in lines if line.startswith(("# ", "solution status:"))]
    name, value = 0, 1
    if any(line.startswith("# Columns") for line in heads):
        solver, value = "HiGHS", -1
        lines = list(dropwhile(lambda line: not line.startswith("# Columns"), lines))[1:]
        lines = list(takewhile(lambda line: line and not line.startswith("#"), lines))
    elif any(line.startswith("solution status:") for line in heads):
        solver = "SCIP"
        lines = [line for line in lines if not line.startswith(("solution status:", "objective value:"))]
    elif any(line.startswith("# Objective value") for line in heads):
        solver, lines = "Gurobi", [line for line in lines if not line.startswith("#")]
    elif lines and "objective value" in lines[0] and " - " in lines[0]:
        solver, name, value = "CBC", 1, 2
        lines = [line for line in lines[1:] if len(line.removeprefix("**").split()) >= 3]
    elif any(line.startswith("# Primal solution values") for line in heads):
        solver, lines = "HiGHS", []
    else:
        raise InputError(f"{source}: is not a solution file of HiGHS, SCIP, CBC or Gurobi")
    if solver == "HiGHS" and not lines:
        raise InputError(f"{source}: HiGHS found no solution to write there")
    values: dict[str, float] = {}
    for line in filter(None, lines):
        if line.startswith("no solution"):
            raise InputError(f"{source}: the solver found no solution to write there")
        words = line.removeprefix("**").split()
        values[words[name]] = _read_number(words[value] if len(words) > value else "", line, source)
    return solver, values


def _read_number(word: str, line: str, source: Path) -> float:
    with refusing(f"{source}: {line[:60]!r} names no value", ValueError):
        value = float(word)
    if not math.isfinite(value):
        raise InputError(f"{source}: {line[:60]!r} is not a finite value")
    return value


def by_own_names(names: list[str], values: dict[str, float], source: Path) -> dict[str, float]:
    """The values by the model's names, as an MPS or an LP file has them."""
    own = dict(zip(names_in_lp(names), names, strict=True)) | dict(zip(distinct(names), names, strict=True))
    made: dict[str, float] = {}
    foreign = []
    for name, value in values.items():
        known = own.get(name)
        if known is None:
            foreign.append(name)
        else:
            made[known] = value
    if foreign:
        said = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise InputError(f"{source}: is of another model: this one has no variable {said}")
    return made
