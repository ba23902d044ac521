"""A program as the algebra that a person reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from keyshift.modelling.program import NamedProgram

WIDTH = 80
MOST_ROWS = 4
"""This many rows of a family are shown, unless all are asked for."""


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
    """A row in lines of `WIDTH`, the following ones indented; broken before a sign."""
    line = f"  {head}"
    words = (text + tail).split(" ")
    for place, word in enumerate(words):
        sign = word in ("+", "-", "<=", ">=", "=")
        ahead = word if not sign else " ".join(words[place : place + 3])
        if len(line) + 1 + len(ahead) > WIDTH and line.strip():
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
        shown = family if every or len(family) <= MOST_ROWS else family[: MOST_ROWS - 1]
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
