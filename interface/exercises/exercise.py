"""Exercises, and the trial of a submitted function."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Instance = dict[str, Any]
"""The arguments of one call by name: plain lists and numbers, as a reader would write them."""


@dataclass(frozen=True)
class Verdict:
    """The result of trying a function; true if it passed every instance.

    Attributes
    ----------
    exercise : str
    tried : int
        Instances tried, the failing one included.
    seed : int or None
        The seed that failed.
    instance : dict or None
        The instance that failed.
    complaint : str
        What was wrong there.
    """

    exercise: str
    tried: int
    seed: int | None = None
    instance: Instance | None = None
    complaint: str = ""

    def __bool__(self) -> bool:
        return self.instance is None

    def __str__(self) -> str:
        if self.instance is None:
            return f"{self.exercise}: passed on {self.tried} instances"
        given = "\n".join(f"    {name} = {value}" for name, value in self.instance.items())
        return f"{self.exercise}: fails on instance {self.tried} (seed {self.seed})\n{given}\n{self.complaint}"


@dataclass(frozen=True)
class Exercise:
    """A question with a checker.

    Attributes
    ----------
    name : str
    task : str
        Signature, arguments, and what to return.
    draw : callable
        ``draw(rng, size)`` gives an instance; `size` grows from 0 to 1, so that the first to fail is a small one.
    judge : callable
        ``judge(instance, returned)`` gives what is wrong with an answer, or an empty text. It knows only brute force.
    """

    name: str
    task: str
    draw: Callable[[np.random.Generator, float], Instance]
    judge: Callable[[Instance, Any], str]

    def check(self, function: Callable[..., Any], seeds: int = 100, first: int = 0) -> Verdict:
        """Try a function on this many instances; stop at the first that fails."""
        for i in range(seeds):
            instance = self.draw(np.random.default_rng(first + i), i / max(seeds - 1, 1))
            complaint = self._complaint(function, instance)
            if complaint:
                return Verdict(self.name, i + 1, first + i, instance, complaint)
        return Verdict(self.name, seeds)

    def _complaint(self, function: Callable[..., Any], instance: Instance) -> str:
        given = copy.deepcopy(instance)
        try:
            returned = function(**given)
        except Exception as error:
            return f"your function raised {type(error).__name__}: {error}"
        if given != instance:
            return "your function changed its arguments: copy them first"
        try:
            return self.judge(instance, returned)
        except (TypeError, ValueError, IndexError, KeyError):
            return f"your function returned {returned!r}, which is not what the task asks for"


def differs(returned: Any, expected: float | None, what: str) -> str:
    """A complaint when a number is not the expected one, up to rounding; None stands for "impossible"."""
    if returned is None or expected is None:
        same = returned is expected
    else:
        same = abs(float(returned) - expected) <= 1e-6 * max(1.0, abs(expected))
    return "" if same else f"you returned {returned}; {what} is {expected}"
