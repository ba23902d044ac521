"""The errors a caller can meet. Each carries one sentence written for the person who reads it."""


class KeyshiftError(Exception):
    """Base of every error that keyshift raises on purpose."""


class InputError(KeyshiftError, ValueError):
    """Bad input: the sentence names the field, the position and the value. The shell's exit code is 2."""


class ChangedWorkloadError(InputError):
    """A plan was compared with another workload than it was made for; `changes` has a sentence for each difference."""

    def __init__(self, sentence: str, changes: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.changes = changes


class MissingDependencyError(KeyshiftError, ImportError):
    """An optional part (Spark, Java, the demo's data) is not installed; the sentence says what to install."""


class BoundError(KeyshiftError, AssertionError):
    """A method claimed a bound that a checked assignment disproves: a defect of keyshift, never of the input."""
