"""Rehearse a method: run it on problems too small to take time, so that what it compiles is ready when time counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from keyshift.models import Answer, Budget, Problem
from keyshift.solvers.threads import nobody_is_left

SECONDS = 2.0
"""A rehearsal that takes longer has reached every kernel."""


def rehearse(method: Callable[..., Answer], problems: Iterable[Problem], **options: object) -> None:
    """Run a method on some problems and check its answers, which may call for kernels of the problem's own."""
    for problem in problems:
        with nobody_is_left():
            answer = method(problem, budget=Budget(SECONDS), **options)
        if answer.assignment is not None:
            (answer.problem or problem).check(answer.assignment)
