"""The result of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models.guards import frozen
from keyshift.models.workload import FloatArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Simulation:
    """Throughput and latency as simulated, under the assumptions of `simulate`. Nothing here was measured.

    A latency is the time from when a tuple comes until its node has served it, in seconds.

    Attributes
    ----------
    method : str
        "events" (tuple by tuple) or "fluid".
    tuples : float
        Tuples that arrived.
    seconds : float
        How long the stream was.
    drained : float
        When the last tuple was done, in seconds from the start.
    throughput : float
        Tuples a second that were done while the stream lasted.
    latency_mean, latency_p95, latency_p99, latency_max : float
        Over all tuples, those that were done after the end of the stream too; in seconds. NaN where none arrived.
    utilisation : ndarray, shape (n,)
        Share of the time, until the last tuple is done, that each node served.
    paused : float
        Seconds that key groups were held while their state travelled, summed over them.
    times : ndarray, shape (b,)
        Ends of equal spans of time, in seconds.
    backlog : ndarray, shape (b, n)
        Tuples that arrived for each node and are not done, at these times.
    arrived : ndarray, shape (b,)
        Tuples that arrived in each span.
    done : ndarray, shape (b,)
        Tuples that were done in it.
    latency : ndarray, shape (b,)
        Mean latency of those that arrived in it, in seconds; NaN where none arrived.
    counters : float
        Partial results that were sent to aggregators; 0 without them.
    merged_mean : float
        Mean time from when a tuple comes until an aggregator has merged the partial result that holds it, in seconds; NaN
        without aggregators.
    """

    method: str
    tuples: float
    seconds: float
    drained: float
    throughput: float
    latency_mean: float
    latency_p95: float
    latency_p99: float
    latency_max: float
    utilisation: FloatArray
    paused: float
    times: FloatArray
    backlog: FloatArray
    arrived: FloatArray
    done: FloatArray
    latency: FloatArray
    counters: float = 0.0
    merged_mean: float = float("nan")

    def __post_init__(self) -> None:
        for name in ("utilisation", "times", "backlog", "arrived", "done", "latency"):
            frozen(getattr(self, name))

    @property
    def largest_backlog(self) -> float:
        """The most tuples, over all nodes, that were not done at one of `times`."""
        return float(self.backlog.sum(axis=1).max())

    def to_frame(self) -> pd.DataFrame:
        """One row for each span: seconds (its end), arrived and done (tuples a second), latency (s), backlog (tuples)."""
        import pandas as pd

        width = self.times[0]
        return pd.DataFrame(
            {"seconds": self.times, "arrived": self.arrived / width, "done": self.done / width, "latency": self.latency,
             "backlog": self.backlog.sum(axis=1)}
        )  # fmt: skip

    def as_record(self) -> dict[str, Any]:
        """Everything but the spans of time, as plain numbers; NaN as None."""
        single = {name: value for name, value in self.__dict__.items() if isinstance(value, str | float)}
        plain = {name: None if value != value else value for name, value in single.items()}
        return {**plain, "largest_backlog": self.largest_backlog, "utilisation": self.utilisation.tolist()}

    def __str__(self) -> str:
        return (
            f"simulated ({self.method}), not measured: {self.tuples:,.0f} tuples in {self.seconds:,.6g} s\n"
            f"throughput {self.throughput:,.6g} tuples/s, all done after {self.drained:,.6g} s\n"
            f"latency: mean {said(self.latency_mean)}, 95 % within {said(self.latency_p95)}, "
            f"99 % within {said(self.latency_p99)}, largest {said(self.latency_max)}\n"
            f"largest backlog {self.largest_backlog:,.6g} tuples; utilisation {100 * self.utilisation.min():.1f} to "
            f"{100 * self.utilisation.max():.1f} %"
        )

    __repr__ = __str__


def said(seconds: float) -> str:
    """A time for people: 1.2 ms, 3.4 s."""
    if not np.isfinite(seconds):
        return "unknown"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
