"""An answer on the shell: figures as lines, moves as a table, nothing wider than 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box

from keyshift.models import InputError, Problem, Solution
from keyshift.models.base.disk import read_json
from keyshift.models.base.figures import NOTHING, compact, figure, percent, quantity
from keyshift.models.workload import Workload
from keyshift.plans.plan import Plan
from keyshift.plans.targets import list_moves, staying
from keyshift.terminal import table

if TYPE_CHECKING:
    from rich.table import Table


def lines(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Figures, one a line: name and value."""
    return (f"{name:<22} {value}" for name, value in pairs)


def figures_of(solution: Solution, most: int | None = None) -> Iterator[str]:
    """The figures of an answer, or the first of them."""
    yield from lines(solution_lines(solution)[:most])


def solution_lines(solution: Solution) -> list[tuple[str, str]]:
    """The figures of one answer: objective, bound and gap, what was there before, the metrics."""
    problem, s = solution.problem, solution
    scale, units, mean = problem.scale, _units_of_measures(problem), _mean(problem)
    found = [(problem.name, f"{s.method}: {s.status}" + ("" if s.termination == s.status else f" ({s.termination})"))]
    goal = problem.objective_name
    unit = units.get(_measured_in(goal), "")
    share: Callable[[float], str] = partial(_share_of_mean, mean if goal == "load distance" else 0.0)

    def shown(value: float) -> str:
        return quantity(value, unit, scale) + (f" ({share(value)})" if share(value) else "")

    if s.objective is not None:
        found.append((goal, shown(s.objective)))
        before = _before(problem)
        if before is not None:
            found.append(("  before", shown(before)))
    if s.bound is not None:
        found.append(("  proven lower bound", shown(s.bound)))
    if s.gap_abs is not None:
        said = shown(s.gap_abs)
        if s.gap is not None and s.gap_abs > NOTHING * scale:
            said = f"{percent(s.gap)} of the {goal}: {said}"
        found.append(("  gap", said if s.gap_abs > NOTHING * scale else "0"))
    for place, stage in enumerate(s.priorities[1:], start=2):  # what is proven of the later stages
        proven = ", proven" if stage.proven else f", proven lower bound {figure(stage.bound)}"
        found.append((f"{place}. {stage.measure.replace('_', ' ')}", figure(stage.value) + proven))
    for name, value in s.metrics.items():
        if (said := name.replace("_", " ")) != goal:
            measured = quantity(value, units.get(_measured_in(said), ""), mean if _measured_in(said) == "load" else 0.0)
            found.append((said, measured + (_of_mean(mean, value) if name == "load_distance" else "")))
    found.append(("seconds", f"{s.seconds:.2f}"))
    if s.message:
        found.append(("note", s.message))
    return [*found, *(("note", stays) for stays in staying(problem, s.assignment))]


def _mean(problem: Problem) -> float:
    workload = getattr(problem, "workload", None)
    return workload.mean_load if isinstance(workload, Workload) else 0.0


def units_of(problem: Problem) -> Mapping[str, str]:
    """Units of load and state, where the problem's workload has them."""
    workload = getattr(problem, "workload", None)
    return workload.units if isinstance(workload, Workload) else {}


def _units_of_measures(problem: Problem) -> Mapping[str, str]:
    """The same for measures: load distances are loads per unit of capacity."""
    units = units_of(problem)
    equal = not units or bool((problem.workload.capacity == 1).all())  # type: ignore[attr-defined]
    return units if equal else {what: unit for what, unit in units.items() if what != "load"}


def _measured_in(measure: str) -> str:
    """Whether a measure adds up loads or states, as far as its name says."""
    if measure in ("state moved", "migration cost"):
        return "state"
    return "load" if "deviation" in measure or "distance" in measure else ""


def _share_of_mean(mean: float, value: float) -> str:
    return f"{figure(100 * value / mean, 100, 4)} % of the mean" if mean > 0 else ""


def _of_mean(mean: float, value: float) -> str:
    return f" ({_share_of_mean(mean, value)})" if mean > 0 else ""


def _before(problem: Problem) -> float | None:
    """The objective of doing nothing, where that says something."""
    if problem.now is None or "moved" in problem.objective_name:
        return None
    try:
        return problem.objective(problem.canonical(problem.now))
    except InputError:
        return None


def plan_moves(plan: Plan, every: bool) -> Iterator[Any]:
    """The moves of a plan, with their times."""
    head = "key" if plan.made_for.keys is not None else "key group"
    yield from _moves(
        list(plan.moves.itertuples()), plan.mean, head, plan.bandwidth is not None, every, plan.made_for.units
    )


def bare_moves(solution: Solution, every: bool) -> Iterator[Any]:
    """The moves of an answer, without times, which only a plan has; nothing for answers that move nothing."""
    workload = getattr(solution.problem, "workload", None)
    if solution.assignment is None or not isinstance(workload, Workload):
        return
    head = "key" if workload.keys is not None else "key group"
    yield from _moves(list_moves(solution), workload.mean_load, head, None, every, workload.units)


def _moves(
    moves: Sequence[Any], mean: float, head: str, timed: bool | None, every: bool, units: Mapping[str, str]
) -> Iterator[Any]:
    """The first moves, or all of them; `timed` says whether there are times, and whether they are seconds."""
    load, state = units.get("load", ""), units.get("state", "")
    heads = [head, "from", "to", head_of("load", load), head_of("state", state), "gain"]
    if timed is not None:
        heads += ["phase", *(f"{name} s" if timed else name for name in ("start", "end"))]

    def cells(m: Any) -> list[str]:
        made = [str(m.key), str(m.source), str(m.target), cell_of(m.load, load), cell_of(m.state, state)]
        made.append(cell_of(m.gain, load, abs(mean) or 1.0))
        if timed is not None:
            made += [str(m.phase), *(cell_of(at, "" if timed else state, m.end) for at in (m.start, m.end))]
        return made

    if len(moves):
        yield from first_rows(heads, moves, cells, every, " moves", names=3)
    else:
        yield "nothing moves"


def head_of(what: str, unit: str) -> str:
    """A column's head: bytes have their unit in each cell, as MB or GB, other units stand in the head."""
    return what if compact(unit) else f"{what} {unit}".strip()


def cell_of(value: float, unit: str, scale: float = 0.0) -> str:
    """A number under such a head."""
    return quantity(value, compact(unit), scale, 4)


def plan_lines(plan: Plan) -> list[tuple[str, str]]:
    """The figures of a plan."""
    before, after = plan.load_distance
    load, state = plan.made_for.distance_unit, plan.made_for.units.get("state", "")
    unit, after_all = ("s", "") if plan.bandwidth is not None else (state or "units", " of state, one after another")
    mean = plan.mean
    return [
        ("moves", f"{len(plan)} in {len(plan.phases)} phase{'s' * (len(plan.phases) != 1)}"),
        ("state moved", quantity(plan.state_moved, state)),
        ("time", f"{quantity(plan.seconds, unit)}{after_all} (at least {quantity(plan.seconds_bound, unit)})"),
        ("load distance", f"{quantity(before, load, mean)} -> {quantity(after, load, mean)}{_of_mean(mean, after)}"),
        ("peak load on the way", f"{quantity(plan.peak_load, load)} (mean {quantity(mean, load)})"),
        *(("note", note) for note in plan.notes),
    ]  # fmt: skip


def plain_table(heads: Sequence[str], rows: Iterable[Sequence[Any]], names: int | None = None) -> Table:
    """A table without borders; texts fold where the terminal is too narrow, and of figures, after the first `names`, none."""
    cells = ([v if isinstance(v, str) else figure(v, 0.0, 5) for v in row] for row in rows)
    whole = heads[names:] if names is not None else ()
    style = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1), "show_edge": False}
    return table(heads, cells, right=heads[1:], whole=whole, **style)


def first_rows(
    heads: Sequence[str], items: Sequence[Any], cells: Callable[[Any], Sequence[Any]], every: bool, what: str = "",
    names: int | None = None,
) -> Iterator[Any]:  # fmt: skip
    """The first twenty rows of a table, or all of them; after a blank line."""
    yield ""
    yield plain_table(heads, map(cells, items if every else items[:20]), names)
    if len(items) > 20 and not every:
        yield f"... and {len(items) - 20} more{what}: --all shows them"


def as_plan(solution: Solution, **options: Any) -> Plan | None:
    """The plan of an answer, where it moves key groups."""
    from keyshift.plans.making import plan

    if solution.assignment is None or not isinstance(getattr(solution.problem, "workload", None), Workload):
        return None
    return plan(solution.problem, solution, **patience(solution), **options)


def answered(
    posed: Problem, method: str | None, repair: bool, time_limit: float | None, gap: float, seed: int, **options: Any
) -> Solution:
    """Solve a problem, or repair what its limits break already; the options of the method are for solving alone."""
    if repair:
        from keyshift.plans.remedying import repair as repaired

        return repaired(posed, method, time_limit=time_limit, seed=seed)
    from keyshift.solving import solve

    return solve(posed, method, time_limit=time_limit, gap=gap, seed=seed, **options)


def save(plan: Plan, out: Path | None, report: Path | None) -> None:
    """Write a plan to the files that were asked for."""
    if out is not None:
        plan.save(out)
    if report is not None:
        plan.report(report)


def patience(solution: Solution) -> dict[str, Any]:
    """The time limit for ordering a plan's moves; 0 after Ctrl-C, which ends the planning too."""
    return {"time_limit": 0.0} if solution.termination == "interrupted" else {}


def saved_solution(path: Path) -> Solution | None:
    """The solution that a file holds; None where it holds something else."""
    from keyshift.files.solution import SolutionFile, read_solution

    content = read_json(path) if path.suffix == ".json" and path.is_file() else None
    return read_solution(path) if isinstance(content, dict) and content.get("format") == SolutionFile.kind else None
