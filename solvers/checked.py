"""Statements held to the check: what a solver's roundings let in is cut off, and no start is lost on the way."""

from __future__ import annotations

import ctypes
import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import copy_context
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from keyshift.models import Answer, Budget, Problem
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.lazily import load
from keyshift.solvers.threads import POLL_SECONDS

STRICT = os.environ.get("KEYSHIFT_STRICT") == "1"
"""Whether a candidate that breaks what its search promises to keep is an error: tests set it. Else it is passed over."""
LAST_WORDS = 0.2
"""Seconds for a thread that is told to stop."""
STATED = 1_000_000
"""Pairs of a key group and a node of the largest statement that is written down: each takes some kilobytes, and 10 us or more."""
NO_ASSIGNMENT = "no assignment meets all limits"
Made = TypeVar("Made")


class _Stopped(BaseException):
    """Raised in a thread whose work is no longer wanted."""


class _OfThoseThatGoOn(logging.Filter):
    """Keeps Pyomo from logging as an error that the thread which writes a model down was stopped."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in _STOPPED


_STOPPED: set[int] = set()
logging.getLogger("pyomo.core").addFilter(_OfThoseThatGoOn())


class BrokenPromiseError(AssertionError):
    """In strict mode: a search offered what it should never come to."""


def kept(problem: Problem, assignment: np.ndarray, but: Collection[str] | None = ()) -> bool:
    """Whether a candidate passes the check.

    Parameters
    ----------
    problem : Problem
    assignment : ndarray
    but : collection of str, optional
        The rules that who offers it may well break; None for all. In strict mode any other broken rule is an error: a search
        that strays from the problem's rules loses its quality without a word, since whatever it finds then is passed over.

    Raises
    ------
    BrokenPromiseError
    """
    broken = problem.violations(assignment)
    wrong = [] if but is None else [v for v in broken if v.rule not in but]
    promised(not wrong, f"{problem!r}: {assignment.tolist()}: {wrong[0]}" if wrong else "")
    return not broken


def promised(holds: bool, said: str) -> None:
    """An error in strict mode where what a search promises does not hold."""
    if STRICT and not holds:
        raise BrokenPromiseError(said)


def within(budget: Budget, make: Callable[[], Made], variables: float = math.inf) -> Made | None:
    """Run something that cannot look at the clock itself, such as writing a model down; None when the budget ends first.

    It runs in a thread of its own, which is stopped at its next step in Python; a model of a few `variables` needs none.
    """
    # Fewer are written down in some ten milliseconds.
    if variables < 400:
        return None if budget.expired else make()
    made: list[Made] = []
    failures: list[BaseException] = []

    def work() -> None:
        with suppress(_Stopped):  # which may come as late as in the last lines
            try:
                made.append(make())
            except _Stopped:
                pass
            except BaseException as error:  # handed on to the caller below
                failures.append(error)
            finally:
                _STOPPED.discard(threading.get_ident())

    worker = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    if budget.expired:
        return None
    worker.start()
    while worker.is_alive():
        worker.join(POLL_SECONDS)
        if worker.is_alive() and budget.late:
            _stop(worker)
            return None
    if failures:
        raise failures[0]
    return made[0]


def too_large(problem: Any) -> str:
    """Why a problem's statement is not written down, where it has too many pairs; else nothing."""
    workload = getattr(problem, "workload", None)
    pairs = 0 if workload is None else workload.key_groups * problem.places
    if pairs <= STATED:
        return ""
    return f"a statement of {pairs:,} pairs of a key group and a node is too large: at most {STATED:,} are written down"


def _stop(worker: threading.Thread) -> None:
    """Ask a thread to end at its next step in Python, and go on asking where it does not hear at once."""
    asking = threading.Thread(target=_ask_until_it_ends, args=(worker,), daemon=True)
    asking.start()
    asking.join(LAST_WORDS)


def _ask_until_it_ends(worker: threading.Thread) -> None:
    """Repeat the request: an exception that is raised during garbage collection is lost."""
    assert worker.ident is not None
    _STOPPED.add(worker.ident)
    usual, usual_of_threads = sys.unraisablehook, threading.excepthook

    def quiet(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is not _Stopped:
            usual(unraisable)

    def quiet_thread(raised: threading.ExceptHookArgs) -> None:
        if raised.exc_type is not _Stopped:
            usual_of_threads(raised)

    sys.unraisablehook, threading.excepthook = quiet, quiet_thread
    while worker.is_alive():
        if not _imports(worker.ident):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(_Stopped))
        worker.join(POLL_SECONDS)
    _STOPPED.discard(worker.ident)  # it may have ended before it was noted
    if sys.unraisablehook is quiet:  # it has not been replaced meanwhile
        sys.unraisablehook = usual
    if threading.excepthook is quiet_thread:
        threading.excepthook = usual_of_threads


def _imports(ident: int) -> bool:
    """Whether a thread imports a module just now: stopped half-way, the module could not be imported again."""
    frame = sys._current_frames().get(ident)
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def within_bounds(values: Any, lower: Any, upper: Any, whole: Any = False) -> np.ndarray | None:
    """A solver's values, held against the bounds of its variables; None where one of them cannot be meant.

    What lies outside by no more than rounding is put on the bound. HiGHS 1.13 ends at a limit of nodes with 2 and -1 for two
    binary variables (tests/strangers/test_printed.py); whatever such a run proves rests on points like these.

    Parameters
    ----------
    values, lower, upper : array_like, shape (variables,)
    whole : bool or array_like of bool
        Which variables are whole.
    """
    found, low, high = (np.asarray(each, dtype=np.float64) for each in (values, lower, upper))
    # Rounding may put a solver's value outside its bounds by this, in units of 1 or of the value, whichever is larger.
    slack = 1e-6 * np.maximum(1.0, np.abs(found))
    meant = (found >= low - slack) & (found <= high + slack)  # False for nan
    # A whole variable may be this far from a whole number: rows of large coefficients are kept all the same, or the
    # check fails.
    meant &= ~np.asarray(whole, dtype=bool) | (np.abs(found - np.rint(found)) <= 1e-3)
    return np.clip(found, low, high) if bool(meant.all()) else None


def is_met(problem: Problem, answer: Answer) -> bool:
    """Whether an answer is optimal by its own bound."""
    if answer.assignment is None or answer.bound is None:
        return False
    value = problem.objective(answer.assignment)
    return value - answer.bound <= problem.tolerance_of(value)


def until_checked(
    problem: Problem,
    run: Callable[[], Answer],
    forbid: Callable[[np.ndarray], object] | None,
    start: np.ndarray | None = None,
) -> Answer:
    """Run a model again, without the assignment that it gave, as long as the check refuses what rounding let in.

    A solver that gives again what was cut off is not asked any more.

    Parameters
    ----------
    problem : Problem
    run : callable
        Solves the model, a relaxation: its bound, and its verdict that there is nothing, hold for the problem.
    forbid : callable or None
        Cuts an assignment that the check refuses off the model.
    start : ndarray, optional
        A feasible assignment: the answer is never worse.
    """
    bounds, refused = [-np.inf], set[bytes]()
    while True:
        answer = run()
        if answer.bound is not None:
            bounds.append(answer.bound)
        if answer.assignment is None or not problem.violations(answer.assignment):
            break
        given, answer.assignment = answer.assignment, None
        if answer.termination not in ("optimal", "gap", "completed"):
            break
        if forbid is None or given.tobytes() in refused:
            answer.termination = "gap"
            break
        refused.add(given.tobytes())
        forbid(given)
    if answer.bound is not None:
        answer.bound = max(bounds)
    return better_of(problem, answer, start)


def confirmed(
    problem: Problem, answer: Answer, second: Callable[..., Answer], *, budget: Budget, **asked: Any
) -> Answer:
    """The proof of an answer, repeated by CP-SAT in whole numbers (`second`) where a solver's tolerances make it doubtful.

    The first one's bound stays where it is higher and no assignment refutes it.
    """
    first = answer
    if first.termination != "infeasible" and (first.termination != "gap" or budget.expired or is_met(problem, first)):
        return first
    other = second(problem, budget=budget, start=first.assignment, **asked)
    if first.termination == "infeasible":
        if other.termination == "infeasible":
            return first
    elif first.bound is not None:
        value = None if other.assignment is None else problem.objective(other.assignment)
        if value is None or first.bound <= value + problem.tolerance_of(value):
            other.bound = max(other.bound or 0.0, first.bound)
    other.details = {**first.details, **other.details, "second_opinion": "CP-SAT"}
    return other


def answered(
    problem: Problem,
    solver: str,
    statement: Any,
    *given: Any,
    budget: Budget,
    start: np.ndarray | None = None,
    least: float = 0.0,
    **asked: Any,
) -> Answer:
    """What a solver makes of a problem's statement: checked, never worse than the start, optimal where its own bound says so.

    Parameters
    ----------
    problem : Problem
    solver : str
        A module of `keyshift.solvers` with a `solve`: "highs", "cpsat", "mathopt".
    statement : class, or what `lazily` makes of it
        It is written down of the problem and what else is `given`, and loaded off the clock.
    start : ndarray, optional
        A feasible assignment.
    least : float
        A bound that is known already.
    **asked
        As for the solver's `solve`.
    """
    if said := too_large(problem):
        return Answer(start, least, message=said)
    with off_clock():
        solve, make = import_module(f"keyshift.solvers.{solver}").solve, load(statement)
    stated = within(budget, lambda: make(problem, *given))
    if stated is None:
        return Answer(start, least, budget.why, "the time limit was reached while the model was written down")
    forbid = getattr(stated, "forbid", None)
    answer = until_checked(problem, lambda: solve(stated, budget, start, **asked), forbid, start)
    if answer.termination == "infeasible":
        return answer if start is None else Answer(start, least, "gap")
    if answer.bound is not None:
        answer.bound = max(answer.bound, least)
    answer = without_false_bound(problem, answer)
    if answer.assignment is not None and is_met(problem, answer):
        answer.termination = "optimal"
    elif answer.termination == "optimal":
        answer.termination = "gap"
    return answer


def without_false_bound(problem: Problem, answer: Answer) -> Answer:
    """The answer, its bound 0 where its own assignment refutes it: what is plainly wrong is worth nothing."""
    if answer.assignment is not None:
        value = problem.objective(answer.assignment)
        if (answer.bound or 0.0) > value + problem.tolerance_of(value):
            answer.bound, answer.termination = 0.0, "gap"
    return answer


def better_of(problem: Problem, answer: Answer, start: np.ndarray | None) -> Answer:
    """The answer, with the start in it where that is better."""
    if start is not None and answer.termination != "infeasible":
        given = answer.assignment
        if given is None or problem.objective(start) < problem.objective(given):
            answer.assignment = start
    return answer
