"""One run of `keyshift stats`: what was asked for, refused early, and done."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from keyshift.models import guards
from keyshift.models.errors import InputError
from keyshift.models.placement import placement as place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyshift.spark_stats import Topology


@dataclass(frozen=True)
class StatsJob:
    """The options of the command, by the names that they have there."""

    log: str
    topology: Path
    out: Path
    time: str | None
    window: str | None
    origin: str | None
    key_groups: int
    hash_: str
    nodes: int | None
    placement: str
    capacities: str | None
    current: Path | None
    draining: str | None
    keys: list[str] | None
    transitions: float | None
    format_: str | None
    schema: str | None
    stream: bool
    watermark: str
    finish: bool
    master: str | None
    conf: list[str] | None
    strict: bool

    def run(self) -> None:
        """Refuse what can be refused before Spark takes its seconds to start; then gather and write."""
        from keyshift.spark_stats import Topology, local_session
        from keyshift.spark_stats.cluster import read_cluster
        from keyshift.spark_stats.directory import claim
        from keyshift.spark_stats.failures import in_one_sentence

        described = Topology.from_yaml(self.topology)
        self._refuse_combinations(described)
        self._refuse_values()
        nodes, cluster = read_cluster(
            described.names, self.key_groups, self.nodes, self.placement,
            current=self.current, capacities=self.capacities, draining=self.draining,
        )  # fmt: skip
        if self.transitions is not None and nodes is None:
            raise InputError("--transitions needs --nodes, the most there may be")
        options = {"nodes": nodes, "placement": self.placement, "cluster": cluster}
        settings = _settings(self.conf)
        with (
            claim(self.out),
            local_session("keyshift stats", master=self.master, conf=settings) as spark,
            _progress(spark) as say,
            in_one_sentence(),
        ):
            say("reading the log")
            (self._stream if self.stream else self._batch)(spark, described, options, say)

    def _refuse_combinations(self, described: Topology) -> None:
        for name in self.keys or []:
            described.number(name)
        if not self.stream:
            return
        if self.time is None or self.window is None:
            raise InputError("--stream needs --time and --window")
        if self.strict:
            raise InputError("--strict needs the whole log: it does not go with --stream")
        if self.keys or self.transitions is not None:
            raise InputError("--keys and --transitions need the whole log: they do not go with --stream")

    def _refuse_values(self) -> None:
        from keyshift.spark_stats.expressions import check_schema, check_text
        from keyshift.spark_stats.sources import check_log

        guards.whole("--nodes", self.nodes, least=1)
        groups = guards.whole("--key-groups", self.key_groups, least=1, optional=False) or 1
        place(self.placement, groups, self.nodes or 1)
        check_log(self._place, self.format_, here=self._here)
        if self.time is not None:
            check_text("--time", self.time)
        if self.schema is not None:
            check_schema(self.schema)

    @property
    def _here(self) -> bool:
        """Whether Spark runs on this machine, so that a path without a scheme is a file of ours, not one of HDFS."""
        return (self.master or "local").startswith("local") and not any("defaultFS" in c for c in self.conf or [])

    @property
    def _place(self) -> str:
        """Where the log is; a session that was started in another folder must find it too."""
        return os.path.abspath(self.log) if self._here and ":" not in self.log else self.log  # noqa: PTH100 - may hold globs

    @property
    def _gather(self) -> dict[str, Any]:
        """What batch and stream gather by."""
        times = {"time": self.time, "window": self.window, "origin": self.origin}
        return {**times, "key_groups": self.key_groups, "hash": self.hash_}

    def _batch(
        self, spark: SparkSession, described: Topology, options: dict[str, Any], say: Callable[[str], None]
    ) -> None:
        from keyshift.spark_stats import collect, read_log
        from keyshift.spark_stats.collect import refuse
        from keyshift.spark_stats.output import replace_file

        events = read_log(spark, self._place, format=self.format_, schema=self.schema)
        with collect(events, described, **self._gather) as found:
            say("counting tuples")
            rejected = found.rejected_counts()
            if self.strict:
                refuse(rejected)
            say("writing the tables")
            found.write(self.out, **options, keys=self.keys or ())
            if self.transitions is not None:
                matrix = found.transitions(self.transitions, most=options["nodes"])
                replace_file(self.out / "transitions.json", json.dumps(matrix) + "\n")

    def _stream(
        self, spark: SparkSession, described: Topology, options: dict[str, Any], say: Callable[[str], None]
    ) -> None:
        from keyshift.models.files.statistics_manifest import read_manifest
        from keyshift.spark_stats import StatsStream, read_log_stream
        from keyshift.spark_stats.output import commit, with_defaults

        events = read_log_stream(spark, self._place, format=self.format_, schema=self.schema)
        running = StatsStream(events, described, self.out, watermark=self.watermark, **self._gather)
        say("counting tuples, window by window")
        running.start().awaitTermination()
        if self.finish:
            running.finish()
        commit(self.out, with_defaults(read_manifest(self.out), **options))


def _settings(conf: list[str] | None) -> dict[str, str]:
    found = {}
    for setting in conf or []:
        name, sign, value = setting.partition("=")
        if not sign or not name:
            raise InputError(f"--conf {setting}: write name=value")
        found[name] = value
    return found


@contextmanager
def _progress(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Show what is being done, and how many of Spark's tasks are, on a terminal; gives a function that says what."""
    if not sys.stderr.isatty():
        yield lambda doing: None
        return
    tracker, done = spark.sparkContext.statusTracker(), threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} tasks"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)

        def watch() -> None:
            while not done.wait(0.5):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                active = [stage for stage in stages if stage is not None]
                if active:
                    completed, total = (sum(getattr(s, n) for s in active) for n in ("numCompletedTasks", "numTasks"))
                    bar.update(task, completed=completed, total=total)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield lambda doing: bar.update(task, description=doing, completed=0, total=None)
        finally:
            done.set()
            watcher.join()
