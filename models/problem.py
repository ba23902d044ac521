"""What every problem computes without a solver: violations and objective of an assignment, binding limits, the next period.

`Problem` is the one protocol of all formulations: plans, remedies, replays and engines depend on nothing else.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from keyshift.models import metrics
from keyshift.models.base.figures import figure
from keyshift.models.base.labels import ordered
from keyshift.models.base.lazily import load
from keyshift.models.errors import InputError, refusing
from keyshift.models.workload import IntArray, Workload, grown

Number = float | Fraction
SLACK = 1e-9
"""By what share the rounding of sums may exceed a limit in a check; a limit that is met within it binds."""


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
    """The result of `check`.

    Attributes
    ----------
    feasible : bool
        Whether the assignment keeps every rule.
    violations : tuple of Violation
        The rules it breaks.
    objective : float
        Its objective value in the problem's unit, even if it breaks a rule.
    metrics : dict of str to float
        Further figures of the assignment.
    """

    feasible: bool
    violations: tuple[Violation, ...]
    objective: float
    metrics: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        verdict = "feasible" if self.feasible else "; ".join(map(str, self.violations))
        return f"{verdict} (objective {figure(self.objective)})"


@dataclass(frozen=True, eq=False)
class Limit:
    """One limit of a problem, for `remedies`, `explain` and `repair`.

    Attributes
    ----------
    name : str
        The problem's parameter, ``"resource_capacity.<name>"``, or ``"nodes"``.
    value : float or Fraction
        As it is now; for a resource, 1: a factor on every node's capacity; for nodes, how many there are.
    at : callable
        The problem with another value.
    needed : callable or None
        The tightest value that an assignment keeps; None where that says nothing.
    ends : float or None
        A value that limits nothing; None where there is none.
    whole : bool
        Whether only whole numbers make sense.
    step : float
        A little more of it, for marginal values.
    down : bool
        Whether the limit loosens as the value falls.
    ordered : bool
        Whether a looser value admits all that a tighter one does. Another number of nodes does not: it moves the mean.
    arithmetic : callable or None
        The least value by arithmetic alone, where all other limits cannot stand in its way.
    drops : bool
        Whether it stands for a rule as a whole: 1 with it, 0 without.
    beside : str
        What has to be given beside another value, such as ``"nodes_after = 2"``: it is derived from the limit where it is not.
    """

    name: str
    value: Number
    at: Callable[[Number], Problem]
    needed: Callable[[np.ndarray], Number] | None = None
    ends: Number | None = None
    whole: bool = False
    step: float = 1.0
    down: bool = False
    ordered: bool = True
    arithmetic: Callable[[], Number] | None = None
    drops: bool = False
    beside: str = ""

    @classmethod
    def of(cls, problem: Problem, name: str, *, whole: bool = False, **more: Any) -> Limit:
        """The limit set by a parameter; further fields as above."""
        return cls(
            name, getattr(problem, name), lambda value: problem.changed(**{name: int(value) if whole else value}),
            whole=whole, **more,
        )  # fmt: skip


def below_step(tolerance: float, step: float) -> float:
    """A tolerance within which no two different objectives count as equal; as it is where there is no step between them."""
    return min(tolerance, step / 2) if step > 0 else tolerance


def step_of_sums(numbers: np.ndarray) -> float:
    """By how much sums of some of these numbers differ at least: by their common divisor, or what floats can tell; else by 0."""
    if not (numbers == np.floor(numbers)).all() or not numbers.max(initial=0.0) < 2.0**62:
        return 0.0
    return max(float(np.gcd.reduce(numbers.astype(np.int64).ravel())), 2.0**-50 * float(numbers.sum()))


class Problem(ABC):
    """Base class of every formulation. A subclass is a frozen dataclass that validates itself in ``__post_init__``.

    A subclass names itself, reads an assignment (`canonical`), lists broken rules (`violations`) and values
    (`objective`, `metrics`). All of it is plain arithmetic on arrays, so that `check` is independent of every solver.

    That is enough for `solve`, `compare`, `study` and the files. The other methods have defaults, which a subclass may
    override:

    =====================  =============================================================================================
    `limits`               its limits: value, the problem with another one, what an assignment needs (`remedies`, `explain`)
    `binding`              which of them an answer uses up, in words
    `worth`, `aim`         what a move is worth, in plans; which figure a replay's plans should lower
    `repairable`           limits that the current nodes may exceed, and `repair` loosens; `repaired`: with other values
    `reached`              the move of key groups that an answer asks for now
    `in_period`, `after`   the problem of one period of a replay; of the next period
    `rescue`, `fallback`   what a replay does where there is no answer
    `chooses_nodes`        whether answers say how many nodes there are; `in_steps`: whether they are more than one assignment
    `by_table`             whether answers are exceptions to a hash, for a routing table
    `played`               what a page needs to value an assignment that is made by hand
    =====================  =============================================================================================

    Problems with several measures have further methods: see `keyshift.models.objectives.Prioritised`.
    """

    workload: Workload
    """What it is about; problems about a stream of keys have none."""

    name: ClassVar[str]
    """The name used by the catalogue and the command line, such as ``"key-group-allocation"``."""

    objective_name: ClassVar[str]
    """The objective's name, for tables and axes; always minimised."""

    worth: ClassVar[str] = ""
    """The unit of a move's worth in a plan: "load distance", "imbalance" or "remote traffic"; where empty, its own objective."""

    aim: ClassVar[str] = "load_distance"
    """The figure that a plan is after on the window that comes: what regret and worth are counted in."""

    ruleless: ClassVar[str] = ""
    """Why it takes no rules, where it has no field for them."""

    repairable: ClassVar[tuple[str, ...]] = ()
    """The limits that the current nodes may exceed, and that `repair` loosens; none where they do not depend on them."""

    rescue: ClassVar[Literal["stay", "offered", "balance"]] = "stay"
    """A replay's choice where a method has no answer: stay; take the offer that breaks a limit; use `fallback`."""

    limits_first: ClassVar[bool] = False
    """Whether to keep the limits matters more than `aim`: then a plan that repairs them is always worth its state."""

    chooses_nodes: ClassVar[bool] = False
    """Whether the number of nodes is part of the problem: plans name new ones, and a node that they empty is removed."""

    in_steps: ClassVar[bool] = False
    """Whether an answer is more than one assignment, of which a plan carries out a step."""

    _reader: ClassVar[Any] = None
    """What reads a workload from disk; `keyshift` names the code when it is imported."""

    replayed: ClassVar[bool] = True
    """Whether a replay can follow it: a cluster there has one node for each key group."""

    by_table: ClassVar[bool] = False
    """Whether an answer is a table of exceptions to a hash."""

    note_on_plans: ClassVar[str] = ""
    """What every plan of its answers says beside its figures."""

    @classmethod
    def from_path(cls, path: str | Path, *, last: int | None = None, **parameters: Any) -> Self:
        """Build the problem from a workload on disk, or its `last` windows, and its own parameters, as the command line does."""
        known = inspect.signature(cls).parameters
        needed = list(known)[1:]  # the first is the data
        if unknown := [name for name in parameters if name not in needed]:
            raise InputError(f"{cls.name} has no parameter {unknown[0]!r}; it has {', '.join(needed)}")
        missing = [n for n in needed if known[n].default is inspect.Parameter.empty and n not in parameters]
        if missing:
            raise InputError(f"{cls.name} needs {' and '.join(missing)}")
        return cls(load(cls._reader)(path, last=last), **parameters)  # type: ignore[call-arg]  # a subclass's dataclass fields

    def arguments(self) -> dict[str, Any]:
        """The problem's arguments, its data first, by the names of its parameters."""
        own = [f.name for f in fields(self) if f.init]  # type: ignore[arg-type]  # every problem is a dataclass
        return {name: _plain(getattr(self, name)) for name in own}

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt, not copied: what is cached or read-only neither pickles nor needs to.
        return partial(type(self), **self.arguments()), ()

    def _put(self, name: str, value: object) -> None:
        """Set a field of the frozen dataclass, while it is being made."""
        object.__setattr__(self, name, value)

    def _require_workload(self) -> None:
        """Refuse anything else in the field `workload`."""
        given = self.workload
        if not isinstance(given, Workload):
            raise InputError(f"workload must be a Workload, not a {type(given).__name__}")

    def _require_equal_nodes(self, why: str) -> None:
        """Refuse nodes of different capacities."""
        capacity = self.workload.capacity
        if (capacity != capacity[0]).any():
            i = int(np.argmax(capacity != capacity[0]))
            raise InputError(f"nodes[{i}] = {capacity[i]:g} differs from nodes[0] = {capacity[0]:g}: {why}")

    @property
    def places(self) -> int:
        """How many nodes an assignment may name: those of the workload, and where an answer may add nodes, these."""
        return self.workload.nodes

    def canonical(self, assignment: Any) -> np.ndarray:
        """Return the assignment as a fresh integer array of the right shape, or raise `InputError`."""
        return read_assignment(assignment, self.workload.key_groups, self.places, self.workload.keys)

    @abstractmethod
    def violations(self, assignment: np.ndarray) -> list[Violation]:
        """List every rule that a canonical assignment breaks; the list is empty if the assignment is feasible."""

    @abstractmethod
    def objective(self, assignment: np.ndarray) -> float:
        """The objective value of a canonical assignment; it is minimised."""

    @abstractmethod
    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        """Further figures of a canonical assignment, by their public names."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The size of one natural unit of the objective (the mean node load, the total state), > 0."""

    @cached_property
    def step(self) -> float:
        """The least difference between two different objectives if the data are whole numbers; 0 if none is known."""
        return 0.0

    @cached_property
    def tolerance(self) -> float:
        """Objectives that differ by less than this count as equal: a millionth of `scale`, and less than one `step`."""
        return below_step(1e-6 * self.scale, self.step)

    def tolerance_of(self, objective: float) -> float:
        """The largest difference between objective and bound that still proves an optimum, in the objective's units.

        It is what "optimal" means: `Solution.tolerance` says it with every verdict. By default `tolerance`, whatever
        the objective; a problem whose methods prove more ties it to the size of the answer, down to 0 for an
        objective of 0.
        """
        return self.tolerance

    def conflicts(self) -> list[str]:
        """Reasons, found by arithmetic alone, why no assignment is feasible, one sentence each; empty if none is found."""
        return []

    # Limits ------------------------------------------------------------------------------------------------------

    @property
    def limits(self) -> list[Limit]:
        """The limits that are set, and the number of nodes; by default there are none."""
        return []

    def more_nodes(self, **changes: Callable[[int], Any]) -> Limit:
        """Nodes added to the workload, each like the largest; `changes` of other parameters, by the number of new ones."""
        workload = self.workload

        def at(nodes: Number) -> Problem:
            new = int(nodes) - workload.nodes
            made = {name: change(new) for name, change in changes.items()}
            return self.changed(workload=grown(workload, int(nodes)), **made)

        return Limit("nodes", workload.nodes, at, whole=True, ordered=False)

    def binding(self, assignment: np.ndarray) -> list[str]:
        """Limits that a canonical assignment uses up."""
        found = []
        for limit in self.limits:
            if limit.needed is None or assignment.ndim != 1:
                continue
            needed, value = float(limit.needed(assignment)), float(limit.value)
            spare = needed - value if limit.down else value - needed
            if spare <= SLACK * max(1.0, abs(value)):
                found.append(f"{limit.name} = {figure(value)} is used up")
        return found

    def changed(self, **changes: Any) -> Self:
        """The problem with other values of some parameters."""
        return replace(self, **changes)  # type: ignore[type-var]

    def repaired(self, **changes: Any) -> Self:
        """The problem with other values of its `repairable` limits, so that the current assignment keeps them."""
        return self.changed(**changes)

    @property
    def now(self) -> np.ndarray | None:
        """The assignment if nothing is done, for messages and for answers in steps; None if there is none."""
        workload = getattr(self, "workload", None)
        return None if workload is None or self.in_steps else workload.current

    # Plans and periods -------------------------------------------------------------------------------------------

    def reached(
        self, assignment: np.ndarray, step: int = 0, nodes_after: int | None = None
    ) -> tuple[Workload, IntArray]:
        """The workload before a step, and the node of each key group after it; `nodes_after` selects the step of a policy."""
        return self.workload, assignment

    @classmethod
    def in_period(cls, workload: Workload, options: Mapping[str, Any], counts: Sequence[int] = ()) -> tuple[Self, str]:
        """The problem of one period of a replay, and what was relaxed so that it has an answer.

        `counts` are the numbers of nodes from this period on, as far as they are known.
        """
        made = dict(options)
        if isinstance(made.get("windows"), int):  # at first there are fewer
            made["windows"] = min(made["windows"], workload.windows)
        return cls(workload, **made), ""  # type: ignore[call-arg]  # a subclass's dataclass fields

    @classmethod
    def fallback(cls, workload: Workload, options: Mapping[str, Any]) -> Problem | None:
        """The problem that a replay solves instead if this one is infeasible (`rescue` "balance")."""
        return None

    def after(self, answer: Any, window: Workload) -> Self:
        """The problem of the next period: measured in `window`, and starting from the nodes that an answer assigned."""
        workload, place = self.reached(self.canonical(getattr(answer, "assignment", answer)))
        nodes = grown(workload, int(place.max(initial=0)) + 1)
        now = {"nodes": nodes.capacity, "draining": nodes.draining, "node_names": nodes.node_names}
        here = window.replace(**now, current=place, home=workload.home)
        return self.changed(workload=here)

    def played(self) -> dict[str, Any] | str:
        """The constants that a page needs to compute the figures of `check`; or a sentence on what the page shows instead."""
        return (
            "Nothing is moved by hand here: the page shows the loads, the moves and the figures of each answer instead."
        )

    def columns(self, assignment: np.ndarray) -> dict[str, list[Any]]:
        """The columns of `Solution.to_frame` for problems whose answer is not one node per key group."""
        return {}

    # Certificates ----------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """The instance in exact numbers, as a certificate states it (`keyshift.models.records`).

        Raises
        ------
        InputError
            Where certificates do not cover the formulation, or one of its options.
        """
        raise InputError(f"there are no certificates for {self.name}")

    def recorded(self, assignment: np.ndarray) -> Any:
        """A canonical assignment as a certificate states it: a node for each key group, unless the formulation differs."""
        return assignment.tolist()

    # Check -------------------------------------------------------------------------------------------------------

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

    worth: ClassVar[str] = "load distance"

    @cached_property
    def scale(self) -> float:
        """All the state (1 when there is none)."""
        return float(self.workload.state.sum()) or 1.0

    @cached_property
    def step(self) -> float:
        return step_of_sums(self.workload.state)

    def objective(self, assignment: np.ndarray) -> float:
        return metrics.state_moved(self.workload, assignment)


def _plain(value: Any) -> Any:
    """Read-only mappings as plain ones."""
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def read_assignment(
    assignment: Any, key_groups: int, nodes: int, keys: Sequence[str | int] | None = None
) -> np.ndarray:
    """Read the node of each key group, shape (p,), as a fresh int64 array, or raise `InputError`; one with labels by the keys."""
    if type(assignment) is np.ndarray and assignment.dtype == np.int64 and assignment.shape == (key_groups,):
        if key_groups == 0 or (assignment.min() >= 0 and assignment.max() < nodes):  # as methods hand it over
            return assignment.copy()
    assignment = ordered("assignment", assignment, keys, key_groups)
    with refusing("assignment must be an array of node numbers", TypeError, ValueError, OverflowError):
        read = np.asarray(assignment)
        if read.dtype.kind not in "iufO":  # true is not a node, nor is the text "1"
            raise TypeError
        given = np.array(read, dtype=np.float64)
    if given.shape != (key_groups,):
        raise InputError(f"assignment has shape {given.shape}, expected ({key_groups},): one node for each key group")
    wrong = ~np.isfinite(given) | (given != np.floor(given)) | (given < 0) | (given >= nodes)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(f"assignment[{k}] = {given[k]:g} is not a node: they are numbered 0 to {nodes - 1}")
    return given.astype(np.int64)


def left_on_draining(workload: Workload, assignment: np.ndarray) -> list[Violation]:
    """Key groups on nodes that must end up empty; a node that the workload does not have yet is none of these."""
    w, left = workload, np.isin(assignment, np.flatnonzero(workload.draining))
    said = "key group {} is on node {}, which is draining"
    return [Violation("draining", said.format(w.key(k), w.node(assignment[k])), int(k)) for k in np.flatnonzero(left)]
