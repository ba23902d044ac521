"""Statistics of a log that never ends: Structured Streaming, one window after the other.

Each micro-batch is tallied like a whole log. The tallies of windows that are still open wait, packed, under
``pending/`` in the output directory; a window closes when the watermark - the latest time seen so far, less the allowed
delay - reaches its end, and is then written like any other window. A tuple whose window was closed before its batch
began is late: refused and counted.

Restarts are exact. One replacement of ``statistics.json`` commits a batch: its number, the watermark, what is pending
and the windows that it closed. A batch that Spark hands over again after a crash is recognised by its number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyshift.models.errors import InputError
from keyshift.spark_stats import hadoop, output
from keyshift.spark_stats.acceptance import Log, read_tuples
from keyshift.spark_stats.facts import Facts, gather, merged, plan_of, schema_of
from keyshift.spark_stats.hadoop import is_remote
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.session import refuse_connect_frame
from keyshift.spark_stats.statistics import Stats
from keyshift.spark_stats.statistics_files import read_statistics
from keyshift.spark_stats.tallied import refused
from keyshift.spark_stats.tallies import ARRIVED, LATE
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows, microseconds, zone_of

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from keyshift.models.workload import Workload


class StatsStream:
    """Statistics of a stream, written window by window to a directory.

    Parameters
    ----------
    events : DataFrame
        A streaming DataFrame: files, or Kafka where the connector is on Spark's class path.
    topology, time, window, origin, time_zone, since, until, key_groups, hash
        As for `keyshift.spark_stats.collect`.
    path : str or Path
        The output directory, see `keyshift.spark_stats.statistics_files`; it also stores the stream's position
        (``checkpoint/``, ``pending/``). Start again with the same directory to continue.
    watermark : str or timedelta, default "0 seconds"
        How late a tuple may arrive: a window closes when a tuple is seen that is this much later than the window's end.
    on_window : callable, optional
        Called with the `Workload` of each window that closes, in order; needs `nodes`. Its `window_start` says which it is.
    nodes : int or array_like, optional
        Nodes of these workloads, and of those that are read from the directory later.

    Raises
    ------
    InputError
        Before the stream starts: as `collect`, or a directory of other statistics.
    """

    def __init__(
        self,
        events: DataFrame,
        topology: Topology,
        path: str | Path,
        *,
        time: str,
        window: str | timedelta,
        origin: str | datetime | None = None,
        time_zone: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        key_groups: int = 128,
        hash: str = "xxhash64",
        watermark: str | timedelta = "0 seconds",
        on_window: Callable[[Workload], None] | None = None,
        nodes: int | ArrayLike | None = None,
    ) -> None:
        if is_remote(path):
            raise InputError(f"the position of a stream is kept in a local folder, not in {path}")
        if on_window is not None and nodes is None:
            raise InputError("on_window gets a workload for every window, which needs the number of nodes: give nodes")
        refuse_connect_frame(events)
        self._events, self._topology, self._time = events, topology, time
        self._windows = Windows.of(window, origin, zone_of(events, time_zone), since, until)
        self._key_groups = KeyGroups(key_groups, hash)
        self._delay = 0 if str(watermark).split()[:1] == ["0"] else microseconds("watermark", watermark)
        self._path, self._on_window, self._nodes = Path(path).absolute(), on_window, nodes
        checked = read_tuples(events, topology, time, self._windows, self._key_groups)
        self._plan = plan_of(topology, checked)
        self._facts = partial(Facts, measures=checked.measures, plan=self._plan)
        with hadoop.claim(self._path):
            self._manifest()  # refuses a directory of other statistics

    def start(self, **trigger: Any) -> StreamingQuery:
        """Start the query; `trigger` as for Spark's `DataStreamWriter.trigger`, by default ``availableNow=True``."""
        with hadoop.claim(self._path):
            (self._path / "checkpoint").mkdir(exist_ok=True)  # from now on the directory is ours
        writer = self._events.writeStream.foreachBatch(self.batch)
        writer = writer.option("checkpointLocation", str(self._path / "checkpoint"))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def batch(self, rows: DataFrame, number: int) -> None:
        """Count one micro-batch, once, and close the windows that the watermark has passed."""
        with hadoop.claim(self._path):
            self._batch(rows, number)

    def _batch(self, rows: DataFrame, number: int) -> None:
        manifest = self._manifest()
        stream = manifest["stream"]
        if number <= stream["batch"]:
            return  # handed over again after a crash: it counts already
        closed_until = stream["watermark"]
        tuples = read_tuples(rows, self._topology, self._time, self._windows, self._key_groups, closed_until)
        folder = self._path / "pending" / str(number)
        if not hadoop.remove(folder):  # left by a job that was killed, or somebody else's
            raise InputError(f"{folder} was not made by keyshift: it is not written to")
        hadoop.make(folder)
        gather(tuples, self._topology).frame.write.parquet(self._tallies(number))
        instant, _ = Log(rows, self._topology.trust).instant(self._time)
        latest = rows.where(self._windows.inside(instant)).agg(F.max(F.unix_micros(instant))).collect()[0][0]
        marks = [mark for mark in (closed_until, None if latest is None else latest - self._delay) if mark is not None]
        stream = {**stream, "batch": number, "watermark": max(marks, default=None)}
        tallied = rows.sparkSession.read.schema(schema_of(self._plan)).parquet(self._tallies(number))
        counted = self._facts(tallied).arrivals_and_refusals()
        here = set(counted["window"][counted["kind"] == ARRIVED].tolist())
        stream["pending"] = {**stream["pending"], str(number): sorted(here)}
        for_good = [row for row in refused(counted) if row[0] is None or row[1] == LATE]  # no window, or a closed one
        stream["refused"] = _add(stream["refused"], for_good)
        self._close(rows.sparkSession, manifest, stream)

    def finish(self) -> None:
        """Close all windows: the stream has ended."""
        with hadoop.claim(self._path):
            manifest = self._manifest()
            self._close(self._events.sparkSession, manifest, dict(manifest["stream"]), everything=True)

    def _tallies(self, number: int | str) -> str:
        """Where the tallies of a batch wait; those of version 0.1 lie in the folder itself."""
        folder = self._path / "pending" / str(number)
        return str(folder if any(folder.glob("*.parquet")) else folder / "tallies")

    def _manifest(self) -> dict[str, Any]:
        description = output.description(self._topology, self._windows, self._key_groups)
        manifest = output.with_defaults(output.open_manifest(self._path, description), **output.cluster_of(self._nodes))
        manifest.setdefault("stream", {"batch": -1, "watermark": None, "pending": {}, "refused": []})
        return manifest

    def _close(
        self, spark: SparkSession, manifest: dict[str, Any], stream: dict[str, Any], everything: bool = False
    ) -> None:
        """Write the windows that end at or before the watermark, and commit."""
        waiting: dict[str, list[int]] = stream["pending"]
        mark = stream["watermark"]
        held = sorted({window for windows in waiting.values() for window in windows})
        ends = [window for window in held if everything or (mark is not None and self._windows.end_of(window) <= mark)]
        left = {number: [w for w in windows if not ends or w > ends[-1]] for number, windows in waiting.items()}
        manifest = {**manifest, "stream": {**stream, "pending": {n: windows for n, windows in left.items() if windows}}}
        if ends:
            folders = [self._tallies(n) for n, windows in waiting.items() if set(windows) & set(ends)]
            tallied = (
                spark.read.schema(schema_of(self._plan))
                .parquet(*folders)
                .where(F.col("window").between(ends[0], ends[-1]))
            )
            with Stats(
                self._facts(merged(tallied, self._plan)), self._topology, self._windows, self._key_groups
            ) as stats:
                output.write(stats, self._path, manifest=manifest, placed_only=True)
        else:
            output.commit(self._path, manifest)
        self._clear(manifest["stream"]["pending"], known=set(waiting))
        if self._on_window is not None and self._nodes is not None:
            for window in ends:
                workload = read_statistics(self._path, self._nodes, end=window, last=1)
                self._on_window(self._windows.begun(workload, window))

    def _clear(self, pending: Mapping[str, list[int]], known: set[str]) -> None:
        folder = self._path / "pending"
        for entry in folder.iterdir() if folder.is_dir() else []:
            if entry.name not in pending:
                hadoop.remove(entry, known=entry.name in known)


def _add(known: list[list[Any]], more: Sequence[Sequence[int | None]]) -> list[list[Any]]:
    """Add up rows (window, number that says why, rows)."""
    sums: Counter[Any] = Counter()
    for window, why, rows in [*known, *more]:
        sums[window, why] += rows
    return [[*key, rows] for key, rows in sorted(sums.items(), key=lambda item: (item[0][0] is not None, item))]
