"""Planner: one way to plan the periods of a replay, a problem with its options and a method with its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self

import numpy as np
from pydantic import ConfigDict

from keyshift.catalogue import FORMULATIONS
from keyshift.models import InputError, Problem, Workload
from keyshift.models.base.guards import real, whole
from keyshift.models.base.schema import Amount, FileModel, Positive, Whole, Wholes
from keyshift.models.collocation.load_model import LoadModel
from keyshift.models.placement import rehashed
from keyshift.models.workload import FloatArray, IntArray
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
        Give the problem processing loads and the load model's costs, so that it accounts for what collocation saves. By
        default it gets the loads that a running system would measure today, like the methods of [Madsen2016].
    from_current : bool, default False
        Begin from the current nodes where these are feasible, rather than from other methods' answers: faster.
    balance_first : bool, default True
        If the problem has no answer - for example, the load distance cannot be met within the migration limit - plan by
        key-group allocation under the same migration limit, as ALBIC does. Otherwise nothing moves.
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
    cls = FORMULATIONS[name].problem_class if name in FORMULATIONS else None
    return cls is not None and cls.replayed and fields(cls)[0].name == data  # type: ignore[arg-type]


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
            said = "capacities must also give what a node carries of 'load', since shares of capacity are compared"
            raise InputError(said)

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


# Scaling rules: how many nodes there should be, decided on the plan ([Madsen2016], Algorithm 1, line 5) -----------------


@dataclass(frozen=True)
class Planned:
    """The input of a scaling rule: the situation after the plan.

    Attributes
    ----------
    workload : Workload
        What the plan was made for.
    assignment : ndarray
        The node of each key group under the plan.
    node_loads : ndarray
        The load of each node that the plan would bring.
    period : int
        The period of the replay.
    """

    workload: Workload
    assignment: IntArray
    node_loads: FloatArray
    period: int = 0


@dataclass(frozen=True)
class Scaling:
    """A scaling rule's decision.

    Attributes
    ----------
    add : int
        How many nodes of capacity 1 to add.
    drain : tuple of int
        Which nodes of the plan's workload to drain.
    """

    add: int = 0
    drain: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self.add > 0 or len(self.drain) > 0


class ScalingRule(Protocol):
    """Any callable from a plan to a decision."""

    def __call__(self, planned: Planned) -> Scaling:
        """Decide."""


@dataclass(frozen=True)
class TargetUtilisation:
    """Keep the mean utilisation of the kept nodes near a target.

    If the mean utilisation, or that of any node under the plan, is above `high`, nodes are added; if the mean is below
    `low`, the least loaded nodes are drained. In either case the mean becomes `target` or slightly less. No node is
    drained while another still drains.

    Parameters
    ----------
    node_load : float
        Load that a node of capacity 1 can carry, > 0.
    target, low, high : float
        Utilisation, 0 < low < target < high.
    """

    node_load: float
    target: float = 0.7
    low: float = 0.5
    high: float = 0.9

    def __post_init__(self) -> None:
        real("node_load", self.node_load, optional=False, above=True)
        if not 0 < self.low < self.target < self.high:
            raise InputError(f"low = {self.low}, target = {self.target}, high = {self.high} must rise, from above 0")

    def __call__(self, planned: Planned) -> Scaling:
        w = planned.workload
        capacity = float(w.capacity[w.kept].sum())
        total = float(planned.node_loads.sum())
        busiest = float((planned.node_loads / w.capacity).max()) / self.node_load
        mean = total / (capacity * self.node_load)
        wanted = max(1, math.ceil(total / (self.target * self.node_load) - 1e-9))
        if (mean > self.high or busiest > self.high) and wanted > capacity:
            return Scaling(add=math.ceil(wanted - capacity - 1e-9))
        if mean >= self.low or w.draining.any():
            return Scaling()
        kept = np.flatnonzero(w.kept)
        drained: list[int] = []
        for i in kept[np.argsort(planned.node_loads[kept], kind="stable")].tolist():
            if capacity - float(w.capacity[i]) < wanted - 1e-9:
                break
            capacity -= float(w.capacity[i])
            drained.append(i)
        return Scaling(drain=tuple(drained))


@dataclass(frozen=True)
class NodeCounts:
    """A known sequence of node counts, for example from a schedule or a forecast of the arrivals.

    Nodes are added, or the least loaded drained, to reach the count; problems of contiguous intervals use the counts
    directly.

    Parameters
    ----------
    counts : sequence of int
        Nodes after the plan of each period, each >= 1; the last one stays.
    ahead : int, default 1
        How many future counts a plan may use; a migration sequence uses all of them.
    """

    counts: tuple[int, ...]
    ahead: int = 1

    def __post_init__(self) -> None:
        given = list(self.counts) if np.ndim(self.counts) == 1 else []
        if not given:
            raise InputError(f"counts = {self.counts!r} must be a sequence of at least one number of nodes")
        read = tuple(whole(f"counts[{t}]", n, least=1, optional=False) for t, n in enumerate(given))
        object.__setattr__(self, "counts", read)
        whole("ahead", self.ahead, least=1, optional=False)

    def known(self, period: int) -> tuple[int, ...]:
        """The counts after this period and the next ones, as far as a plan may know them."""
        return self.counts[period : period + self.ahead] or self.counts[-1:]

    def __call__(self, planned: Planned) -> Scaling:
        w, wanted = planned.workload, self.known(planned.period)[0]
        kept = np.flatnonzero(w.kept)
        least = kept[np.argsort(planned.node_loads[kept], kind="stable")]
        return Scaling(max(0, wanted - kept.size), tuple(least[: max(0, kept.size - wanted)].tolist()))


# The state that a replay keeps for every planner from period to period -------------------------------------------------


class Cluster(FileModel):
    """The nodes and the assignment of one method. Nodes have a name (a number never used again) and a position.

    Attributes
    ----------
    names, capacity, draining : list
        One entry for each node, by position.
    place : list of int
        Position of the node of each key group.
    left, left_at : list of int
        The name of the node that each key group left last, and the period of that; -1 when it never moved.
    start_load : float or None
        Load of the whole system at the start, before the first plan.
    """

    model_config = ConfigDict(frozen=False)

    names: Wholes
    capacity: list[Positive]
    draining: list[bool]
    place: Wholes
    first_place: Wholes
    left: list[int]
    left_at: list[int]
    next_name: Whole
    start_load: Amount | None = None

    @classmethod
    def of(cls, workload: Workload) -> Self:
        """The cluster that a workload describes."""
        place, never = workload.current.tolist(), [-1] * workload.key_groups
        return cls(
            names=list(range(workload.nodes)), capacity=workload.capacity.tolist(), draining=workload.draining.tolist(),
            place=place, first_place=place, left=never, left_at=never, next_name=workload.nodes,
        )  # fmt: skip

    def workload(self, statistics: Workload) -> Workload:
        """Put a period's statistics on the cluster: its nodes keep their names, wherever they are."""
        called = [statistics.node(name) for name in self.names]
        return statistics.replace(
            nodes=np.array(self.capacity),
            node_names=None if called == list(range(len(called))) else called,
            draining=np.array(self.draining),
            current=np.array(self.place),
            home=self._home(statistics),
            domains={name: self._labels(labels) for name, labels in statistics.domains.items()},
        )

    def _labels(self, labels: tuple[str | int, ...]) -> list[str | int]:
        """The labels of the nodes at the positions they have now; a node that was added is in a domain of its own."""
        return [labels[name] if name < len(labels) else f"new {name}" for name in self.names]

    def _home(self, statistics: Workload) -> IntArray | None:
        """The nodes that the hash gives, at the positions they have now: added nodes included, draining ones left out."""
        if statistics.home is None:
            return None
        position = {name: at for at, name in enumerate(self.names)}
        kept = [name for name, drains in zip(self.names, self.draining, strict=True) if not drains]
        return np.array([position[name] for name in rehashed(statistics.home, kept, statistics.nodes).tolist()])

    def terminate_empty(self) -> int:
        """Remove the draining nodes that hold nothing (Algorithm 1, lines 1-3); how many."""
        used = set(self.place)
        gone = [i for i, drains in enumerate(self.draining) if drains and i not in used]
        stay = [i for i in range(len(self.names)) if i not in set(gone)]
        position = {old: new for new, old in enumerate(stay)}
        self.names = [self.names[i] for i in stay]
        self.capacity = [self.capacity[i] for i in stay]
        self.draining = [self.draining[i] for i in stay]
        self.place = [position[i] for i in self.place]
        return len(gone)

    def scale(self, decision: Scaling) -> None:
        """Add nodes and mark others for removal."""
        for i in decision.drain:
            self.draining[i] = True
        for _ in range(decision.add):
            self.names.append(self.next_name)
            self.capacity.append(1.0)
            self.draining.append(False)
            self.next_name += 1

    def recut(self, assignment: IntArray, nodes_after: int, period: int, memory: int) -> int:
        """Apply a plan that may name new nodes, and keep `nodes_after`: empty nodes go, those that drain and the newest first."""
        self.scale(Scaling(add=max(0, int(assignment.max()) + 1 - len(self.names))))
        back = self.apply(assignment, period, memory)
        empty = sorted(set(range(len(self.names))) - set(self.place), key=lambda i: (self.draining[i], i))
        for i in empty[max(0, len(empty) - max(0, len(self.names) - nodes_after)) :]:
            self.draining[i] = True
        self.terminate_empty()
        self.scale(Scaling(add=max(0, nodes_after - len(self.names))))
        return back

    def apply(self, assignment: IntArray, period: int, memory: int) -> int:
        """Move the key groups; how many of the moves go straight back to the node left at most `memory` periods ago."""
        back = 0
        for k, target in enumerate(assignment.tolist()):
            source = self.place[k]
            if target == source:
                continue
            returns = self.left[k] == self.names[target] and period - self.left_at[k] <= memory
            back += int(returns)
            self.left[k], self.left_at[k] = self.names[source], period
            self.place[k] = target
        return back
