"""Statistics of a log that never ends: Structured Streaming, one window after the other.

Each micro-batch is tallied like a whole log. The tallies of windows that are still open wait under
``pending/`` in the output directory; a window closes when the watermark - the latest time seen so far, less the allowed
delay - reaches its end, and is then written like any other window. A tuple whose window was closed before its batch
began is late: refused and counted.

Many small batches of a long window are put together.
Restarts are exact. One replacement of ``statistics.json`` commits a batch: its number, the watermark, what is pending and the
windows that it closed. A batch that Spark hands over again after a crash is recognised by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from keyshift.models.errors import InputError
from keyshift.models.workload import Workload
from keyshift.spark_stats import hadoop, output
from keyshift.spark_stats.acceptance import LATE, Log, read_tuples
from keyshift.spark_stats.facts import ARRIVED, Facts, gather
from keyshift.spark_stats.hadoop import place, url_of
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.session import refuse_connect_frame
from keyshift.spark_stats.statistics import Stats
from keyshift.spark_stats.statistics_files import read_statistics
from keyshift.spark_stats.tallied import refused
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows, microseconds, zone_of

TALLIES = 3
"""The form in which tallies wait: rows of whole numbers, see `facts`. Versions up to 0.3 packed them."""
TOGETHER = 16
"""Batches whose tallies wait in folders of their own."""


class StatsStream:
    """Statistics of a stream, written window by window to a directory.

    Parameters
    ----------
    events : DataFrame
        A streaming DataFrame: files, or Kafka where the connector is on Spark's class path.
    topology, time, window, origin, time_zone, since, until, key_groups, hash
        As for `keyshift.spark_stats.collect`.
    path : str or Path
        The output directory, or a URL, see `keyshift.spark_stats.statistics_files`; it also stores the stream's position
        (``checkpoint/``, ``pending/``). Start again with the same directory to continue.
    watermark : str or timedelta, default "0 seconds"
        How late a tuple may arrive: a window closes when a tuple is seen that is this much later than the window's end.
    jump : str or timedelta, optional
        How far ahead of the watermark a tuple may lie and still move it; one of a wrong clock waits for its window. Default: the
        length of 1,000 windows.
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
        jump: str | timedelta | None = None,
        on_window: Callable[[Workload], None] | None = None,
        nodes: int | ArrayLike | None = None,
    ) -> None:
        if on_window is not None and nodes is None:
            raise InputError("on_window gets a workload for every window, which needs the number of nodes: give nodes")
        refuse_connect_frame(events)
        self._events, self._topology, self._time = events, topology, time
        self._windows = Windows.of(window, origin, zone_of(events, time_zone), since, until)
        self._key_groups = KeyGroups(key_groups, hash)
        self._delay = 0 if str(watermark).split()[:1] == ["0"] else microseconds("watermark", watermark)
        self._jump = 1000 * self._windows.length if jump is None else microseconds("jump", jump)
        self._path, self._on_window, self._nodes = place(path, events.sparkSession), on_window, nodes
        if on_window is not None and not isinstance(self._path, Path):
            raise InputError(f"on_window reads each window from a folder here, not from {self._path}: leave it out")
        checked = read_tuples(events, topology, time, self._windows, self._key_groups)
        self._facts = Facts(checked.frame, topology, checked.measures)
        with hadoop.claim(self._path):
            self._manifest()  # refuses a directory of other statistics
            output.clear(self._path)

    def start(self, **trigger: Any) -> StreamingQuery:
        """Start the query; `trigger` as for Spark's `DataStreamWriter.trigger`, by default ``availableNow=True``."""
        with hadoop.claim(self._path):
            (self._path / "checkpoint").mkdir(parents=True, exist_ok=True)  # from now on the directory is ours
        writer = self._events.writeStream.foreachBatch(self.batch)
        writer = writer.option("checkpointLocation", url_of(self._path / "checkpoint"))
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
        mark = stream["watermark"]
        folder = hadoop.make(self._path / "pending" / str(number))
        instant, _ = Log(rows, self._topology.trust).instant(self._time)
        time = F.unix_micros(F.when(self._windows.inside(instant), instant))
        seen = Observation()  # of the one pass over the rows
        near = F.max(F.when(time <= F.lit((mark or 0) + self._delay + self._jump), time))
        watched = rows.observe(
            seen, F.max(time).alias("latest"), near.alias("near"), F.percentile_approx(time, 0.5).alias("middle")
        )
        tuples = read_tuples(watched, self._topology, self._time, self._windows, self._key_groups, mark)
        gather(tuples, self._topology).frame.write.parquet(url_of(folder / "tallies"))
        stream = {**stream, "batch": number, **self._marked(stream, **seen.get)}
        tallied = rows.sparkSession.read.schema(self._facts.schema).parquet(url_of(folder / "tallies"))
        counted = replace(self._facts, frame=tallied).arrivals_and_refusals()
        here = set(counted["window"][counted["code"] == ARRIVED].tolist())
        stream["pending"] = {**stream["pending"], str(number): sorted(here)}
        for_good = [row for row in refused(counted) if row[0] is None or row[1] == LATE]  # no window, or a closed one
        stream["refused"] = output.added_up([*stream["refused"], *for_good])
        self._close(rows.sparkSession, manifest, stream)

    def _marked(
        self, stream: Mapping[str, Any], latest: int | None = None, near: int | None = None, middle: int | None = None
    ) -> dict[str, Any]:
        """Where the watermark stands after a batch, and whether all of its tuples lay beyond the jump.

        Tuples further ahead than the jump wait, and do not move it; two batches of such tuples alone do, to where most are.
        """
        mark = stream["watermark"]
        if latest is None or middle is None:
            return {}
        if mark is not None and near is None and not stream.get("beyond"):
            return {"beyond": True}
        if mark is None or near is None:
            near = latest if latest <= middle + self._jump else middle
        return {"watermark": near - self._delay if mark is None else max(mark, near - self._delay), "beyond": False}

    def finish(self) -> None:
        """Close all windows: the stream has ended."""
        with hadoop.claim(self._path):
            manifest = self._manifest()
            self._close(self._events.sparkSession, manifest, dict(manifest["stream"]), everything=True)

    def _manifest(self) -> dict[str, Any]:
        description = output.description(self._topology, self._windows, self._key_groups)
        manifest = output.with_defaults(output.open_manifest(self._path, description), **output.cluster_of(self._nodes))
        stream = manifest.setdefault("stream", {"batch": -1, "watermark": None, "pending": {}, "refused": []})
        if stream["pending"] and stream.get("tallies") != TALLIES:
            said = (
                "holds batches of another version of keyshift that wait for their windows: finish the stream with that"
            )
            raise InputError(f"{self._path} {said}")
        stream["tallies"] = TALLIES
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
        pending = {n: windows for n, windows in left.items() if windows}
        if len(pending) > TOGETHER:
            pending = self._together(spark, pending)
        manifest = {**manifest, "stream": {**stream, "pending": pending}}
        if ends:
            chosen = [number for number, windows in waiting.items() if set(windows) & set(ends)]
            tallied = self._tallied(spark, chosen).where(F.col("window").between(ends[0], ends[-1]))
            facts = replace(self._facts, frame=tallied)
            with Stats(facts, self._topology, self._windows, self._key_groups) as stats:
                output.write(stats, self._path, manifest=manifest, placed_only=True)
        else:
            output.commit(self._path, manifest)
        self._clear(manifest["stream"]["pending"], known=set(waiting))
        if self._on_window is not None and self._nodes is not None:
            assert isinstance(self._path, Path)  # a folder elsewhere was refused
            for window in ends:
                workload = read_statistics(self._path, self._nodes, end=window, last=1)
                self._on_window(self._windows.begun(workload, window))

    def _tallied(self, spark: SparkSession, numbers: Sequence[str]) -> DataFrame:
        """The tallies of some batches, added up."""
        folders = [url_of(self._path / "pending" / number / "tallies") for number in numbers]
        return self._facts.of(spark.read.schema(self._facts.schema).parquet(*folders)).frame

    def _together(self, spark: SparkSession, pending: dict[str, list[int]]) -> dict[str, list[int]]:
        """Put what waits in many folders into one."""
        name = f"{max(pending, key=lambda n: int(n.rstrip('t')))}t"
        windows = sorted({window for own in pending.values() for window in own})
        folder = hadoop.make(self._path / "pending" / name)
        tallied = self._tallied(spark, list(pending)).where(F.col("window") >= windows[0])
        tallied.write.parquet(url_of(folder / "tallies"))
        return {name: windows}

    def _clear(self, pending: Mapping[str, list[int]], known: set[str]) -> None:
        folder = self._path / "pending"
        for entry in folder.iterdir() if folder.is_dir() else []:
            if entry.name not in pending:
                hadoop.remove(entry, known=entry.name in known)
