"""The errors that keyshift raises. Each has one sentence for the person who reads it."""


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
