"""replay: the adaptation loop of [Madsen2016] (Algorithm 1), period by period over a stream of workloads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from keyshift.files.table import is_table
from keyshift.files.workload import read_workload
from keyshift.heuristics.splitting.partitioner import SCHEMES, Partitioner
from keyshift.models import InputError, Workload
from keyshift.models.answer import TIME_LIMIT, Progress
from keyshift.models.base.guards import real, whole
from keyshift.models.collocation.load_model import LoadModel
from keyshift.models.errors import refusing
from keyshift.models.splitting.stream import as_keys
from keyshift.models.workload import MOST_NODES, IntArray
from keyshift.replays.forecasting import MOST_WINDOWS, Forecast, LoadForecast
from keyshift.replays.loop import Loop, Patience, SideBySide
from keyshift.replays.planner import (
    DEFAULT_PROBLEM,
    OWN,
    Balanced,
    Cluster,
    Planner,
    ScalingRule,
    is_about,
    problem_class,
)
from keyshift.replays.results import Replay
from keyshift.solving import solve
from keyshift.spark_stats.statistics_files import MANIFEST, from_tables, read_manifest, tables_of, windows_of


def replay(
    workloads: Iterable[Workload] | Iterable[Any],
    methods: str | Planner | Sequence[str | Planner] = ("albic",),
    *,
    problem: str = DEFAULT_PROBLEM,
    periods: int | None = None,
    forecast: str | LoadForecast | Forecast | None = None,
    regret: bool = True,
    min_gain: float = 0.0,
    horizon: int = 1,
    hysteresis: float = 0.0,
    every: int = 1,
    load_model: LoadModel | None = None,
    resource: str | None = None,
    capacities: Mapping[str, float] | None = None,
    scaling: ScalingRule | None = None,
    seed: int = 0,
    time_limit: float | None = TIME_LIMIT,
    memory: int = 5,
    checkpoint: str | Path | None = None,
    watch: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Replay:
    """Run the loop of measuring, planning and moving over recorded statistics, for several methods.

    Each period and method: (1-3) terminate the draining nodes that are empty; (4) plan on this period's statistics, or
    with a forecast on what the next window is expected to bring; (5) decide on scaling by the plan; (6-7) if the cluster
    changes, plan anew; (8) apply the plan. A period is valued right after its plan is applied: on the statistics that
    the plan was made from, or with a forecast on the window that followed. Every method has a cluster of its own.

    Parameters
    ----------
    workloads : iterable of Workload, or of arrays of keys
        One for each period, with the same key groups. The last window's load is the processing load. The first one's
        nodes and current assignment are where every method starts; the others' are ignored. `home` is the hash of the
        first one's nodes: added ones take keys from all of them, and those of a draining one are hashed anew [Thaler1998].
        For key splitting: the keys of each window, in the order in which they arrive.
    methods : str, Planner, or sequence of these
        A str is a method of `problem` under `options`.
    problem, options
        For the methods given by name. Any problem about a workload; problems of contiguous intervals get their node
        counts from `scaling`, and a larger tau in a period whose loads have no feasible partition. "key-splitting": the
        methods are schemes of `Partitioner`, which remember what they sent where; regret is theta minus that of the
        best split of the window, found afterwards.
    periods : int, optional
        At most this many periods.
    forecast : str, Forecast or callable, optional
        "last", "mean", "ewma", "seasonal", "quantile" or a function: see `Forecast`. A period then plans when its
        window is over, and is valued on the next window, so no plan is made after the last window. None: each plan is
        valued on the statistics that it was made from.
    regret : bool, default True
        With a forecast: also solve the window that followed from the same start, and record how much worse the plan is.
    min_gain : float, default 0
        Carry a plan out only if it gains more than this for each unit of state that it moves. Gain: how far the measure
        of the problem (load distance; remote traffic; theta, for routing and intervals; imbalance, for MCLB) falls,
        summed over the next `horizon` windows of the forecast. Plans that empty draining nodes, follow a change of the
        number of nodes or repair a broken limit are always carried out.
    horizon : int, default 1
    hysteresis : float, default 0
        Carry a plan out only if it gains at least this share of the measure without it.
    every : int, default 1
        For the methods given by name: plan only after every so many periods. MCLB then looks at all their windows.
    load_model : LoadModel, optional
        What remote traffic costs; by default nothing.
    resource : str, optional
        What to balance: "load", or a resource of the workloads. By default, if `capacities` are known, the bottleneck
        of each period: the resource of which all key groups together use the greatest share ([Madsen2016], section 3);
        else the load.
    capacities : mapping of str to float, optional
        What a node of capacity 1 carries of "load" and of each resource.
    scaling : callable, optional
        From `Planned` to `Scaling`, such as `TargetUtilisation` or `NodeCounts`; None keeps the nodes.
    seed : int, default 0
        Period t is planned with seed + t.
    time_limit : float or None, default 60.0
        Seconds for each plan; None: no limit. Runs whose plans end at this limit may differ.
    memory : int, default 5
        A move back to the node left at most this many periods ago counts as an oscillation.
    checkpoint : str or Path, optional
        A directory. It is written to after every plan. A later call with the same arguments and the same stream
        continues from there and ends with the same results; a run that is killed loses only the current plan. Two calls
        cannot write to the same directory at the same time.
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
    methods = [methods] if isinstance(methods, str | Planner) else methods
    planners = [
        m if isinstance(m, Planner) else Planner(m, problem=problem, options=options, every=every) for m in methods
    ]
    names = [planner.name for planner in planners]
    if not planners or len(set(names)) < len(names):
        raise InputError(f"methods = {names}: give at least one, each with a label of its own")
    whole("periods", periods, most=2**62)
    if streams_of_keys(planners):
        if forecast is not None or scaling is not None or resource is not None or capacities or load_model is not None:
            said = "a stream of keys takes no forecast, scaling, resource or load model: those are for workloads"
            raise InputError(said)
        keys = KeyStreams(planners, bool(regret), real("time_limit", time_limit), watch)
        return keys.run(workloads, periods, checkpoint)
    memory = whole("memory", memory, optional=False)
    real("time_limit", time_limit)
    loop = Loop(
        planners,
        load_model or LoadModel(),
        scaling,
        whole("seed", seed, optional=False),
        time_limit,
        memory,
        None if forecast is None else Forecast.read(forecast),
        bool(regret),
        Patience(
            real("min_gain", min_gain, optional=False),
            whole("horizon", horizon, least=1, most=MOST_WINDOWS, optional=False),
            real("hysteresis", hysteresis, optional=False),
        ),
        _balanced(resource, capacities, planners),
        watch,
    )
    return loop.run(workloads, periods, checkpoint)


def _balanced(resource: str | None, capacities: Mapping[str, float] | None, planners: Sequence[Planner]) -> Balanced:
    """The balanced resource; a limit on "load" would be one on whatever that is in a period."""
    balanced = Balanced(resource, dict(capacities or {}))
    for planner in planners:
        limited = planner.options.get("resource_capacity") or {}
        if (balanced.capacities or resource not in (None, OWN)) and OWN in limited:
            raise InputError(
                "resource_capacity names 'load', but another resource may take its place in a period: "
                "give the load as a resource, too, and limit that"
            )
    return balanced


# Key splitting in the loop: partitioners that remember, fed with one window of keys after the other --------------------

SPLITTING = "key-splitting"
ANYWHERE = ("shuffle", "on-greedy", "d-choices", "w-choices")
"""Schemes that send a key beyond its two candidates: the plan in hindsight may do so, too."""
_FOR_PARTITIONER = ("workers", "choices", "sources", "feed", "hash_seed")


@dataclass
class KeyStreams(SideBySide):
    """The fixed parts of a replay of keys, and every scheme's partitioner: a resumed run feeds it again what is known.

    Parameters
    ----------
    planners : list of Planner
        Whose methods are schemes of `Partitioner`; their options are the problem's, their settings the partitioner's.
    regret : bool
        Whether to solve each window for the split that would have been best.
    """

    planners: list[Planner]
    regret: bool
    time_limit: float | None
    watch: Callable[[Progress], None] | None
    clusters: dict[str, Cluster] = field(default_factory=dict)
    key_groups: int | None = None

    def __post_init__(self) -> None:
        for planner in self.planners:
            problem_class(planner.problem, "stream")
            if planner.method not in SCHEMES:
                said = f"{planner.problem}, {planner.method!r}"
                raise InputError(f"{said}: a stream of keys is replayed by {', '.join(SCHEMES)} of {SPLITTING}")
        self.partitioners = [_partitioner(planner) for planner in self.planners]

    def periods(self, stream: Iterable[Any], most: int | None) -> Iterator[IntArray]:
        """The keys of each window."""
        for period, window in enumerate(islice(stream, most)):
            keys = as_keys(window)
            if keys.size == 0:
                raise InputError(f"window {period} holds no key")
            yield keys

    def stamp(self, window: IntArray) -> str:
        return hashlib.sha256(window.tobytes()).hexdigest()

    def known(self, number: int, window: IntArray) -> None:
        self.partitioners[number].feed(window)

    def description(self) -> dict[str, Any]:
        return {
            "planners": [repr(planner) for planner in self.planners],
            "load_model": "",
            "scaling": "None",
            "seed": 0,
            "time_limit": self.time_limit,
            "memory": 0,
            "regret": self.regret,
        }

    def row(self, number: int, period: int, window: IntArray) -> dict[str, Any] | None:
        planner, sent = self.planners[number], self.partitioners[number].feed(window)
        make: Any = problem_class(SPLITTING, "stream")
        problem = make(window, **planner.options)
        outcome = problem.outcome(sent, points=1)
        mean = problem.scale
        distance, largest = float(np.abs(outcome.loads - mean).max()), float(outcome.loads.max())
        figures = {
            "load_distance": distance,
            "load_distance_percent": 100 * distance / mean,
            "theta": largest / mean - 1,
            "imbalance": largest - mean,
            "total_load": float(window.size),
            "counters": int(outcome.counters.sum()),
            "keys": int(outcome.keys),
            "nodes": int(problem.workers),
            "objective": largest,
        }
        said = {"bound": None, "fallback": "", "replanned": False}
        row: dict[str, Any] = {"period": period, "method": planner.name, **figures, **said}
        if self.regret:
            posed = problem.with_choices(None) if planner.method in ANYWHERE else problem
            best = solve(posed, time_limit=self.time_limit)
            if best.termination == "interrupted" or best.objective is None:
                return None
            row |= {"bound": best.bound, "knew_theta": best.objective / mean - 1}
            row["regret"] = row["theta"] - row["knew_theta"]
        return row


def _partitioner(planner: Planner) -> Partitioner:
    """The scheme with what the problem and the planner's settings say of it."""
    own = {name: planner.options[name] for name in _FOR_PARTITIONER if name in planner.options}
    settings: Mapping[str, Any] = {("choices" if name == "d" else name): v for name, v in planner.settings.items()}
    with refusing(f"{planner.method} has no setting like one of {', '.join(settings)}", TypeError):
        return Partitioner(planner.method, **{**own, **settings})  # type: ignore[arg-type]  # __post_init__ has looked


def streams_of_keys(planners: Sequence[Planner]) -> bool:
    """Whether the planners are for keys: all of them, or none."""
    split = [is_about(planner.problem, "stream") for planner in planners]
    if any(split) and not all(split):
        raise InputError("methods mix problems of keys and of workloads: a stream holds one or the other")
    return any(split)


# Reading a stream of workloads, one for each period, from what lies on disk -------------------------------------------


def read_periods(path: str | Path, nodes: int | None = None, placement: str | None = None) -> Iterator[Workload]:
    """Read workloads one after the other, as `replay` takes them.

    Parameters
    ----------
    path : str or Path
        Statistics that `keyshift stats` wrote: a period for each window, with its load, state and traffic. Or a
        workload (``.json``, a table or a directory): a period for each of its windows, all with the same state and traffic.
        Or a folder of workloads: a period for each, by name.
    nodes, placement : optional
        For statistics that name none, or to ask for others.

    Raises
    ------
    InputError
        With the file and what is wrong.
    """
    source = Path(path)
    whole("nodes", nodes, least=1, most=MOST_NODES)
    if (source / MANIFEST).is_file():
        yield from _statistics(source, nodes, placement)
    elif nodes is not None or placement is not None:
        raise InputError(f"{source} holds workloads, which name their nodes: nodes and placement are for statistics")
    elif _is_workload(source):
        read = read_workload(source)
        for row in read.load:
            yield read.replace(load=row)
    else:
        yield from map(read_workload, _members(source))


def count_periods(path: str | Path) -> int:
    """How many workloads `read_periods` will give."""
    source = Path(path)
    if (source / MANIFEST).is_file():
        return len(windows_of(read_manifest(source)))
    return read_workload(source).windows if _is_workload(source) else len(_members(source))


def _is_workload(path: Path) -> bool:
    return path.suffix == ".json" or is_table(path) or (path / "workload.json").is_file()


def _members(source: Path) -> list[Path]:
    if not source.is_dir():
        raise InputError(f"{source} does not exist")
    found = [path for path in sorted(source.iterdir()) if _is_workload(path)]
    if not found:
        raise InputError(f"{source} holds neither statistics nor workloads")
    return found


def _statistics(source: Path, nodes: int | None, placement: str | None) -> Iterator[Workload]:
    """A workload for each window: its own load and traffic, and the state that is held at its end."""
    manifest = read_manifest(source)
    nodes = manifest.get("nodes") if nodes is None else nodes
    if nodes is None:
        raise InputError(f"{source} holds statistics that name no nodes: give their number")
    if not manifest["runs"]:
        raise InputError(f"{source} holds no window")
    tables = tables_of(source, manifest)
    for number in sorted(tables[0].run_of):
        yield from_tables(*tables, number, number, nodes, placement)
