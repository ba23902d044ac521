"""The loop's body: one period of one method, whatever the formulation; and whether a plan is worth its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from keyshift.heuristics.collocation.comparisons import allocate
from keyshift.models import Budget, InputError, Workload, metrics
from keyshift.models.answer import Progress
from keyshift.models.collocation.load_model import LoadModel
from keyshift.models.workload import IntArray
from keyshift.replays.forecasting import Forecast, Past
from keyshift.replays.planner import Balanced, Cluster, NodeCounts, Planned, Planner, Scaling, ScalingRule
from keyshift.replays.results import Checkpoint, PackedRows, Replay, fingerprints
from keyshift.solving import interruptible, solve

PROMISED = ("load_distance", "load_distance_percent", "theta", "imbalance", "remote_traffic")
"""The figures that are also given for the forecast and for the plan in hindsight."""

Windows = tuple[Workload, Workload]
"""The measured window, and the one on which the plan is valued."""


@dataclass(frozen=True)
class Patience:
    """When a plan is worth its state.

    It is carried out where the measure of its problem, summed over the next `horizon` windows as they are expected, falls by
    more than `min_gain` for each unit of state that moves, and by at least the share `hysteresis` of what staying
    would make it.
    """

    min_gain: float = 0.0
    horizon: int = 1
    hysteresis: float = 0.0

    def __bool__(self) -> bool:
        return self.min_gain > 0 or self.hysteresis > 0

    def waits(self, staying: float, going: float, state_moved: float) -> bool:
        """Whether nothing is to be done, by the sums of the measure over the horizon."""
        gain = staying - going
        return gain <= self.min_gain * state_moved or gain < self.hysteresis * staying


@dataclass(frozen=True)
class _Plan:
    assignment: IntArray
    objective: float | None
    bound: float | None
    fallback: str
    counts: tuple[int, ...]


class SideBySide(ABC):
    """Planners that a stream is replayed for, one beside the other: period by period, a row for each of them."""

    planners: list[Planner]
    watch: Callable[[Progress], None] | None
    clusters: dict[str, Cluster]
    key_groups: int | None

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """The settings that must be the same for a run to go on from a checkpoint."""

    @abstractmethod
    def periods(self, stream: Iterable[Any], most: int | None) -> Iterator[Any]:
        """The input of each period, checked."""

    @abstractmethod
    def stamp(self, window: Any) -> str:
        """A hash of what a period is given."""

    @abstractmethod
    def row(self, number: int, period: int, window: Any) -> dict[str, Any] | None:
        """The figures of a planner in a period; None where it was interrupted."""

    def known(self, number: int, window: Any) -> None:  # noqa: B027 - most need not
        """Take note of a window whose row is known already."""

    def run(self, stream: Iterable[Any], most: int | None, checkpoint: str | Path | None) -> Replay:
        """Period by period; what the checkpoint has is not planned again."""
        store = None if checkpoint is None else Checkpoint(Path(checkpoint), self.description())
        rows, seconds = PackedRows(), PackedRows()
        with nullcontext() if store is None else store.open():
            for period, window in enumerate(self.periods(stream, most)):
                made, timing = self._one_period(period, window, store)
                seconds.extend(timing)
                if len(made) < len(self.planners):
                    return Replay(rows, seconds, interrupted=True)
                rows.extend(made)
            if store is not None:
                store.finish(rows)
        return Replay(rows, seconds)

    def _one_period(
        self, period: int, window: Any, store: Checkpoint | None
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Every planner's row, and the seconds of those that were not known; fewer when it was interrupted."""
        stamp = "" if store is None else self.stamp(window)
        labels = [planner.name for planner in self.planners]
        done = None if store is None else store.read(period, stamp, labels, self.key_groups or 0)
        if done is not None:
            self.clusters = done["clusters"]
        rows: list[dict[str, Any]] = [] if done is None else list(done["rows"])
        timing = []
        for number, label in enumerate(labels):
            if number < len(rows):
                self.known(number, window)
                continue
            began = perf_counter()
            row = self.row(number, period, window)
            if row is None:
                break
            rows.append(row)
            timing.append({"period": period, "method": label, "seconds": perf_counter() - began})
            if store is not None:
                store.write(period, stamp, rows, self.clusters)
            if self.watch is not None:
                self.watch(Progress(row["objective"], row["bound"], f"period {period}, {label}"))
        return rows, timing


@dataclass
class Loop(SideBySide):
    """The fixed parts of a replay, what it has seen, and every method's cluster."""

    planners: list[Planner]
    load_model: LoadModel
    scaling: ScalingRule | None
    seed: int
    time_limit: float | None
    memory: int
    forecast: Forecast | None = None
    regret: bool = True
    patience: Patience = field(default_factory=Patience)
    balanced: Balanced = field(default_factory=Balanced)
    watch: Callable[[Progress], None] | None = None
    clusters: dict[str, Cluster] = field(default_factory=dict)
    key_groups: int | None = None

    def __post_init__(self) -> None:
        rows = max(planner.rows for planner in self.planners)
        self.past = Past(self.forecast or Forecast(), rows)

    def description(self) -> dict[str, Any]:
        return {
            "planners": [repr(planner) for planner in self.planners],
            "load_model": repr(self.load_model),
            "scaling": repr(self.scaling),
            "seed": self.seed,
            "time_limit": self.time_limit,
            "memory": self.memory,
            "forecast": "" if self.forecast is None else str(self.forecast),
            "regret": self.forecast is not None and self.regret,
            "patience": repr(self.patience),
            "resource": repr(self.balanced),
        }

    def periods(self, stream: Iterable[Workload], most: int | None) -> Iterator[Windows]:
        """Each period's last measured window, and the one it is valued on: the same, or with a forecast the next one."""
        last = most if most is None or self.forecast is None else most + 1
        before: Workload | None = None
        for window in islice(stream, last):
            self._expect(window)
            if self.forecast is None:
                self.past.add(window)
                yield window, window
            elif before is not None:
                self.past.add(before)
                yield before, window
            before = window

    def _expect(self, window: Workload) -> None:
        """Refuse a period with other key groups; make the clusters at the first."""
        if self.key_groups is None:
            self.key_groups = window.key_groups
            self.clusters = {planner.name: Cluster.of(window) for planner in self.planners}
        elif window.key_groups != self.key_groups:
            raise InputError(f"a period has {window.key_groups} key groups, the first one had {self.key_groups}")

    def stamp(self, window: Windows) -> str:
        return fingerprints(window)

    # One period of one method -----------------------------------------------------------------------------------

    def row(self, number: int, period: int, window: Windows) -> dict[str, Any] | None:
        """Algorithm 1, once: plan on what is expected, apply, value on the realised window."""
        planner, (measured, realised) = self.planners[number], window
        cluster = self.clusters[planner.name]
        cluster.terminate_empty()
        expected = measured if self.forecast is None else self.past.expected()
        resource = self.balanced.resource(expected)
        if cluster.start_load is None:
            at_start = cluster.workload(self.balanced.on(measured, resource))
            cluster.start_load = self.load_model.total_load(at_start, at_start.current)
        expected = self.balanced.on(expected, resource)
        plan, replanned = self._decided(planner, cluster, period, expected, self._seen(planner, expected, resource))
        if plan is None:
            return None
        workload = cluster.workload(expected)
        if not replanned and self._waits(planner, workload, plan, resource):
            plan = _Plan(workload.current, None, None, "held", plan.counts)
        realised = self.balanced.on(realised, resource).replace(state=measured.state)
        in_hindsight: dict[str, float] = {}
        if self.forecast is not None and self.regret and plan.fallback != "not due":
            best = self._plan(planner, cluster.workload(realised), period, plan.counts)
            if best is None:
                return None
            in_hindsight = self._valued(self._after(planner, cluster.model_copy(deep=True), best, period)[0], realised)
        cluster, back = self._after(planner, cluster, plan, period)
        after, figures = cluster.workload(realised), self._valued(cluster, realised)
        row = {
            "period": period,
            "method": planner.name,
            **figures,
            "migrations": metrics.migrations(workload, plan.assignment),
            "state_moved": metrics.state_moved(workload, plan.assignment),
            "oscillations": back,
            "nodes": after.nodes,
            "draining": int(after.draining.sum()),
            "objective": plan.objective,
            "bound": plan.bound,
            "fallback": plan.fallback,
            "replanned": replanned,
        }
        if measured.resources:
            row["resource"] = resource
        if self.forecast is not None:
            row |= _prefixed("planned", self._valued(cluster, expected)) | _prefixed("knew", in_hindsight)
        if in_hindsight:
            row["regret"] = figures[planner.problem_class.aim] - in_hindsight[planner.problem_class.aim]
        return row

    def _seen(self, planner: Planner, expected: Workload, resource: str) -> Workload:
        """The method's workload: the forecast, or the windows themselves where its problem counts more than one."""
        if planner.rows == 1:
            return expected
        return expected.replace(load=[self.balanced.on(w, resource).last_load for w in self.past.sample(planner.rows)])

    def _decided(
        self, planner: Planner, cluster: Cluster, period: int, expected: Workload, seen: Workload
    ) -> tuple[_Plan | None, bool]:
        """The plan, made anew where the scaling rule changes the cluster; and whether it was."""
        workload = cluster.workload(seen)
        kept, recuts = int(workload.kept.sum()), planner.problem_class.chooses_nodes
        if (period + 1) % planner.every:
            return _Plan(workload.current, None, None, "not due", (kept,)), False
        known = self.scaling.known(period) if recuts and isinstance(self.scaling, NodeCounts) else ()
        plan = self._plan(planner, workload, period, known or (kept,))
        if plan is None or self.scaling is None or known:
            return plan, bool(known) and known[0] != kept
        then, place = cluster.workload(expected), plan.assignment
        if recuts:  # the plan may name new nodes
            then = self._after(planner, cluster.model_copy(deep=True), plan, period)[0].workload(expected)
            place = then.current
        decision: Scaling = self.scaling(Planned(then, place, self.load_model.node_loads(then, place), period))
        if not decision:
            return plan, False
        if not recuts:
            cluster.scale(decision)
        counts = (max(1, kept + decision.add - len(decision.drain)),)
        return self._plan(planner, cluster.workload(seen), period, counts), True

    def _plan(self, planner: Planner, workload: Workload, period: int, counts: tuple[int, ...]) -> _Plan | None:
        """The method's plan; else what the formulation falls back on; None when it was interrupted."""
        seed = self.seed + period
        posed, note = planner.pose(workload, self.load_model, counts)
        if posed.chooses_nodes:
            counts = (getattr(posed, "nodes_after", None) or counts[0], *counts[1:])
        stays = planner.from_current and not posed.chooses_nodes and not posed.violations(workload.current)
        start = workload.current if stays else None
        found = solve(posed, planner.method, seed=seed, time_limit=self.time_limit, start=start, **planner.settings)
        if found.termination == "interrupted":
            return None
        if found.assignment is not None:
            place = posed.reached(found.assignment, nodes_after=counts[0])[1]
            return _Plan(place, found.objective, found.bound, note, counts)
        if posed.rescue == "offered" and found.offered is not None:
            return _Plan(found.offered, None, found.bound, "offered", counts)
        stay = _Plan(workload.current, None, found.bound, "stay", counts)
        balancing = planner.balancing(workload, self.load_model)
        return stay if balancing is None else self._rebalanced(balancing, seed, stay)

    def _rebalanced(self, posed: Any, seed: int, stay: _Plan) -> _Plan | None:
        """Key-group allocation's plan; else to stay; None when it was interrupted."""
        budget = Budget(self.time_limit)
        with interruptible(budget.interrupt):
            # How long key-group allocation may take where a method has no answer, in rounds of its search.
            balanced = allocate(posed, budget, seed, 15, 1e-3 * posed.scale)
        if budget.interrupted:
            return None
        if balanced is None or posed.violations(balanced):
            return stay
        return _Plan(balanced, None, stay.bound, "balance", stay.counts)

    def _after(self, planner: Planner, cluster: Cluster, plan: _Plan, period: int) -> tuple[Cluster, int]:
        """The cluster when a plan is applied, and how many of its moves go straight back."""
        if planner.problem_class.chooses_nodes and plan.fallback not in ("not due", "held", "stay"):
            return cluster, cluster.recut(plan.assignment, plan.counts[0], period, self.memory)
        return cluster, cluster.apply(plan.assignment, period, self.memory)

    def _valued(self, cluster: Cluster, window: Workload) -> dict[str, float]:
        """The figures of the cluster's assignment on a window."""
        return figures_of(self.load_model, cluster.workload(window), cluster.start_load, cluster.first_place)

    def _waits(self, planner: Planner, workload: Workload, plan: _Plan, resource: str) -> bool:
        """Whether a plan is not worth its state: see `Patience`. What drains, or repairs a broken limit, is always worth it."""
        moved = metrics.moved(workload, plan.assignment)
        if not self.patience or not moved.any() or workload.draining[workload.current[moved]].any():
            return False
        if plan.assignment.max() >= workload.nodes:
            return False
        if planner.problem_class.limits_first:
            posed, _ = planner.pose(workload, self.load_model, plan.counts)
            if posed.violations(workload.current):
                return False
        staying = going = 0.0
        for ahead in range(1, self.patience.horizon + 1):
            window = workload if self.forecast is None else self._ahead(workload, resource, ahead)
            staying += self._measure(planner, window)
            going += self._measure(planner, window.replace(current=plan.assignment))
        return self.patience.waits(staying, going, float(workload.state[moved].sum()))

    def _ahead(self, workload: Workload, resource: str, ahead: int) -> Workload:
        """The workload with what is expected so many windows ahead."""
        window = self.balanced.on(self.past.expected(ahead), resource)
        return workload.replace(load=window.last_load, traffic=window.traffic)

    def _measure(self, planner: Planner, workload: Workload) -> float:
        return figures_of(self.load_model, workload, None, workload.current)[planner.problem_class.aim]


def _prefixed(prefix: str, figures: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}_{name}": figures[name] for name in PROMISED if name in figures}


def figures_of(
    load_model: LoadModel, workload: Workload, start_load: float | None, first_place: Any
) -> dict[str, float]:
    """The figures of the workload's current assignment on its last window."""
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
