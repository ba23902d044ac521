"""solve: one call that finds a start, runs a method within a budget, checks its answer and hands it back."""

from __future__ import annotations

import inspect
import logging
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from keyshift import heuristics, solvers
from keyshift import models as models_floor
from keyshift.catalogue import FORMULATIONS, Method, find_method, formulation_of, methods
from keyshift.models import Answer, Budget, CheckReport, InputError, Problem, Solution
from keyshift.models.answer import GAP, TIME_LIMIT, Progress, Settings
from keyshift.models.base.compiling import COMPILING, off_clock
from keyshift.models.base.guards import real, whole
from keyshift.models.base.kernel_cache import is_warmed, note_warmed
from keyshift.models.base.lazily import load
from keyshift.models.objectives import Prioritised
from keyshift.terminal import progress as showing

_LOG = logging.getLogger("keyshift")
_STOPS: list[Callable[[], None]] = []
"""Ctrl-C calls these: one for each `interruptible` block that runs, the outermost first."""
MOST_SEED = 2**31 - 1
"""The largest seed that all solvers take."""


WORD = "solver's word"
"""The value of `details["proof"]` for a bound that nothing vouches for but the code that found it; see `ks.certify`."""
LIMITS = "limits that conflict"
"""Its value where the arithmetic of the limits alone shows that nothing is feasible."""


def solve(
    problem: Problem,
    method: str | None = None,
    *,
    time_limit: float | None = TIME_LIMIT,
    gap: float = GAP,
    seed: int = 0,
    start: Any = None,
    watch: Callable[[Progress], None] | None = None,
    settings: Sequence[Settings] = (),
    effort: float | None = None,
    progress: bool = True,
    **options: Any,
) -> Solution:
    """Answer a problem.

    Parameters
    ----------
    problem : Problem
        Any of keyshift's problems.
    method : str, optional
        One of ``methods(problem)``; None takes the best exact one.
    time_limit : float or None, default 60.0
        Seconds; None: no limit. At the limit, or at Ctrl-C, the best assignment so far comes back with its bound.
    gap : float, default 1e-4
        After two seconds the run ends as soon as the objective is within ``gap * problem.scale`` of the bound; with 0
        it continues until the proof. The solution's `termination` says why it ended: "optimal", "gap" or "time_limit".
    seed : int, default 0
        The same seed gives the same answer, unless a limit or the gap cuts the run short or an option says otherwise.
    start : array_like or Solution, optional
        A feasible assignment to begin from. None lets exact methods begin from the best fast heuristic.
    watch : callable, optional
        Called with a `Progress` while the method runs.
    settings : sequence of Settings, optional
        Tuning parameters of searches and bounds that replace the defaults.
    effort : float, optional
        A limit on work instead of seconds, in units of about a second of one core; it replaces `time_limit`. A run that
        ends at it gives the same answer again, on any machine and under any load. If a method has an option of this
        name, it gets the value.
    progress : bool, default True
        Whether a terminal or a notebook shows a line after a second: the phase, the best answer and bound, the time left.
    **options
        The method's own options.

    Returns
    -------
    Solution
        Its assignment has passed `check`; its objective and metrics are computed from the assignment alone.

    Raises
    ------
    InputError
        For an unknown method or option, a bad limit, an infeasible start.
    """
    chosen = find_method(problem, method)
    options, effort = own_effort(chosen, options, effort)
    options = chosen.checked(options)
    limit, share = real("time_limit", time_limit), real("gap", gap, optional=False)
    seed = whole("seed", seed, most=MOST_SEED, optional=False)
    known = read_start(problem, start)
    with showing(f"{problem.name}: {chosen.name}", limit, watch, progress) as watching:
        make_ready(problem, chosen, known)
        budget = Budget(limit, watching, share, effort=real("effort", effort), settings=settings)
        budget.scale = problem.scale  # which is on the clock, since it may take a pass over all traffic
        with interruptible(budget.interrupt):
            return answered(problem, chosen, budget, seed, known, options)


def own_effort(method: Method, options: dict[str, Any], effort: float | None) -> tuple[dict[str, Any], float | None]:
    """Options, and the limit on effort: a method that has an option of that name counts in units of its own."""
    own = effort is not None and "effort" in method.options
    return ({**options, "effort": effort}, None) if own else (options, effort)


def answered(
    problem: Problem, method: Method, budget: Budget, seed: int, start: np.ndarray | None, options: dict[str, Any]
) -> Solution:
    """Run a method within a budget that has just begun, and check its answer."""
    _LOG.info("%s by %s, %g s at most, seed %d", type(problem).__name__, method.name, budget.time_limit, seed)
    conflicts = problem.conflicts()
    if conflicts:
        answer = Answer(None, termination="infeasible", message="; ".join(conflicts[:3]))
    else:
        answer = _run(problem, method, budget, seed, start, options)
    solution = Solution.of(problem, method.name, answer, budget.seconds)
    if solution.bound or solution.status == "infeasible":
        solution.details["proof"] = LIMITS if conflicts else WORD
    solution = _with_why(solution, method, budget)
    _LOG.info("%r", solution)
    return solution


def _with_why(solution: Solution, method: Method, budget: Budget) -> Solution:
    """The solution, with a word on why it ended where that was neither its proof nor a limit."""
    if solution.status != "feasible" or solution.termination in ("time_limit", "interrupted"):
        if not (solution.status == "feasible" and budget.closed and not budget.interrupted):
            return solution
    gap, most = solution.gap_abs, budget.gap * budget.scale
    if gap is not None and gap <= most and budget.closed:
        said = f"within the gap asked for: {gap:.3g} is at most {most:.3g}, {budget.gap:g} of the scale; gap 0 asks for the proof"
        return replace(solution, termination="gap", message=" - ".join(filter(None, (said, solution.message))))
    if solution.message or method.kind != "exact":
        return solution
    return replace(solution, message=f"{method.name} ended before the limit, and its bound does not meet the objective")


def make_ready(problem: Problem, method: Method, start: np.ndarray | None) -> None:
    """Import a method and the heuristics for its start; the clock does not run meanwhile."""
    for used in (method, *(_those(problem, method.starts + method.rivals) if start is None else ())):
        _ = used.function


def check(problem: Problem, assignment: Any) -> CheckReport:
    """Check an assignment against a problem, without a solver.

    Parameters
    ----------
    problem : Problem
    assignment : array_like or Solution

    Returns
    -------
    CheckReport
        `feasible`, `violations`, `objective`, `metrics`.
    """
    return problem.check(assignment.assignment if isinstance(assignment, Solution) else assignment)


def read_start(problem: Problem, start: Any) -> np.ndarray | None:
    """A start as an assignment that keeps the problem's rules, or `InputError`."""
    if start is None:
        return None
    if isinstance(start, Solution):
        if start.assignment is None:
            raise InputError(f"the start holds no assignment: {start!r}")
        start = start.assignment
    report = problem.check(start)
    if not report.feasible:
        raise InputError(f"the start is not feasible: {report.violations[0]}")
    return problem.canonical(start)


def _run(
    problem: Problem, method: Method, budget: Budget, seed: int, start: np.ndarray | None, options: dict[str, Any]
) -> Answer:
    if not isinstance(problem, Prioritised) or not problem.priorities or method.kind == "relaxation":
        return _own(problem, method, budget, seed, start, options)
    with off_clock():
        from keyshift.solvers.stages import lexicographic

        later = None if method.later is None else partial(load(method.later), formulation=formulation_of(problem))

    def own(posed: Problem, share: Budget, known: np.ndarray | None) -> Answer:
        answer = _own(posed, method, share, seed, known, options)
        found = answer.assignment
        if answer.start is not None and answer.problem is None and found is not None and posed.violations(found):
            answer.assignment = answer.start  # a stage goes on from what keeps the rules
        return answer

    if later is not None and "own" in inspect.signature(later).parameters:
        later = partial(later, own=own)
    if start is None and method.takes_start:
        start = best_start(problem, method, budget, seed)
    return lexicographic(problem, own, later, budget=budget, seed=seed, start=start)


def _own(
    problem: Problem, method: Method, budget: Budget, seed: int, start: np.ndarray | None, options: dict[str, Any]
) -> Answer:
    """The method on a problem's own objective; a relaxation of a problem that puts another first bounds nothing."""
    if isinstance(problem, Prioritised) and problem.priorities:
        answer = _own(problem.plain(), method, budget, seed, start, options)
        return answer if problem.stages[0] == problem.own_measure else replace(answer, bound=None)
    if not method.takes_start:
        return method.function(problem, budget=budget, seed=seed, **options)
    alone = start is not None or not method.rivals
    if start is None:
        start = best_start(problem, method, budget, seed)
    if start is not None:
        budget.report(objective=problem.objective(start), note="start")
    most = math.inf if alone else budget.remaining - _kept_for(method.rivals, budget.remaining)
    part = budget if math.isinf(most) else budget.part(1.0, most)
    answer = method.function(problem, budget=part, seed=seed, start=start, **options)
    if not alone and answer.termination not in ("optimal", "infeasible") and answer.problem is None:
        answer = _with_rivals(problem, method, answer, budget, part, seed)
    if start is None:
        return answer
    if answer.termination == "infeasible":
        # A checked assignment disproves it: solvers do err. Neither their verdict nor their bound is worth keeping.
        return Answer(start, message=f"{method.name} found the problem infeasible, which its start disproves")
    if answer.assignment is None and answer.problem is None:
        answer.assignment = start
    answer.start = start
    return answer


def _kept_for(rivals: tuple[str, ...], seconds: float) -> float:
    """Of so many seconds, those that rivals of an unproven answer have together: a second, and never more than a tenth."""
    return min(0.1 * seconds, _enough(rivals, seconds, 1.0))


def _enough(names: tuple[str, ...], seconds: float, most: float) -> float:
    """Seconds for all of these: what they may take, or a hundredth of the limit each.

    Then the default is never worse than what one of them finds in that time.
    """
    return max(most, len(names) * 0.01 * seconds) if math.isfinite(seconds) else most


def _with_rivals(problem: Problem, method: Method, answer: Answer, budget: Budget, part: Budget, seed: int) -> Answer:
    """An unproven answer, or that of a rival that is better."""
    if part.expired and answer.termination in ("completed", "gap"):
        answer.termination = budget.ended("time_limit")  # its share of the time was used up
    found = None if answer.assignment is None else _better(problem, None, answer.assignment)
    # A method that comes back late leaves them their share all the same.
    left = budget.anew(0.0 if budget.interrupted else _kept_for(method.rivals, budget.time_limit))
    best = _tried(problem, method.rivals, left, seed, found)
    if best is not found and best is not None:
        answer.assignment = best[1]
    return answer


def best_start(problem: Problem, asked: Method, budget: Budget, seed: int) -> np.ndarray | None:
    """The best feasible start: the current assignment or an answer of the starting heuristics; None if none is feasible."""
    workload = getattr(problem, "workload", None)
    best: tuple[float, np.ndarray] | None = None
    if asked.starts and workload is not None:
        best = _better(problem, None, workload.current)
    most = _enough(asked.warm_start, budget.remaining, 2.0)
    # Half a second places a million key groups: of a short limit that is more than a quarter.
    many = workload is not None and workload.key_groups > 100_000
    share = max(0.25, min(0.5, 0.5 / max(budget.remaining, 1e-9))) if many else 0.25
    best = _tried(problem, asked.warm_start, budget.part(share, most), seed, best)
    for name in asked.rescue:
        if best is None:
            best = _tried(problem, (name,), budget.part(0.25), seed, None)
    return None if best is None else best[1]


def _tried(
    problem: Problem, names: tuple[str, ...], budget: Budget, seed: int, best: tuple[float, np.ndarray] | None
) -> tuple[float, np.ndarray] | None:
    """The best so far, or the answer of a heuristic that is better; each gets an equal share of the time that is left.

    One that takes a start, and is not the first, begins from the best so far.
    """
    plain = problem.plain() if isinstance(problem, Prioritised) else problem
    able = [method for method in _those(problem, names) if method.may_help(problem)]
    for at, method in enumerate(able):
        if budget.expired:
            break
        known = {"start": best[1]} if at > 0 and best is not None and method.takes_start else {}
        share = budget.part(1 / (len(able) - at), scale=0.0)
        _LOG.debug("asking %s, %.2f s at most", method.name, share.time_limit)
        best = _better(problem, best, method.function(plain, budget=share, seed=seed, **known).assignment)
    return best


def _those(problem: Problem, names: tuple[str, ...]) -> list[Method]:
    """The methods of these names, but for those that do not keep the problem's rules."""
    known = {method.name: method for method in methods(problem)}
    return [known[name] for name in names if name in known]


def _better(
    problem: Problem, best: tuple[float, np.ndarray] | None, candidate: np.ndarray | None
) -> tuple[float, np.ndarray] | None:
    """An objective and its assignment, or those of a candidate that is feasible and better."""
    try:
        nodes = problem.canonical(candidate)
    except InputError:  # the current nodes may have another shape than the problem's assignments
        return best
    value = problem.objective(nodes)
    return best if (best is not None and best[0] <= value) or problem.violations(nodes) else (float(value), nodes)


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C call `stop` and the second one end the program; only the main thread may do so.

    Where one such block runs within another - a solve within a search for remedies - the first Ctrl-C stops them all.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def first(signum: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        for each in _STOPS:
            each()

    outermost = not _STOPS
    _STOPS.append(stop)
    if outermost:
        signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        _STOPS.pop()
        if outermost:
            signal.signal(signal.SIGINT, before)


# warm_up: compile ahead what methods will need, for images, for CI, before a talk --------------------------------------


def warm_up(problem: Problem | str | None = None) -> float:
    """Compile in advance, and keep the compiled code for later processes.

    This is never required: kernels are compiled once per machine, when an instance is large enough to need them, and
    time limits do not count it. It saves the first user of an image, or the first job of a pipeline, from waiting.

    Parameters
    ----------
    problem : Problem or str, optional
        A problem: what its default method needs. The name of one, such as ``"mixed-routing"``: what all its methods
        need. None: everything, which takes some minutes.

    Returns
    -------
    float
        Seconds that compiling took; 0 if everything was compiled already.
    """
    if isinstance(problem, Problem):
        default = find_method(problem, None)
        methods = [default, *(find_method(problem, name) for name in default.starts)]
    elif problem is None:
        methods = [method for formulation in FORMULATIONS.values() for method in formulation.methods]
    elif problem in FORMULATIONS:
        methods = [*FORMULATIONS[problem].methods]
    else:
        raise InputError(f"problem {problem!r}: choose one of {', '.join(FORMULATIONS)}")
    before, name = COMPILING.anew, "all" if problem is None else problem if isinstance(problem, str) else ""
    below = (Path(next(iter(floor.__path__))) for floor in (models_floor, solvers, heuristics))
    floors = [Path(__file__).parent, *below]
    if name and is_warmed(name, floors):
        return 0.0
    for method in methods:
        method.compile_ahead()
    if name:
        note_warmed(name, floors)
    return COMPILING.anew - before


# Methods by their own names, callable on a problem: from keyshift.heuristics import albic ------------------------------


def methods_of(floor: str) -> dict[str, dict[str, Method]]:
    """The methods of a floor by name, with `_` for `-`, and by problem."""
    found: dict[str, dict[str, Method]] = {}
    for formulation in FORMULATIONS.values():
        for method in formulation.methods:
            code = method.code if isinstance(method.code, str) else f"{method.code.__module__}:"
            if code.startswith(f"{floor}."):
                found.setdefault(method.name.replace("-", "_"), {})[formulation.name] = method
    return found


def method_called(floor: ModuleType, name: str) -> Callable[..., Solution]:
    """The method of that name as a function of a problem; AttributeError where there is none, or a module is called so."""
    home = Path(floor.__path__[0])
    hidden = name.startswith("_") or (home / name).is_dir() or (home / name).with_suffix(".py").is_file()
    found = {} if hidden else methods_of(floor.__name__)
    if name not in found:
        raise AttributeError(f"module {floor.__name__} has no attribute {name}")
    of = found[name]

    def called(problem: Problem, **options: Any) -> Solution:
        if getattr(problem, "name", None) not in of:
            raise InputError(f"{name} answers {', '.join(of)}, not {getattr(problem, 'name', type(problem).__name__)}")
        return solve(problem, of[problem.name].name, **options)

    called.__name__, called.__qualname__, called.__module__ = name, name, floor.__name__
    called.__doc__ = "\n\n".join(page(problem, method) for problem, method in of.items())
    return called


def page(problem: str, method: Method) -> str:
    """What a method is: its source and guarantee, what its file and its function say, its options."""
    function = method.function
    said = [inspect.getdoc(sys.modules[function.__module__]) or "", inspect.getdoc(function) or ""]
    options = ", ".join(f"{name}={value!r}" for name, value in method.options.items())
    head = f'{problem} by "{method.name}" ({method.kind}): {method.source}. Guarantee: {method.guarantee}.'
    tail = f'As keyshift.solve(problem, "{method.name}"); its own options: {options or "none"}.'
    return "\n\n".join(filter(None, [head, *said, tail]))
