"""Programs written to files that every solver reads: MPS and LP, every number with all its digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from keyshift.modelling.program import NamedProgram, distinct
from keyshift.models.files import writing as files


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


def parenthesised(name: str) -> str:
    """A name for an LP file, where square brackets mean squares: x(k3,n1)."""
    return name.replace("[", "(").replace("]", ")")


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
    columns = [parenthesised(name) for name in distinct(program.columns)]
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
    for row, (_, terms, low, high) in zip(distinct(program.rows), program.terms(), strict=True):
        for part, sign, side in _halves(low, high):
            yield f" {parenthesised(row)}{part}:"
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
