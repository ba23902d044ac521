"""Exercises that check themselves: a function of yours is tried on many small instances, each against brute force.

>>> from keyshift import exercises
>>> print(exercises.task("load-distance"))
load_distance(load, assignment, nodes) -> float
...
>>> def load_distance(load, assignment, nodes):
...     return max(load)
>>> bool(exercises.check("load-distance", load_distance))
False

Begin in `exercise.py`: what an exercise is, and how a function is tried. The exercises themselves are in
`questions.py`. `grade` marks files of solutions, which run in the process of `submission.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyshift.exercises.exercise import SHEETS, TIME_LIMIT, Exercise, Grade, Sheet, Verdict, grade
from keyshift.exercises.questions import PLACEMENT, STREAMS
from keyshift.models import InputError

__all__ = ["EXERCISES", "SHEETS", "Exercise", "Grade", "Sheet", "Verdict", "check", "grade", "names", "task"]

EXERCISES: dict[str, Exercise] = {e.name: e for e in (*PLACEMENT, *STREAMS)}
"""Every exercise by its name, in the order of the syllabus."""


def names() -> list[str]:
    """The names of all exercises, in the order of the syllabus."""
    return list(EXERCISES)


def task(name: str) -> str:
    """The task of an exercise: the signature, the arguments, and the value to return."""
    return _named(name).task


def check(
    name: str, function: Callable[..., Any], seeds: int = 100, first: int = 0, time_limit: float = TIME_LIMIT
) -> Verdict:
    """Try a function on instances until one fails: a few planted ones, then drawn ones, from small to large.

    Parameters
    ----------
    name : str
        One of `names`.
    function : callable
        Takes the arguments that `task` lists, as copies.
    seeds : int, default 100
        How many instances, the planted ones included.
    first : int, default 0
        The first seed of the drawn ones. Teachers use another one for the final check.
    time_limit : float, default 5
        Seconds that a call may take, so that an endless loop ends. This holds in the main thread, not under Windows.

    Returns
    -------
    Verdict
        True if all passed; prints what failed.

    Raises
    ------
    InputError
        If there is no exercise of that name.
    """
    return _named(name).check(function, seeds, first, time_limit)


def _named(name: str) -> Exercise:
    if name not in EXERCISES:
        raise InputError(f"exercise {name!r} is unknown; there are {', '.join(EXERCISES)}")
    return EXERCISES[name]
