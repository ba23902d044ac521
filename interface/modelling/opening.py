"""statements, model, read_answer: which declarative models a problem has, the way into one, and back from a solver's file."""

from __future__ import annotations

import math
from pathlib import Path

from keyshift.catalogue import FORMULATIONS, formulation_of
from keyshift.catalogue.method import Statement
from keyshift.modelling.model import Model
from keyshift.models import Answer, InputError, Problem, Solution
from keyshift.models.files.reading import MOST_JSON, read_text
from keyshift.models.lazily import lazily, load
from keyshift.models.priorities import Prioritised

with lazily():
    from keyshift.modelling.opened_cpsat import OpenedCpSat
    from keyshift.modelling.opened_mathopt import OpenedMathOpt
    from keyshift.modelling.opened_pyomo import OpenedPyomo

LANGUAGES = {"pyomo": OpenedPyomo, "cp-sat": OpenedCpSat, "mathopt": OpenedMathOpt}


def statements(problem: Problem | type[Problem]) -> tuple[str, ...]:
    """The kinds of declarative model that a problem, or a problem class, has; the simplest first.

    Parameters
    ----------
    problem : Problem or class

    Returns
    -------
    tuple of str
        Such as ``("pyomo", "cp-sat")``.
    """
    return tuple(entry.kind for entry in _entries(problem))


def model(problem: Problem, kind: str = "pyomo", *, strengthened: bool = False) -> Model:
    """Build a declarative model of a problem, to read it, change it, write it to a file, or solve it with any solver.

    Parameters
    ----------
    problem : Problem
    kind : str, default "pyomo"
        One of ``statements(problem)``.
    strengthened : bool, default False
        Whether to exclude some feasible answers, but not all optima, as keyshift's own methods do: interchangeable nodes
        in order, limits from a known answer, variables fixed or limited from one side only. It is solved faster, and
        wrong as soon as anything is added.

    Returns
    -------
    Model
        ``native`` is the model in its own language, for constraints of one's own. A rule may speak of every variable
        that is whole: it is what its name says, no more and no less. The others - a load distance, the largest load -
        are at least what they are called after: a rule may limit them from above. Where a variable counts keys that
        are alike (routing: x[r,n]; splitting and placement: x[g,n]), a rule about one named key cannot be said; where
        it is the flow along an interval or the value of a partition, one about a node cannot.

    Raises
    ------
    InputError
        For an unknown kind, a problem of which arithmetic alone shows that it has no answer, or one with more than its
        own priority: a model has one objective.
    """
    about = _entry(problem, kind)
    if isinstance(problem, Prioritised):
        if problem.stages != (problem.own_measure,):
            raise InputError(
                f"a model minimises {problem.own_measure} alone, not {', '.join(problem.stages)}: open the problem "
                "without priorities; model.statement.keep(measure, most) and .minimise(measure) state a later stage"
            )
        problem = problem.plain()
    if conflicts := problem.conflicts():
        raise InputError(f"there is nothing to model: {conflicts[0]}")
    opened: type[Model] = load(LANGUAGES[about.language])
    return opened(problem, about, strengthened)


def _entries(problem: Problem | type[Problem]) -> tuple[Statement, ...]:
    if isinstance(problem, type):
        name = str(getattr(problem, "name", ""))
        if name not in FORMULATIONS:
            raise InputError(f"{problem.__name__} is not a problem that keyshift knows: {', '.join(FORMULATIONS)}")
        return FORMULATIONS[name].statements
    return formulation_of(problem).statements


def _entry(problem: Problem, kind: str) -> Statement:
    entries = {entry.kind: entry for entry in _entries(problem)}
    if kind not in entries:
        raise InputError(f"no model of kind {kind!r} for {problem.name}; choose one of {', '.join(entries)}")
    return entries[kind]


NAMES_SHOWN = 3


def read_answer(problem: Problem, path: str | Path, kind: str = "pyomo") -> Solution:
    """Read a solver's answer to a model that `Model.write` wrote.

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
        Checked and valued again, like every answer. It has no bound, because such files do not contain one.

    Raises
    ------
    InputError
        For a file that is not a solution, or one of another model.
    """
    source = Path(path)
    text = read_text(source, MOST_JSON)
    solver, values = parse_solution(text, source)
    written = model(problem, kind)
    if ".mps" not in written.suffixes:
        raise InputError(f"a model of kind {kind!r} is not written as .mps: say which kind was")
    answer = Answer(written.assignment(_by_own_names(written.names(), values, source)))
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
    from keyshift.modelling.program import parenthesised

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
