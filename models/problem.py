"""What every problem can say about an assignment without any solver: is it allowed, and what is it worth?"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.figures import figure
from keyshift.models.workload import Workload


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    Attributes
    ----------
    rule : str
        The parameter that sets the limit, or the rule's name.
    message : str
        One sentence for the reader.
    where : int or None
        The node, key group or message at fault, if there is one.
    amount : float
        By how much, in the unit of the limit.
    """

    rule: str
    message: str
    where: int | None = None
    amount: float = 0.0

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class CheckReport:
    """What `check` found.

    Attributes
    ----------
    feasible : bool
        Whether the assignment keeps every rule.
    violations : tuple of Violation
        The rules it breaks.
    objective : float
        Its value in the problem's unit, given even if it breaks a rule.
    metrics : dict of str to float
        Figures of the assignment, whatever the objective.
    """

    feasible: bool
    violations: tuple[Violation, ...]
    objective: float
    metrics: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        verdict = "feasible" if self.feasible else "; ".join(map(str, self.violations))
        return f"{verdict} (objective {figure(self.objective)})"


class Problem(ABC):
    """Base of every formulation. A subclass is a frozen dataclass that validates itself in ``__post_init__``.

    A subclass names itself, reads an assignment (`canonical`), lists broken rules (`violations`) and values
    (`objective`, `metrics`). All of it is plain arithmetic on arrays: `check` is what solvers are checked by.
    """

    name: ClassVar[str]
    """The name used by the catalogue and the command line, such as ``"key-group-allocation"``."""

    objective_name: ClassVar[str]
    """What the objective measures, for tables and axes; always minimised."""

    @classmethod
    def from_path(cls, path: str | Path, *, last: int | None = None, **parameters: Any) -> Self:
        """Build the problem from a workload on disk, or its `last` windows, and its own parameters, as the command line does."""
        from keyshift.models.files.workload import read_workload

        known = inspect.signature(cls).parameters
        needed = list(known)[1:]  # the first is the data
        if unknown := [name for name in parameters if name not in needed]:
            raise InputError(f"{cls.name} has no parameter {unknown[0]!r}; it has {', '.join(needed)}")
        missing = [n for n in needed if known[n].default is inspect.Parameter.empty and n not in parameters]
        if missing:
            raise InputError(f"{cls.name} needs {' and '.join(missing)}")
        return cls(read_workload(path, last=last), **parameters)  # type: ignore[call-arg]  # a subclass's dataclass fields

    def arguments(self) -> dict[str, Any]:
        """What the problem is made from, its data first, by the names of its parameters."""
        own = [f.name for f in fields(self) if f.init]  # type: ignore[arg-type]  # every problem is a dataclass
        return {name: _plain(getattr(self, name)) for name in own}

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt, not copied: what is cached or read-only neither pickles nor needs to.
        return _rebuilt, (type(self), self.arguments())

    def _put(self, name: str, value: object) -> None:
        """Set a field of the frozen dataclass, while it is being made."""
        object.__setattr__(self, name, value)

    def _require_workload(self) -> None:
        """Refuse anything else in the field `workload`."""
        given = self.workload  # type: ignore[attr-defined]  # a field of the subclass
        if not isinstance(given, Workload):
            raise InputError(f"workload must be a Workload, not a {type(given).__name__}")

    @abstractmethod
    def canonical(self, assignment: Any) -> np.ndarray:
        """Return the assignment as a fresh integer array of the right shape, or raise `InputError`."""

    @abstractmethod
    def violations(self, assignment: np.ndarray) -> list[Violation]:
        """List every rule that a canonical assignment breaks; empty when it is feasible."""

    @abstractmethod
    def objective(self, assignment: np.ndarray) -> float:
        """Value of a canonical assignment, to be minimised."""

    @abstractmethod
    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        """Further figures of a canonical assignment, by their public names."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The size of one natural unit of the objective (the mean node load, the total state), > 0."""

    @property
    def tolerance(self) -> float:
        """Two objectives closer than this are the same: a millionth of `scale`."""
        return 1e-6 * self.scale

    def tolerance_of(self, objective: float) -> float:
        """How far below an objective a bound may lie that still proves it optimal, in the objective's units.

        It is what "optimal" means: `Solution.tolerance` says it with every verdict. By default `tolerance`, whatever
        the objective; a problem whose methods prove more ties it to the size of the answer, down to 0 for an
        objective of 0.
        """
        return self.tolerance

    def conflicts(self) -> list[str]:
        """Sentences that prove, by arithmetic alone, that no assignment is feasible; empty when none is found."""
        return []

    def record(self) -> dict[str, Any]:
        """The instance in exact numbers, as a certificate states it (`keyshift.models.records`).

        Raises
        ------
        InputError
            Where certificates do not know the formulation, or one of its options.
        """
        raise InputError(f"there are no certificates for {self.name}")

    def recorded(self, assignment: np.ndarray) -> Any:
        """A canonical assignment as a certificate states it: a node for each key group, unless the formulation differs."""
        return assignment.tolist()

    def check(self, assignment: Any) -> CheckReport:
        """Check an assignment; needs no solver.

        Parameters
        ----------
        assignment : array_like of int
            In the shape the problem asks for, usually the node of each key group, shape (p,).

        Returns
        -------
        CheckReport

        Raises
        ------
        InputError
            If it has the wrong shape or names an unknown node.
        """
        nodes = self.canonical(assignment)
        broken = tuple(self.violations(nodes))
        return CheckReport(not broken, broken, float(self.objective(nodes)), self.metrics(nodes))


class MovesState(Problem):
    """A problem whose objective is state moved."""

    @property
    def scale(self) -> float:
        """All the state (1 when there is none)."""
        return float(self.workload.state.sum()) or 1.0  # type: ignore[attr-defined]  # a field of the subclass


def _plain(value: Any) -> Any:
    """Read-only mappings as plain ones."""
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _rebuilt(cls: type[Problem], arguments: dict[str, Any]) -> Problem:
    return cls(**arguments)


def read_assignment(assignment: Any, key_groups: int, nodes: int) -> np.ndarray:
    """Read the node of each key group, shape (p,), as a fresh int64 array, or raise `InputError`."""
    try:
        read = np.asarray(assignment)
        if read.dtype.kind not in "iufO":  # true is not a node, nor is the text "1"
            raise TypeError
        given = np.array(read, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("assignment must be an array of node numbers") from None
    if given.shape != (key_groups,):
        raise InputError(f"assignment has shape {given.shape}, expected ({key_groups},): one node for each key group")
    wrong = ~np.isfinite(given) | (given != np.floor(given)) | (given < 0) | (given >= nodes)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(f"assignment[{k}] = {given[k]:g} is not a node: they are numbered 0 to {nodes - 1}")
    return given.astype(np.int64)
