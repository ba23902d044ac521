"""What a replay has to know of each formulation: how a period is posed, how its answer is read, what it is valued by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models import InputError, Problem, Workload
from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
from keyshift.models.intervals.exact_arithmetic import exact_number
from keyshift.models.workload import IntArray

if TYPE_CHECKING:
    from keyshift.models.collocation.load_model import LoadModel
    from keyshift.replays.planner import Planner


@dataclass(frozen=True)
class Adapter:
    """How the loop deals with a formulation whose answer is a node for each key group.

    Attributes
    ----------
    measure : str
        The figure that a plan is after, on the window that comes: what regret and worth are counted in.
    rescue : str
        What is done where a method has no answer: "balance", by key-group allocation; "offered", what the method offers although
        it breaks a limit; "stay".
    limits_first : bool
        Whether to keep the problem's limits matters more than `measure`: then a plan that mends them is always worth it.
    recuts : bool
        Whether the number of nodes is part of the problem, so that plans name new nodes themselves.
    """

    measure: str = "load_distance"
    rescue: str = "stay"
    limits_first: bool = False
    recuts: bool = False

    def pose(
        self, planner: Planner, workload: Workload, load_model: LoadModel, counts: Sequence[int]
    ) -> tuple[Problem, str]:
        """The problem of one period, and what had to give so that it has an answer."""
        return planner.pose(workload, load_model), ""

    def read(self, problem: Problem, assignment: IntArray, counts: Sequence[int]) -> IntArray:
        """The node of each key group after this period."""
        return assignment

    def nodes_after(self, problem: Problem, counts: Sequence[int]) -> int:
        """How many nodes there are then, where `recuts`."""
        return counts[0]


@dataclass(frozen=True)
class MovementAdapter(Adapter):
    """Least movement within limits: how many nodes there are follows from the load, unless the problem names a number."""

    rescue: str = "offered"
    recuts: bool = True

    def nodes_after(self, problem: Problem, counts: Sequence[int]) -> int:
        return int(problem.nodes_after)  # type: ignore[attr-defined]  # MovementWithinLimits


@dataclass(frozen=True)
class IntervalAdapter(Adapter):
    """The three problems of contiguous intervals; a tau too small for a period's loads is raised to the smallest feasible."""

    measure: str = "theta"
    recuts: bool = True

    def pose(
        self, planner: Planner, workload: Workload, load_model: LoadModel, counts: Sequence[int]
    ) -> tuple[Problem, str]:
        workload, options = load_model.measured(workload), dict(planner.options)
        for name in {"nodes_after", "node_counts"} & set(options):
            raise InputError(
                f"{name} comes from the replay, period by period: give the counts as scaling=NodeCounts(...)"
            )
        if "tau" not in options:
            raise InputError(f"{planner.problem} needs tau")
        asked = Fraction(exact_number("tau", options.pop("tau")))
        if planner.problem == MigrationPolicy.name:
            policy = MigrationPolicy(workload, tau=asked, nodes_after=counts[0], **options)
            needed: Sequence[int] = tuple(policy.reachable)
        else:
            needed = counts if planner.problem == MigrationSequence.name else counts[:1]
        tau = max(asked, *(IntervalMigration(workload, n, 0).smallest_tau for n in dict.fromkeys(needed)))
        note = "tau" if tau > asked else ""
        if planner.problem == MigrationPolicy.name:
            return MigrationPolicy(workload, tau=tau, nodes_after=counts[0], **options), note
        if planner.problem == MigrationSequence.name:
            return MigrationSequence(workload, tuple(counts), tau, **options), note
        return IntervalMigration(workload, counts[0], tau, **options), note

    def read(self, problem: Problem, assignment: IntArray, counts: Sequence[int]) -> IntArray:
        if isinstance(problem, MigrationPolicy):
            return problem.decision(assignment, counts[0])
        return assignment[0] if isinstance(problem, MigrationSequence) else assignment


ADAPTERS: dict[str, Adapter] = {
    "key-group-allocation": Adapter(rescue="balance", limits_first=True),
    "collocated-allocation": Adapter("remote_traffic", rescue="balance", limits_first=True),
    "mclb": Adapter("imbalance"),
    "movement-within-limits": MovementAdapter(),
    "mixed-routing": Adapter("theta", rescue="offered"),
    **dict.fromkeys((IntervalMigration.name, MigrationSequence.name, MigrationPolicy.name), IntervalAdapter()),
}
"""By the name of the problem; key splitting, whose streams are keys and not workloads, has a loop of its own."""


def adapter_of(problem: str) -> Adapter:
    """The adapter of a problem."""
    if problem not in ADAPTERS:
        raise InputError(f"problem = {problem!r}: a replay of workloads plans with one of {', '.join(ADAPTERS)}")
    return ADAPTERS[problem]


def figures_of(
    load_model: LoadModel, workload: Workload, start_load: float | None, first_place: Any
) -> dict[str, float]:
    """What an assignment, the workload's current one, is worth on the workload's last window."""
    from keyshift.models import metrics

    place = workload.current
    loads = load_model.node_loads(workload, place)
    mean = float(loads.sum() / workload.capacity[workload.kept].sum())
    deviation = loads / workload.capacity - mean
    distance = float(max(np.abs(deviation[workload.kept]).max(), deviation[workload.draining].max(initial=0.0)))
    total = float(loads.sum())
    unmoved = load_model.total_load(workload, np.array(first_place))
    figures = {
        "load_distance": distance,
        "load_distance_percent": 100 * distance / mean if mean > 0 else 0.0,
        "theta": max(float(deviation[workload.kept].max()) / mean, 0.0) if mean > 0 else 0.0,
        "imbalance": float(np.square(deviation[workload.kept]).mean()),
        "load_index": 100 * total / start_load if start_load else 100.0,
        "load_index_same_input": 100 * total / unmoved if unmoved > 0 else 100.0,
        "total_load": total,
    }
    if workload.traffic is not None:
        figures["remote_traffic"] = metrics.remote_traffic(workload, place)
        figures["collocation_factor"] = metrics.collocation_factor(workload, place)
    if workload.home is not None:
        figures["table_size"] = metrics.table_size(workload, place)
    return figures
