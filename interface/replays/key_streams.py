"""Key splitting in the loop: partitioners that remember, fed with one window of keys after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from keyshift.heuristics.splitting.partitioner import SCHEMES, Partitioner
from keyshift.models import InputError
from keyshift.models.answer import Progress
from keyshift.models.splitting.stream import as_keys
from keyshift.models.workload import IntArray
from keyshift.replays.checkpoint import Checkpoint
from keyshift.replays.planner import Planner, is_about, problem_class
from keyshift.replays.results import PackedRows, Replay
from keyshift.solving import solve

SPLITTING = "key-splitting"
ANYWHERE = ("shuffle", "on-greedy", "d-choices", "w-choices")
"""Schemes that send a key beyond its two candidates: the plan in hindsight may do so, too."""
_FOR_PARTITIONER = ("workers", "choices", "sources", "feed", "hash_seed")


@dataclass
class KeyStreams:
    """The fixed parts of a replay of keys, and every scheme's partitioner.

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

    def __post_init__(self) -> None:
        for planner in self.planners:
            problem_class(planner.problem, "stream")
            if planner.method not in SCHEMES:
                said = f"{planner.problem}, {planner.method!r}"
                raise InputError(f"{said}: a stream of keys is replayed by {', '.join(SCHEMES)} of {SPLITTING}")
        self.partitioners = [_partitioner(planner) for planner in self.planners]

    def description(self) -> dict[str, Any]:
        """The settings that must be the same for a run to go on from a checkpoint."""
        return {
            "planners": [repr(planner) for planner in self.planners],
            "load_model": "",
            "scaling": "None",
            "seed": 0,
            "time_limit": self.time_limit,
            "memory": 0,
            "regret": self.regret,
        }

    def row(self, number: int, period: int, keys: IntArray) -> dict[str, Any] | None:
        """The figures of a scheme on a window; None where it was interrupted."""
        planner, sent = self.planners[number], self.partitioners[number].feed(keys)
        make: Any = problem_class(SPLITTING, "stream")
        problem = make(keys, **planner.options)
        outcome = problem.outcome(sent, points=1)
        mean = problem.scale
        figures = {
            "load_distance": float(np.abs(outcome.loads - mean).max()),
            "load_distance_percent": 100 * float(np.abs(outcome.loads - mean).max()) / mean,
            "theta": float(outcome.loads.max()) / mean - 1,
            "imbalance": float(outcome.loads.max()) - mean,
            "total_load": float(keys.size),
            "counters": int(outcome.counters.sum()),
            "keys": int(outcome.keys),
            "nodes": int(problem.workers),
            "objective": float(outcome.loads.max()),
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


def replay_keys(windows: Iterable[Any], loop: KeyStreams, periods: int | None, checkpoint: str | Path | None) -> Replay:
    """Window by window; a resumed run feeds the partitioners again what is known, and solves only the rest."""
    store = None if checkpoint is None else Checkpoint(Path(checkpoint), loop.description())
    rows, seconds = PackedRows(), PackedRows()
    with nullcontext() if store is None else store.open():
        for period, window in enumerate(islice(windows, periods)):
            keys = as_keys(window)
            if keys.size == 0:
                raise InputError(f"window {period} holds no key")
            made, timing = _one_window(loop, period, keys, store)
            seconds.extend(timing)
            if len(made) < len(loop.planners):
                return Replay(rows, seconds, interrupted=True)
            rows.extend(made)
        if store is not None:
            store.finish(rows)
    return Replay(rows, seconds)


def _one_window(
    loop: KeyStreams, period: int, keys: IntArray, store: Checkpoint | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every scheme's row, and the seconds of those that were not known; fewer when it was interrupted."""
    stamp = hashlib.sha256(keys.tobytes()).hexdigest()
    labels = [planner.name for planner in loop.planners]
    done = None if store is None else store.read(period, stamp, labels, 0)
    rows: list[dict[str, Any]] = list(done["rows"]) if done else []
    timing = []
    for number, label in enumerate(labels):
        if number < len(rows):
            loop.partitioners[number].feed(keys)
            continue
        began = perf_counter()
        row = loop.row(number, period, keys)
        if row is None:
            break
        rows.append(row)
        timing.append({"period": period, "method": label, "seconds": perf_counter() - began})
        if store is not None:
            store.write(period, stamp, rows, {})
        if loop.watch is not None:
            loop.watch(Progress(row["objective"], row["bound"], f"period {period}, {label}"))
    return rows, timing


def _partitioner(planner: Planner) -> Partitioner:
    """The scheme with what the problem and the planner's settings say of it."""
    own = {name: planner.options[name] for name in _FOR_PARTITIONER if name in planner.options}
    settings: Mapping[str, Any] = {("choices" if name == "d" else name): v for name, v in planner.settings.items()}
    try:
        return Partitioner(planner.method, **{**own, **settings})  # type: ignore[arg-type]  # __post_init__ has looked
    except TypeError:
        raise InputError(f"{planner.method} has no setting like one of {', '.join(settings)}") from None


def streams_of_keys(planners: Sequence[Planner]) -> bool:
    """Whether the planners are for keys: all of them, or none."""
    split = [is_about(planner.problem, "stream") for planner in planners]
    if any(split) and not all(split):
        raise InputError("methods mix problems of keys and of workloads: a stream holds one or the other")
    return any(split)
