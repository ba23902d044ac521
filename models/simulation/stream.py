"""The tuples that a simulation serves: a log, or rates from which one is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.guards import indices, non_negative
from keyshift.models.workload import FloatArray, IntArray, Workload

ARRIVALS = ("poisson", "even")
GOLDEN = (5**0.5 - 1) / 2


class TupleLog(NamedTuple):
    """Tuples in the order in which they come: seconds, key groups, and the work of each (none: 1 each)."""

    times: FloatArray
    keys: IntArray
    work: FloatArray
    seconds: float


@dataclass(frozen=True, eq=False)
class WindowRates:
    """Tuples of each key group in each window, shape (m, p), and how long a window is, in seconds."""

    load: FloatArray
    window_seconds: float

    @property
    def seconds(self) -> float:
        """How long the stream is."""
        return float(self.load.shape[0] * self.window_seconds)

    @property
    def tuples(self) -> float:
        """Tuples of all windows."""
        return float(self.load.sum())

    def draw(self, arrivals: str, rng: np.random.Generator) -> TupleLog:
        """One log: a Poisson process of each key group, or its tuples (rounded) evenly over each window."""
        parts = [(_poisson if arrivals == "poisson" else _even)(row, rng) for row in self.load]
        times = [(t + share) * self.window_seconds for t, (share, _) in enumerate(parts)]
        keys = np.concatenate([keys for _, keys in parts])
        return TupleLog(np.concatenate(times), keys, np.empty(0), self.seconds)


def _poisson(load: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Times as shares of the window: gaps are exponential, so the sums over all of them are uniform order statistics."""
    total = load.sum()
    times = rng.standard_exponential(rng.poisson(total) + 1)
    np.cumsum(times, out=times)
    times /= times[-1]
    if times.size == 1:
        return times[:0], np.empty(0, np.int32)
    busy = np.flatnonzero(load)  # rounding must not give tuples to a key group that has none
    found = np.searchsorted(np.cumsum(load[busy])[:-1] / total, rng.random(times.size - 1), side="right")
    return times[:-1], busy.astype(np.int32)[found]


def _even(load: FloatArray, _: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Each key group's tuples at equal distances; the key groups begin one after another, not at once."""
    count = np.rint(load).astype(np.int64)
    keys = np.repeat(np.arange(load.size, dtype=np.int32), count)
    number = np.arange(keys.size) - np.repeat(np.cumsum(count) - count, count)
    times = (number + ((keys + 1) * GOLDEN) % 1.0) / count[keys]
    order = np.argsort(times, kind="stable")
    return times[order], keys[order]


def read_stream(given: Any, window_seconds: float) -> TupleLog | WindowRates:
    """Read a workload, loads or a log (times, keys[, work]); refuse anything else."""
    if isinstance(given, Workload):
        return WindowRates(given.load, window_seconds)
    if not isinstance(given, tuple):
        return WindowRates(non_negative("stream", given, ndim=(1, 2)), window_seconds)
    if len(given) not in (2, 3):
        raise InputError(f"stream has {len(given)} parts, expected (times, keys) or (times, keys, work)")
    times = non_negative("times", given[0])
    back = np.flatnonzero(np.diff(times) < 0)
    if back.size:
        i = int(back[0]) + 1
        raise InputError(
            f"times[{i}] = {times[i]:g} comes before times[{i - 1}] = {times[i - 1]:g}: sort the log by time"
        )
    keys = np.asarray(given[1])
    if keys.shape != times.shape:
        raise InputError(f"keys has shape {keys.shape}, expected {times.shape}: one key for each time")
    work = non_negative("work", given[2], length=times.size, of="tuples") if len(given) == 3 else np.empty(0)
    return TupleLog(times, indices("keys", keys, length=times.size, what="key"), work, float(times[-1]))
