"""The errors that keyshift raises. Each has one sentence for the person who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class KeyshiftError(Exception):
    """Base class of the errors that keyshift raises on purpose."""


class InputError(KeyshiftError, ValueError):
    """Bad input. The message names the field, the position and the value; on the shell the exit code is 2."""


class ChangedWorkloadError(InputError):
    """The workload is not the one that the plan was made for; `changes` has a sentence for each difference."""

    def __init__(self, sentence: str, changes: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.changes = changes


class MissingDependencyError(KeyshiftError, ImportError):
    """An optional part (Spark, Java, the demo's data) is not installed; the sentence says what to install."""


class BoundError(KeyshiftError, AssertionError):
    """A method claimed a bound that a checked assignment disproves. This is a defect of keyshift, not of the input."""


# What others raise, as bad input -----------------------------------------------------------------------------------------


@contextmanager
def refusing(sentence: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Within the block, an error of one of these kinds is bad input: `InputError` with the sentence, and its reason for {reason}.

    An `InputError` that has its own sentence keeps it.
    """
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        raise InputError(sentence.replace("{reason}", reason(error))) from None


@contextmanager
def naming(place: str | Path, before: str = ": ") -> Iterator[None]:
    """Put the file's name before every `InputError` of the block, unless it is there already."""
    try:
        yield
    except InputError as error:
        raise error if str(error).startswith(str(place)) else InputError(f"{place}{before}{error}") from None


@contextmanager
def needing(library: str, sentence: str) -> Iterator[None]:
    """Within the block, importing this library where it is not installed is `MissingDependencyError` with the sentence."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != library:
            raise
        raise MissingDependencyError(sentence) from None


def reason(error: BaseException) -> str:
    """The words of the operating system, or of a library, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = str(error).strip().splitlines()
    return said[0][:200] if said else type(error).__name__
