"""Planner: one way to plan the periods of a replay, a problem with its options and a method with its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from keyshift.catalogue import FORMULATIONS
from keyshift.models import InputError, Problem, Workload
from keyshift.models.collocation.load_model import LoadModel
from keyshift.models.guards import real, whole
from keyshift.replays.forecasting import MOST_WINDOWS

DEFAULT_PROBLEM = "collocated-allocation"


@dataclass(frozen=True)
class Planner:
    """One way to plan a period: a problem with its options, a method with its own.

    Parameters
    ----------
    method : str
        A method of the problem.
    label : str, optional
        Its name in the results; the method's by default.
    problem : str
        A problem about a `Workload` whose assignments name a node for each key group.
    options : mapping
        The problem's options, such as ``{"max_migrations": 10}``.
    settings : mapping
        The method's options.
    integrated : bool, default False
        Give the problem processing loads and the load model's costs, so that it knows what collocation saves. By
        default it gets the loads that a running system would measure today, as [Madsen2016]'s methods do.
    from_current : bool, default False
        Begin from the current nodes where these are feasible, rather than from other methods' answers: faster.
    balance_first : bool, default True
        When the problem has no answer - say, the load distance cannot be met within the migration limit - plan by
        key-group allocation under the same migration limit, as ALBIC does in the end. Otherwise nothing moves.
    every : int, default 1
        Plan only after every so many periods; nothing moves in between.
    windows : int, optional
        How many of the last windows the problem counts, where it counts more than one: by default its option `windows`, for
        MCLB `every`.
    """

    method: str
    label: str = ""
    problem: str = DEFAULT_PROBLEM
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    integrated: bool = False
    from_current: bool = False
    balance_first: bool = True
    every: int = 1
    windows: int | None = None

    def __post_init__(self) -> None:
        whole("every", self.every, least=1, most=MOST_WINDOWS, optional=False)
        whole("windows", self.windows, least=1, most=MOST_WINDOWS)

    def __repr__(self) -> str:
        # What is as usual is not said: a checkpoint of an earlier version stays one of the same planner.
        said = ", ".join(
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name not in ("every", "windows") or getattr(self, f.name) != f.default
        )
        return f"Planner({said})"

    @property
    def rows(self) -> int:
        """How many windows the problem counts."""
        stated = self.options.get("windows")  # a word, for movement within limits
        most = stated if isinstance(stated, int) else self.every if self.problem == "mclb" else 1
        return self.windows or most

    @property
    def problem_class(self) -> type[Problem]:
        """The class of the problem."""
        return problem_class(self.problem)

    @property
    def name(self) -> str:
        """The label, or the method."""
        return self.label or self.method

    def pose(self, workload: Workload, load_model: LoadModel, counts: Sequence[int] = ()) -> tuple[Problem, str]:
        """The problem of one period, and what was relaxed so that it has an answer; `workload` holds processing loads."""
        cls, options = self.problem_class, dict(self.options)
        if self.integrated and "serialisation" in {f.name for f in fields(cls)}:  # type: ignore[arg-type]
            options |= {"serialisation": load_model.serialisation, "deserialisation": load_model.deserialisation}
            return cls.in_period(workload, options, counts)
        return cls.in_period(load_model.measured(workload), options, counts)

    def balancing(self, workload: Workload, load_model: LoadModel) -> Problem | None:
        """The assignment to use if the problem has no answer; None to leave everything where it is."""
        if self.problem_class.rescue != "balance" or not self.balance_first:
            return None
        return self.problem_class.fallback(load_model.measured(workload), self.options)


def problem_class(name: str, about: str = "workload") -> type[Problem]:
    """The class of a problem whose data is a workload, or a stream."""
    if is_about(name, about):
        return FORMULATIONS[name].problem_class
    fitting = [other for other in FORMULATIONS if is_about(other, about)]
    raise InputError(f"problem = {name!r}: a replay of {about}s plans with one of {', '.join(fitting)}")


def is_about(name: str, data: str) -> bool:
    """Whether the data of a problem is a workload, or a stream: the first field of its class."""
    return name in FORMULATIONS and fields(FORMULATIONS[name].problem_class)[0].name == data  # type: ignore[arg-type]


# Which resource is balanced: the bottleneck, of which the cluster uses the greatest share ([Madsen2016], section 3).

OWN = "load"
"""The name of the workload's own load among its resources."""


def bottleneck(workload: Workload, capacities: Mapping[str, float]) -> str:
    """The resource of whose capacity all key groups together use most; of equals the load, then the first by name.

    Parameters
    ----------
    workload : Workload
        The last window counts.
    capacities : mapping of str to float
        What a node of capacity 1 carries of each resource, "load" among them, > 0. With uses in percentage points of a node,
        as [Madsen2016] has them, all are 100.

    Raises
    ------
    InputError
        For a resource that the workload does not have.
    """
    uses = {OWN: workload.last_load, **workload.resources}
    if unknown := sorted(set(capacities) - set(uses)):
        raise InputError(f"capacities names {unknown[0]!r}; the workload has {', '.join(sorted(uses))}")
    shares = {name: float(uses[name].sum()) / limit for name, limit in capacities.items()}
    return min(shares, key=lambda name: (-shares[name], name != OWN, name))


@dataclass(frozen=True)
class Balanced:
    """The resource that a replay balances: one that is named, else the bottleneck by the capacities, else the load.

    Parameters
    ----------
    name : str, optional
    capacities : mapping of str to float, optional
        As for `bottleneck`.
    """

    name: str | None = None
    capacities: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, limit in self.capacities.items():
            real(f"capacities[{name!r}]", limit, optional=False, above=True)
        if self.capacities and OWN not in self.capacities:
            raise InputError("capacities must say what a node carries of 'load' as well: shares are what is compared")

    def resource(self, workload: Workload) -> str:
        """The name of the resource to balance in a window."""
        if self.name is None:
            return bottleneck(workload, self.capacities) if self.capacities else OWN
        if self.name != OWN and self.name not in workload.resources:
            known = ", ".join([OWN, *sorted(workload.resources)])
            raise InputError(f"resource = {self.name!r}: the workload has {known}")
        return self.name

    @staticmethod
    def on(workload: Workload, resource: str) -> Workload:
        """The workload with the use of a resource as its load; limits on resources stay what they are."""
        return workload if resource == OWN else workload.replace(load=workload.resources[resource])
