"""Solution files of HiGHS, SCIP, CBC and Gurobi: the values, by the model's own names."""

from __future__ import annotations

import math
from pathlib import Path

from keyshift.modelling.program import parenthesised
from keyshift.models import InputError

NAMES_SHOWN = 3


def parse_solution(text: str, source: Path) -> tuple[str, dict[str, float]]:
    """Which solver wrote a solution, and the values in it, by the variables' names."""
    lines = text.splitlines()
    stripped = [line.strip() for line in lines]
    if any(line.startswith("# Columns") for line in stripped):
        return "HiGHS", _highs(stripped, source)
    if any(line.startswith("solution status:") for line in stripped):
        return "SCIP", _pairs(stripped, source, ("solution status:", "objective value:"))
    if any(line.startswith("# Objective value") for line in stripped):
        return "Gurobi", _pairs(stripped, source, ("#",))
    if stripped and "objective value" in stripped[0] and " - " in stripped[0]:
        return "CBC", _cbc(stripped, source)
    if any(line.startswith("# Primal solution values") for line in stripped):
        raise InputError(f"{source}: HiGHS found no solution to write there")
    raise InputError(f"{source}: is not a solution file of HiGHS, SCIP, CBC or Gurobi")


def _number(word: str, line: str, source: Path) -> float:
    try:
        value = float(word)
    except ValueError:
        raise InputError(f"{source}: {line[:60]!r} names no value") from None
    if not math.isfinite(value):
        raise InputError(f"{source}: {line[:60]!r} is not a finite value")
    return value


def _highs(lines: list[str], source: Path) -> dict[str, float]:
    first = next(place for place, line in enumerate(lines) if line.startswith("# Columns"))
    values: dict[str, float] = {}
    for line in lines[first + 1 :]:
        if line.startswith("#") or not line:
            break
        words = line.split()
        values[words[0]] = _number(words[-1], line, source)
    if not values:
        raise InputError(f"{source}: HiGHS found no solution to write there")
    return values


def _pairs(lines: list[str], source: Path, heads: tuple[str, ...]) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in lines:
        words = line.split()
        if words and not line.startswith(heads):
            if line.startswith("no solution"):
                raise InputError(f"{source}: the solver found no solution to write there")
            values[words[0]] = _number(words[1] if len(words) > 1 else "", line, source)
    return values


def _cbc(lines: list[str], source: Path) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in lines[1:]:
        words = line.removeprefix("**").split()
        if len(words) >= 3:
            values[words[1]] = _number(words[2], line, source)
    return values


def by_own_names(names: list[str], values: dict[str, float], source: Path) -> dict[str, float]:
    """The values by the model's names; an LP file has parentheses in place of square brackets."""
    own = {parenthesised(name): name for name in names}
    made: dict[str, float] = {}
    foreign = []
    for name, value in values.items():
        known = own.get(parenthesised(name))
        if known is None:
            foreign.append(name)
        else:
            made[known] = value
    if foreign:
        said = ", ".join(foreign[:NAMES_SHOWN]) + (", ..." if len(foreign) > NAMES_SHOWN else "")
        raise InputError(f"{source}: is of another model: this one has no variable {said}")
    return made
