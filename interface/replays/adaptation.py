"""replay: the adaptation loop of [Madsen2016] (Algorithm 1), period by period over a stream of workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.heuristics.collocation.allocation_program import allocate
from keyshift.models import Budget, InputError, Workload, metrics
from keyshift.models.answer import Progress
from keyshift.models.collocation.load_model import LoadModel
from keyshift.models.guards import real, whole
from keyshift.models.workload import IntArray
from keyshift.replays.checkpoint import Checkpoint
from keyshift.replays.planner import DEFAULT_PROBLEM, Planner
from keyshift.replays.scaling import Planned, Scaling, ScalingRule
from keyshift.replays.state import Cluster
from keyshift.solving import interruptible, solve

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BALANCING_ROUNDS = 15
"""How long key-group allocation may take where a method has no answer, in rounds of its search."""


@dataclass(frozen=True)
class Replay:
    """The results of a replay: one row for each period and method.

    Attributes
    ----------
    rows : tuple of dict
        period, method, load_distance, load_distance_percent, collocation_factor, load_index, load_index_same_input,
        total_load, remote_traffic, migrations, state_moved, oscillations, nodes, draining, objective, bound, fallback,
        replanned.
    seconds : tuple of dict
        period, method, seconds: apart from the rows, because no two runs take the same time.
    interrupted : bool
        Whether Ctrl-C ended it early; the period under way is not counted.
    """

    rows: tuple[dict[str, Any], ...]
    seconds: tuple[dict[str, Any], ...] = ()
    interrupted: bool = False

    def to_frame(self) -> pd.DataFrame:
        """The rows as a table."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def write(self, path: str | Path) -> Path:
        """Write the rows as one Parquet file: the same rows give the same bytes.

        Returns
        -------
        Path
        """
        from keyshift.replays.checkpoint import write_parquet

        return write_parquet(self.to_frame(), Path(path))

    def plot(self, folder: str | Path, metrics: Sequence[str] | None = None) -> list[Path]:
        """Draw one figure for each metric over the periods, all methods in it; the paths written."""
        from keyshift.figures.replay import metric_figures

        return metric_figures(self.to_frame(), Path(folder), metrics)

    def figure(self, metrics: Sequence[str] | None = None) -> Figure:
        """All metrics in one figure, a panel each."""
        from keyshift.figures.replay import panels

        return panels(self.to_frame(), metrics)


def replay(
    workloads: Iterable[Workload],
    methods: Sequence[str | Planner] = ("albic",),
    *,
    problem: str = DEFAULT_PROBLEM,
    periods: int | None = None,
    load_model: LoadModel | None = None,
    scaling: ScalingRule | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    memory: int = 5,
    checkpoint: str | Path | None = None,
    watch: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Replay:
    """Run the adaptation loop over a stream of statistics, for several methods side by side.

    Each period and method: (1-3) terminate the draining nodes that are empty; (4) plan on this period's statistics;
    (5) decide on scaling by the plan; (6-7) if the cluster changes, plan anew; (8) apply the plan. The figures of a
    period are those right after its plan is applied. Every method has a cluster of its own.

    Parameters
    ----------
    workloads : iterable of Workload
        One for each period, with the same key groups. The last window's load is the processing load. The first one's
        nodes and current assignment are where every method starts; the others' are ignored.
    methods : sequence of str or Planner
        A str is a method of `problem` under `options`.
    problem, options
        For the methods given by name.
    periods : int, optional
        At most this many periods.
    load_model : LoadModel, optional
        What remote traffic costs; by default nothing.
    scaling : callable, optional
        From `Planned` to `Scaling`, such as `TargetUtilisation`; None keeps the nodes.
    seed : int, default 0
        Period t is planned with seed + t.
    time_limit : float, optional
        Seconds for each plan. A limit that cuts plans short makes runs differ.
    memory : int, default 5
        A move back to the node left at most this many periods ago counts as an oscillation.
    checkpoint : str or Path, optional
        A directory. It is written to in one step after every plan; a later call with the same arguments and the same
        stream goes on from there - a killed run loses the plan under way, no more - and ends with the same results.
        Two calls cannot write to one directory at a time.
    watch : callable, optional
        Called with a `Progress` after each plan.

    Returns
    -------
    Replay

    Raises
    ------
    InputError
        When key groups change between periods, or a checkpoint belongs to other arguments or another stream.
    """
    planners = [m if isinstance(m, Planner) else Planner(m, problem=problem, options=options) for m in methods]
    names = [planner.name for planner in planners]
    if not planners or len(set(names)) < len(names):
        raise InputError(f"methods = {names}: give at least one, each with a label of its own")
    whole("periods", periods)
    memory = whole("memory", memory, optional=False) or 0
    real("time_limit", time_limit)
    loop = _Loop(
        planners,
        load_model or LoadModel(),
        scaling,
        whole("seed", seed, optional=False) or 0,
        time_limit,
        memory,
        watch,
    )
    store = None if checkpoint is None else Checkpoint(Path(checkpoint), loop.description())
    with nullcontext() if store is None else store.open():
        return _run(loop, _first(workloads, periods), store)


def _run(loop: _Loop, workloads: Iterable[Workload], store: Checkpoint | None) -> Replay:
    """Period by period; what the checkpoint knows is not planned again."""
    rows: list[dict[str, Any]] = []
    seconds: list[dict[str, Any]] = []
    labels = [planner.name for planner in loop.planners]
    for period, statistics in enumerate(workloads):
        loop.expect(statistics)
        done = None if store is None else store.read(period, statistics, labels)
        if done is not None:
            loop.clusters = {name: Cluster(**state) for name, state in done["clusters"].items()}
        made, timing = loop.one_period(period, statistics, done["rows"] if done else [], store)
        seconds += timing
        if len(made) < len(labels):
            return Replay(tuple(rows), tuple(seconds), interrupted=True)
        rows += made
    if store is not None:
        store.finish(rows)
    return Replay(tuple(rows), tuple(seconds))


def _first(workloads: Iterable[Workload], periods: int | None) -> Iterator[Workload]:
    for period, workload in enumerate(workloads):
        if periods is not None and period >= periods:
            return
        yield workload


@dataclass
class _Loop:
    """The loop's fixed parts, and the clusters."""

    planners: list[Planner]
    load_model: LoadModel
    scaling: ScalingRule | None
    seed: int
    time_limit: float | None
    memory: int
    watch: Callable[[Progress], None] | None
    clusters: dict[str, Cluster] = field(default_factory=dict)
    key_groups: int | None = None

    def description(self) -> dict[str, Any]:
        """What has to be the same for a run to go on from a checkpoint."""
        return {
            "planners": [repr(planner) for planner in self.planners],
            "load_model": repr(self.load_model),
            "scaling": repr(self.scaling),
            "seed": self.seed,
            "time_limit": self.time_limit,
            "memory": self.memory,
        }

    def expect(self, statistics: Workload) -> None:
        """Refuse a period with other key groups; make the clusters at the first."""
        if self.key_groups is None:
            self.key_groups = statistics.key_groups
            self.clusters = {planner.name: Cluster.of(statistics) for planner in self.planners}
        elif statistics.key_groups != self.key_groups:
            raise InputError(f"a period has {statistics.key_groups} key groups, the first one had {self.key_groups}")

    def one_period(
        self, period: int, statistics: Workload, done: Sequence[dict[str, Any]], store: Checkpoint | None
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Every method's row, those that are `done` as they are; fewer when it was interrupted."""
        rows, timing = list(done), []
        for planner in self.planners[len(rows) :]:
            began = perf_counter()
            row = self._adapt(planner, self.clusters[planner.name], period, statistics)
            if row is None:
                break
            rows.append(row)
            timing.append({"period": period, "method": planner.name, "seconds": perf_counter() - began})
            if store is not None:
                store.write(period, statistics, rows, {name: c.to_dict() for name, c in self.clusters.items()})
            if self.watch is not None:
                self.watch(Progress(row["objective"], row["bound"], f"period {period}, {planner.name}"))
        return rows, timing

    def _adapt(self, planner: Planner, cluster: Cluster, period: int, statistics: Workload) -> dict[str, Any] | None:
        """Algorithm 1, once."""
        cluster.terminate_empty()
        workload = cluster.workload(statistics)
        if cluster.start_load is None:
            cluster.start_load = self.load_model.total_load(workload, workload.current)
        plan = self._plan(planner, workload, period)
        if plan is None:
            return None
        replanned = False
        if self.scaling is not None:
            loads = self.load_model.node_loads(workload, plan.assignment)
            decision: Scaling = self.scaling(Planned(workload, plan.assignment, loads))
            if decision:
                cluster.scale(decision)
                workload, replanned = cluster.workload(statistics), True
                plan = self._plan(planner, workload, period)
                if plan is None:
                    return None
        back = cluster.apply(plan.assignment, period, self.memory)
        return {
            "period": period,
            "method": planner.name,
            **self._figures(workload, plan.assignment, cluster),
            "oscillations": back,
            "nodes": workload.nodes,
            "draining": int(workload.draining.sum()),
            "objective": plan.objective,
            "bound": plan.bound,
            "fallback": plan.fallback,
            "replanned": replanned,
        }

    def _plan(self, planner: Planner, workload: Workload, period: int) -> _Plan | None:
        """The method's plan; else that of key-group allocation; else to stay."""
        seed = self.seed + period
        posed = planner.pose(workload, self.load_model)
        start = workload.current if planner.from_current and not posed.violations(workload.current) else None
        found = solve(posed, planner.method, seed=seed, time_limit=self.time_limit, start=start, **planner.settings)
        if found.termination == "interrupted":
            return None
        if found.assignment is not None:
            return _Plan(found.assignment, found.objective, found.bound, "")
        if not planner.balance_first:
            return _Plan(workload.current, None, found.bound, "stay")
        posed = planner.balancing(workload, self.load_model)
        budget = Budget(self.time_limit)
        with interruptible(budget.interrupt):
            balanced = allocate(posed, budget, seed, BALANCING_ROUNDS, 1e-3 * posed.scale)
        if budget.interrupted:
            return None
        if balanced is None or posed.violations(balanced):
            return _Plan(workload.current, None, found.bound, "stay")
        return _Plan(balanced, None, found.bound, "balance")

    def _figures(self, workload: Workload, assignment: IntArray, cluster: Cluster) -> dict[str, float]:
        loads = self.load_model.node_loads(workload, assignment)
        mean = float(loads.sum() / workload.capacity[workload.kept].sum())
        deviation = loads / workload.capacity - mean
        distance = float(max(np.abs(deviation[workload.kept]).max(), deviation[workload.draining].max(initial=0.0)))
        total = float(loads.sum())
        unmoved = self.load_model.total_load(workload, np.array(cluster.first_place))
        figures = {
            "load_distance": distance,
            "load_distance_percent": 100 * distance / mean if mean > 0 else 0.0,
            "load_index": 100 * total / cluster.start_load if cluster.start_load else 100.0,
            "load_index_same_input": 100 * total / unmoved if unmoved > 0 else 100.0,
            "total_load": total,
            "migrations": metrics.migrations(workload, assignment),
            "state_moved": metrics.state_moved(workload, assignment),
        }
        if workload.traffic is not None:
            figures["remote_traffic"] = metrics.remote_traffic(workload, assignment)
            figures["collocation_factor"] = metrics.collocation_factor(workload, assignment)
        return figures


@dataclass(frozen=True)
class _Plan:
    assignment: IntArray
    objective: float | None
    bound: float | None
    fallback: str
