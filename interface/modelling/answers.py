"""read_answer: a solution file that another solver wrote, brought back by the variables' names."""

from __future__ import annotations

import math
from pathlib import Path

from keyshift.modelling.opening import model
from keyshift.modelling.writing import parenthesised
from keyshift.models import Answer, InputError, Problem, Solution
from keyshift.models.files.reading import MOST_JSON, read_text

NAMES_SHOWN = 3


def read_answer(problem: Problem, path: str | Path, kind: str = "pyomo") -> Solution:
    """Read what a solver answered to a file that `Model.write` wrote.

    Parameters
    ----------
    problem : Problem
        The problem whose model was written.
    path : str or Path
        The solution file of HiGHS (``highs x.mps --solution_file x.sol``), SCIP (``write solution x.sol``), CBC or
        Gurobi. Variables that it leaves out are 0.
    kind : str, default "pyomo"
        The kind of model that was written.

    Returns
    -------
    Solution
        Checked and valued anew, like every answer; without a bound, of which such files say nothing.

    Raises
    ------
    InputError
        For a file that is not a solution, or one of another model.
    """
    source = Path(path)
    text = read_text(source, MOST_JSON)
    solver, values = parse_solution(text, source)
    door = model(problem, kind)
    if not door.suffixes or ".mps" not in door.suffixes:
        raise InputError(f"a model of kind {kind!r} is not written as .mps: say which kind was")
    answer = Answer(door.assignment(_by_own_names(door.names(), values, source)))
    return Solution.of(problem, f"model:{kind}/{solver} file", answer, 0.0)


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


def _by_own_names(names: list[str], values: dict[str, float], source: Path) -> dict[str, float]:
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
