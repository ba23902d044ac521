"""Exercises, and the trial of a submitted function."""

from __future__ import annotations

import contextlib
import copy
import reprlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Instance = dict[str, Any]
"""The arguments of one call by name: plain lists and numbers, as a reader would write them."""
Values = tuple[Any, ...]
"""The same without the names, in the order of the task's signature."""
TIME_LIMIT = 5.0


class FailedCallError(Exception):
    """A call that gave no answer; the message is a sentence about it that begins with "your function"."""


class _AlarmError(BaseException):
    """The time of a call is over; no Exception, since a loop may catch all of those."""


@dataclass(frozen=True)
class Verdict:
    """The result of trying a function; true if it passed every instance.

    Attributes
    ----------
    exercise : str
    tried : int
        Instances tried, the failing one included; 0 if there was no function to try.
    seed : int or None
        The seed of the instance that failed; None if it is one of the planted ones.
    instance : dict or None
        The instance that failed; None if none did.
    complaint : str
        What was wrong; empty if nothing was.
    """

    exercise: str
    tried: int
    seed: int | None = None
    instance: Instance | None = None
    complaint: str = ""

    def __bool__(self) -> bool:
        return not self.complaint

    def __str__(self) -> str:
        if not self.complaint:
            return f"{self.exercise}: passed on {self.tried} instances"
        if self.instance is None:
            return f"{self.exercise}: {self.complaint}"
        given = "\n".join(f"    {name} = {value}" for name, value in self.instance.items())
        origin = "planted" if self.seed is None else f"seed {self.seed}"
        return f"{self.exercise}: fails on instance {self.tried} ({origin})\n{given}\n{self.complaint}"


@dataclass(frozen=True)
class Exercise:
    """A question with a checker.

    Attributes
    ----------
    task : str
        Signature, arguments, and what to return. The function's name, with hyphens, is the exercise's.
    returns : {"number", "number or None", "numbers", "pairs"}
        What an answer must be; anything else is refused in one sentence before it is judged.
    draw : callable
        ``draw(rng, size)`` gives an instance's values; `size` grows from 0 to 1, so that the first to fail is a small one.
    judge : callable
        ``judge(returned, *values)`` gives what is wrong with an answer, or an empty text. It knows only brute force.
    planted : tuple of tuple
        Instances that are tried first: each catches a common mistake that drawn ones rarely catch.
    """

    task: str
    returns: str
    draw: Callable[[np.random.Generator, float], Values]
    judge: Callable[..., str]
    planted: tuple[Values, ...] = ()

    @property
    def function(self) -> str:
        """The name of the function that the task asks for."""
        return self.task.partition("(")[0]

    @property
    def name(self) -> str:
        """The exercise's own name."""
        return self.function.replace("_", "-")

    def instances(self, seeds: int, first: int) -> Iterator[tuple[int | None, Instance]]:
        """So many instances with their seeds: the planted ones, then drawn ones, from small to large."""
        names = self.task.partition(")")[0].partition("(")[2].split(", ")
        for planted in self.planted[:seeds]:
            yield None, dict(zip(names, planted, strict=True))
        for i in range(seeds - len(self.planted)):
            # After so many drawn instances they are as large as they get: what is wrong must fail early.
            drawn = self.draw(np.random.default_rng(first + i), min(1.0, i / 15))
            yield first + i, dict(zip(names, drawn, strict=True))

    def check(
        self, function: Callable[..., Any], seeds: int = 100, first: int = 0, time_limit: float = TIME_LIMIT
    ) -> Verdict:
        """Try a function on this many instances; stop at the first that fails."""
        for tried, (seed, instance) in enumerate(self.instances(seeds, first), 1):
            complaint = self._complaint(function, instance, time_limit)
            if complaint:
                return Verdict(self.name, tried, seed, instance, complaint)
        return Verdict(self.name, seeds)

    def _complaint(self, function: Callable[..., Any], instance: Instance, time_limit: float) -> str:
        given = copy.deepcopy(instance)
        try:
            with _alarm(time_limit):
                returned = function(**given)
        except _AlarmError:
            return f"your function had not returned after {time_limit:g} seconds"
        except FailedCallError as failed:
            return str(failed)
        except (Exception, SystemExit) as error:
            return "your function raised " + f"{type(error).__name__}: {error}".removesuffix(": ")
        if given != instance:
            return "your function changed its arguments: copy them first"
        answer = plain(returned)
        words, fits = ANSWERS[self.returns]
        if not fits(answer):
            return f"you returned {reprlib.repr(returned)}, {_kind(returned)}; the task asks for {words}"
        return self.judge(answer, *instance.values())


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """End a block after so many seconds, wherever Python can: in the main thread, and not under Windows."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise _AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)  # it rings again: a loop may catch whatever is raised in it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Answers ---------------------------------------------------------------------------------------------------------------


def plain(returned: Any) -> Any:
    """An answer with lists instead of arrays and tuples."""
    if isinstance(returned, np.ndarray | np.generic):
        returned = returned.tolist()
    return [plain(x) for x in returned] if isinstance(returned, list | tuple) else returned


def _number(x: Any) -> bool:
    return isinstance(x, int | float | Fraction) and not isinstance(x, bool) and -1e300 < x < 1e300


def _numbers(x: Any) -> bool:
    return isinstance(x, list) and all(map(_number, x))


def _pairs(x: Any) -> bool:
    return isinstance(x, list) and all(_numbers(pair) and len(pair) == 2 for pair in x)


ANSWERS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "number": ("a number", _number),
    "number or None": ("a number, or None", lambda x: x is None or _number(x)),
    "numbers": ("a list of numbers", _numbers),
    "pairs": ("a list of pairs of numbers", _pairs),
}
"""What `returns` may be: in words, and whether a value is one."""


def _kind(returned: Any) -> str:
    """The kind of a returned value that is no answer."""
    if returned is None:
        return "nothing at all"
    if isinstance(returned, float) and not _number(returned):
        return "no finite number"
    return f"of type {type(returned).__name__}"


def differs(returned: float | None, expected: float | None, what: str) -> str:
    """A complaint when a number is not the expected one, up to rounding; None stands for "impossible"."""
    if returned is None or expected is None:
        same = returned is expected
    else:
        same = abs(returned - expected) <= 1e-6 * max(1.0, abs(expected))
    return "" if same else f"you returned {returned}; {what} is {expected}"
