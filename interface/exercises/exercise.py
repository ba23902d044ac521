"""Exercises, and the trial of a submitted function."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import reprlib
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from keyshift.exercises import submission
from keyshift.models.base.disk import parse_json
from keyshift.models.errors import InputError

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
        ``judge(returned, *values)`` gives what is wrong with an answer, or an empty text. It uses brute force only.
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
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)  # it rings again: a loop may catch what is raised in it
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


# Exercise sheets, and the grader: a stranger's file runs in a process of its own, with limits, and is judged from outsi


LOADING = 20.0
"""Seconds in which a file must have run, imports included."""
PATIENCE = 12
"""All calls of an exercise together may take so many times as long as one."""


@dataclass(frozen=True)
class Sheet:
    """Exercises of one week.

    Attributes
    ----------
    number : int
    title : str
    marks : mapping of str to int
        What each exercise is worth.
    by_hand : tuple of int
        The worksheets of the workbook *First formulation by hand* that go with it.
    """

    number: int
    title: str
    marks: Mapping[str, int]
    by_hand: tuple[int, ...] = ()


_SHEETS = (
    Sheet(1, "Loads and few moves", {"load-distance": 4, "allocation": 6}, (1, 2)),
    Sheet(2, "What a bound is worth", {"fewest-moves": 10}, (3, 5)),
    Sheet(3, "Traffic", {"remote-traffic": 10}, (8,)),
    Sheet(4, "Over time", {"draining": 10}, (4,)),
    Sheet(5, "Two objectives", {"front": 10}, (6, 7)),
    Sheet(6, "Streams of messages", {"greedy-two": 4, "split-optimum": 6}, (10, 11)),
    Sheet(7, "A hash and its exceptions", {"mixed-routing": 10}, (9,)),
    Sheet(8, "Intervals and futures", {"intervals": 5, "policy-value": 5}, (12,)),
)
SHEETS: Mapping[int, Sheet] = MappingProxyType({sheet.number: sheet for sheet in _SHEETS})


@dataclass(frozen=True)
class Grade:
    """The marks of a submission.

    Attributes
    ----------
    sheet : Sheet
    verdicts : dict of str to Verdict
        By exercise.
    """

    sheet: Sheet
    verdicts: Mapping[str, Verdict]

    @property
    def marks(self) -> dict[str, int]:
        """The marks of each exercise: all of them or none."""
        return {name: self.sheet.marks[name] if verdict else 0 for name, verdict in self.verdicts.items()}

    @property
    def total(self) -> int:
        """The sum of the marks."""
        return sum(self.marks.values())

    @property
    def most(self) -> int:
        """The most marks that the sheet allows."""
        return sum(self.sheet.marks.values())

    def to_dict(self) -> dict[str, Any]:
        """The marks and verdicts as plain values, for JSON."""
        rows = [
            {"exercise": name, "marks": self.marks[name], "of": self.sheet.marks[name],
             **{part: getattr(verdict, part) for part in ("tried", "seed", "instance", "complaint")}}
            for name, verdict in self.verdicts.items()
        ]  # fmt: skip
        return {"sheet": self.sheet.number, "marks": self.total, "of": self.most, "exercises": rows}


def grade(path: str | Path, sheet: int, *, seeds: int = 100, first: int = 0, time_limit: float = TIME_LIMIT) -> Grade:
    """Try the functions of a file on the instances of a sheet's exercises.

    A submission is a program, and it is run: in a process of its own, with a time limit, 2 GB of memory, and unable to write
    to files. That prevents accidents, not malice: it can read and delete whatever you can. Run strangers' files in a
    container or as a user without rights. The submission cannot import keyshift, and its answers are judged outside its
    process.

    Parameters
    ----------
    path : str or path
        A Python file with a function for each exercise, of the name that its task says.
    sheet : int
    seeds : int, default 100
        Instances of each exercise.
    first : int, default 0
        The first seed of the drawn ones; for the final marks one that no student has seen.
    time_limit : float, default 5
        Seconds for a call; all calls of an exercise may take twelve times as long.

    Returns
    -------
    Grade
    """
    from keyshift.exercises import EXERCISES

    if sheet not in SHEETS:
        raise InputError(f"there is no sheet {sheet}: choose one of {', '.join(map(str, SHEETS))}")
    path, wanted = Path(path), SHEETS[sheet]
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    verdicts = {}
    for name in wanted.marks:
        with Process(path, EXERCISES[name], time_limit) as process:
            try:
                process.load()
            except FailedCallError as failed:
                verdicts[name] = Verdict(name, 0, complaint=str(failed))
            else:
                verdicts[name] = EXERCISES[name].check(process.call, seeds, first, time_limit)
    return Grade(wanted, verdicts)


class Process:
    """A process that runs a submission and answers calls of one function."""

    def __init__(self, path: Path, exercise: Exercise, time_limit: float) -> None:
        self.exercise, self.time_limit = exercise, time_limit
        self.last = time.monotonic() + LOADING + PATIENCE * time_limit
        self.folder = tempfile.TemporaryDirectory(prefix="keyshift-grade-")
        seconds = int(LOADING + PATIENCE * time_limit) + 1
        # Bytes that a submission may use; NumPy alone maps some hundred millions.
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", submission.__file__, str(path.resolve()), str(2 << 30), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder.name,
            env={"PATH": os.defpath, "HOME": self.folder.name, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and what it may have started."""
        with contextlib.suppress(ProcessLookupError, AttributeError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def load(self) -> None:
        """Wait until the file has run; FailedCallError where it fails or lacks the function."""
        name = self.exercise.function
        if name not in (self._answer("functions", LOADING, "the file was not loaded") or []):
            raise FailedCallError(f"your file has no function {name}")

    def call(self, **given: Any) -> Any:
        """The value that the submission's function returns; FailedCallError where it returns nothing."""
        record = {"function": self.exercise.function, "given": given}
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe("stdin"), json.dumps(record).encode() + b"\n")
        return self._answer("returned", self.time_limit, "your function had not returned")

    def _pipe(self, name: str) -> int:
        return int(getattr(self.process, name).fileno())

    def _answer(self, key: str, seconds: float, late: str) -> Any:
        """The record on the next line, read within so many seconds and the rest of the whole time."""
        text, until = b"", min(time.monotonic() + seconds, self.last)
        while not text.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._pipe("stdout")], [], [], left)[0]:
                whole = until == self.last
                said = f"{late} after {seconds:g} seconds" if not whole else "all calls together took too long"
                raise FailedCallError(said)
            more = os.read(self._pipe("stdout"), 1 << 16)
            if not more or len(text) > 10 * submission.MOST_LETTERS:
                raise FailedCallError("your function ended the process that called it: out of memory, or out of time")
            text += more
        try:
            answer = parse_json(text.decode(), "the answer")
            if "failed" in answer:
                raise FailedCallError(str(answer["failed"]))
            return answer[key]
        except (InputError, ValueError, TypeError, KeyError):  # written by the submission itself, past what calls it
            raise FailedCallError("your function changed the process that called it") from None
