"""keyshift stats: from a log of tuples to statistics on disk."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from keyshift.commands import common
from keyshift.commands.common import named_values
from keyshift.files.table import open_table
from keyshift.models.base import guards
from keyshift.models.base.disk import shown
from keyshift.models.base.names import Names
from keyshift.models.errors import InputError
from keyshift.models.placement import placement as place
from keyshift.terminal import Terminal, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyshift.spark_stats import Topology


TimeZoneOption = Annotated[
    str | None, typer.Option(help="Time zone in which windows of days begin: Europe/Berlin, or session. Default: UTC.")
]
SinceOption = Annotated[str | None, typer.Option(help="Leave out rows of earlier times (ISO 8601); they are counted.")]
UntilOption = Annotated[str | None, typer.Option(help="Leave out rows of this time and later.")]
CapacitiesOption = Annotated[str | None, typer.Option(help="Capacity of each node, such as 1,1,2; instead of --nodes.")]
CurrentOption = Annotated[
    Path | None, typer.Option(help="CSV of operator, key_group, node: where they run now. Default: the placement.")
]
LoadUnitOption = Annotated[str | None, typer.Option(help="Unit of loads, to be printed beside them, such as ms.")]
StateUnitOption = Annotated[
    str | None,
    typer.Option(
        help="Unit of states; bytes and KB are printed as MB and GB. Default: bytes, if a column is called so."
    ),
]
TransitionsOption = Annotated[
    float | None,
    typer.Option(help="Target utilisation: write transitions.json, how node counts follow each other (needs --nodes)."),
]
SampleOption = Annotated[
    float | None,
    typer.Option(
        help="A quick look in place of statistics: estimate loads from this share of the rows, and write nothing."
    ),
]
TableOption = Annotated[
    list[str] | None, typer.Option("--table", help="A table of Spark's catalogs in place of files; or NAME=TABLE each.")
]
SqlOption = Annotated[
    list[str] | None, typer.Option("--sql", help="A query in Spark SQL in place of files; or NAME=QUERY each.")
]
ReaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="An option of the reader of ORC, Avro, Delta, Iceberg or tables, such as versionAsOf=3; repeatable.",
    ),
]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="parquet, csv, json, words, orc, avro, delta or iceberg.")
]
SchemaOption = Annotated[
    str | None,
    typer.Option(help='Columns of CSV and JSON, by name: "ts timestamp, k string". Else those of CSV are texts.'),
]
SeparatorOption = Annotated[str | None, typer.Option(help="CSV: the separator of fields; default: a comma.")]
NullWordOption = Annotated[
    str | None, typer.Option(help="CSV: the word for a missing value, such as NULL; default: an empty field.")
]
EncodingOption = Annotated[str | None, typer.Option(help="CSV: the encoding, such as utf-8 or cp1252.")]
HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="CSV: whether the first line names the columns.")
]
EscapeOption = Annotated[str | None, typer.Option(help="CSV: the escape character, such as \\.")]


def stats(
    *,
    log: Annotated[
        list[str] | None,
        typer.Argument(
            help="Parquet, CSV, JSON lines, text, ORC or Avro: a file, folder or URL; of more than one log NAME=PATH each."
        ),
    ] = None,
    topology: Annotated[Path, typer.Option("--topology", help="A YAML file: operators and edges.")],
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Directory of statistics, or a URL; windows are added or replaced."),
    ] = None,
    sample: SampleOption = None,
    time: Annotated[str | None, typer.Option(help="Spark SQL for a tuple's time.")] = None,
    window: Annotated[str | None, typer.Option(help='Length of the windows, such as "1 hour". Default: one.')] = None,
    origin: Annotated[str | None, typer.Option(help="An instant at which a window starts (ISO 8601).")] = None,
    time_zone: TimeZoneOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    key_groups: Annotated[int, typer.Option(help="Key groups of every operator.")] = 128,
    hash_: Annotated[str, typer.Option("--hash", help="xxhash64, flink, kafka, storm or java.")] = "xxhash64",
    nodes: Annotated[
        int | None, typer.Option(help="Number of nodes; with it `keyshift solve` can read the output.")
    ] = None,
    placement: Annotated[str, typer.Option(help="Key group to node: ranges, modulo or consistent.")] = "ranges",
    capacities: CapacitiesOption = None,
    current: CurrentOption = None,
    draining: Annotated[str | None, typer.Option(help="Nodes to be removed, such as 3,4.")] = None,
    load_unit: LoadUnitOption = None,
    state_unit: StateUnitOption = None,
    keys: Annotated[
        list[str] | None, typer.Option(help="An operator for which single keys are written as well; repeatable.")
    ] = None,
    transitions: TransitionsOption = None,
    table_: TableOption = None,
    sql: SqlOption = None,
    option: ReaderOption = None,
    format_: FormatOption = None,
    schema: SchemaOption = None,
    separator: SeparatorOption = None,
    null_word: NullWordOption = None,
    encoding: EncodingOption = None,
    header: HeaderOption = None,
    escape: EscapeOption = None,
    stream: Annotated[bool, typer.Option("--stream", help="Read the folder as a stream, to its end.")] = False,
    watermark: Annotated[str, typer.Option(help="With --stream: how late a tuple may come.")] = "0 seconds",
    finish: Annotated[bool, typer.Option(help="With --stream: close all windows at the end.")] = True,
    master: Annotated[str | None, typer.Option(help="Spark master. Default: local[*].")] = None,
    conf: Annotated[list[str] | None, typer.Option("--conf", help="A Spark setting, name=value; repeatable.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a log with a single unusable row.")] = False,
) -> common.Response:
    """Gather load, state and traffic of a topology from a log of tuples."""
    return StatsJob(**locals()).response()


# One run of `keyshift stats`: what was asked for, refused early, and done ----------------------------------------------


@dataclass(frozen=True)
class Running:
    """The context of a job once Spark has started: logs by name, the place to write to, and whom to tell what is done."""

    spark: SparkSession
    topology: Topology
    logs: dict[str, str]
    out: Any
    options: dict[str, Any]
    say: Callable[[str], None]


class StatsJob(SimpleNamespace):
    """The options of `stats`, by the names that they have there."""

    out: Any

    def response(self) -> common.Response:
        """Run, and say what was written and what was refused; without an answer where most rows were refused."""
        if self.sample is not None:
            return self._estimated()
        if self.out is None:
            raise InputError("give --out, the directory of the statistics, or --sample for a quick look")
        from keyshift.spark_stats.statistics_files import units_of, windows_of

        try:
            manifest = self.run()
        except InputError as error:
            if not hasattr(error, "rejected"):
                raise
            return common.Response(
                {"path": self.out, "windows": 0, "rejected": error.rejected}, [str(error)], good=False
            )
        from keyshift.spark_stats.output import share_refused

        record = {"path": self.out, "windows": len(windows_of(manifest)), "key_groups": manifest["key_groups"]}
        record["operators"] = [operator["name"] for operator in manifest["topology"]["operators"]]
        record["units"] = units_of(manifest)
        record["rejected"] = manifest["rejected"]
        operators, groups = len(record["operators"]), record["key_groups"]
        size = f"{self.out}: {record['windows']} windows, {operators} operators of {groups} key groups"
        size += "".join(f", {what} in {unit}" for what, unit in sorted(record["units"].items()))
        rows = [(kind, f"{rows:,}") for kind, rows in manifest["rejected"].items()] or [("none", "0")]
        refused = table(("rows refused because", "rows"), rows, right=("rows",), title=size, min_width=len(size))
        bad, rows_in_all = share_refused(manifest)
        record |= {"rows": rows_in_all, "rows_refused": bad, "spark": self.work}
        most = 2 * bad > rows_in_all
        said = f"most rows are refused: {bad:,} of {rows_in_all:,} ({bad / max(rows_in_all, 1):.1%})"
        return common.Response(record, [refused, *([said] if most else [])], good=not most)

    def _estimated(self) -> common.Response:
        """A quick look at a sample of the log."""
        from keyshift.spark_stats import Topology, estimate, local_session
        from keyshift.spark_stats.failures import in_one_sentence

        topology = Topology.from_yaml(self.topology)
        unfit = {"--out": self.out, "--stream": self.stream, "--window": self.window, "--keys": self.keys}
        if given := [name for name, value in unfit.items() if value]:
            raise InputError(f"--sample estimates one window and writes nothing: leave {given[0]} out")
        logs = self._logs(topology)
        self._refuse_values(logs)
        settings = dict(named_values("--conf", self.conf, "name=value"))
        with local_session("keyshift stats", master=self.master, conf=settings) as spark, in_one_sentence():
            options = {name: getattr(self, name) for name in ("time", "since", "until", "key_groups")}
            log = self._frame(spark, next(iter(logs.values())))
            found = estimate(log, topology, self.sample, hash=self.hash_, **options)
        record: dict[str, Any] = {"sample": found.sample, "estimate": {}}
        shown_, load_ = [], f"load {self.load_unit or ''}".strip()
        for name in topology.names:
            loads, heavy = (
                part[part["operator"] == name].drop(columns="operator") for part in (found.loads, found.keys)
            )
            record["estimate"][name] = {"key_groups": loads.to_dict("records"), "keys": heavy.to_dict("records")}
            title = f"{name}: an estimate from {found.sample:.3%} of the rows (not statistics)"
            heaviest = loads[["key_group", "load", "error"]].head(10).to_numpy()
            lines = [(f"{group:.0f}", f"{load:,.0f}", f"{error:,.0f}") for group, load, error in heaviest]
            shown_.append(
                table(("key group", load_, "standard error"), lines, right=(load_, "standard error"), title=title)
            )
            rows = [(str(key), f"{count:,}") for key, count in heavy[["key", "tuples"]].to_numpy()]
            shown_.append(table(("frequent key", "tuples"), rows, right=("tuples",), title=f"{name}: keys"))
        return common.Response(record, shown_)

    def run(self) -> dict[str, Any]:
        """Refuse what can be refused before Spark takes its seconds to start; then gather and write; gives the manifest."""
        from keyshift.spark_stats import Topology
        from keyshift.spark_stats.topology import wanted

        described = Topology.from_yaml(self.topology)
        keys, transitions = wanted(self.topology)
        given = vars(self)
        given["keys"] = given["keys"] or keys
        given["transitions"] = transitions if given["transitions"] is None else given["transitions"]
        return self._run(described)

    def _run(self, described: Topology) -> dict[str, Any]:
        from keyshift.spark_stats import local_session
        from keyshift.spark_stats.failures import in_one_sentence
        from keyshift.spark_stats.hadoop import claim, is_remote, place
        from keyshift.spark_stats.output import manifest_of
        from keyshift.spark_stats.session import work_of
        from keyshift.spark_stats.sources import is_small

        logs = self._logs(described)
        self._refuse_combinations(described)
        self._refuse_values(logs)
        nodes, cluster = read_cluster(
            described.names, self.key_groups, self.nodes, self.placement,
            current=self.current, capacities=self.capacities, draining=self.draining,
        )  # fmt: skip
        if self.transitions is not None and nodes is None:
            raise InputError("--transitions needs --nodes, the most there may be")
        units = {what: unit for what, unit in (("load", self.load_unit), ("state", self.state_unit)) if unit}
        options = {"nodes": nodes, "placement": self.placement, "cluster": cluster, "units": units or None}
        settings = dict(named_values("--conf", self.conf, "name=value"))
        brief = self._here and not self.stream and bool(self.log) and all(map(is_small, logs.values()))
        with (
            claim(Path(self.out.removeprefix("file:"))) if self._here and not is_remote(self.out) else nullcontext(),
            local_session("keyshift stats", master=self.master, conf=settings, brief=brief) as spark,
            _progress(spark) as say,
            work_of(spark) as self.work,
            in_one_sentence(),
        ):
            say("reading the log")
            target = place(self.out, spark)
            if not isinstance(target, Path):
                self.out = str(target)
            running = Running(spark, described, logs, target, options, say)
            (self._stream if self.stream else self._batch)(running)
            return manifest_of(target)

    def _refuse_combinations(self, described: Topology) -> None:
        for name in self.keys or []:
            described.number(name)
        if not self.stream:
            return
        if self.time is None or self.window is None:
            raise InputError("--stream needs --time and --window")
        if described.logs:
            raise InputError("--stream reads one log: the operators name more than one")
        if self.sql:
            raise InputError("--stream reads a folder or a table; a query has an end: leave --stream out")
        if self.strict:
            raise InputError("--strict needs the whole log and cannot be used with --stream")
        if self.keys or self.transitions is not None:
            raise InputError("--keys and --transitions need the whole log and cannot be used with --stream")

    def _refuse_values(self, logs: dict[str, str]) -> None:
        from keyshift.spark_stats.expressions import check_schema, check_text
        from keyshift.spark_stats.sources import check_log

        guards.whole("--nodes", self.nodes, least=1)
        groups = guards.whole("--key-groups", self.key_groups, least=1, most=2**20, optional=False)
        place(self.placement, groups, self.nodes or 1)
        for path in logs.values() if self.log else []:
            check_log(path, self.format_, here=self._here)
        self._options()
        if self.time is not None:
            check_text("--time", self.time)
        if self.schema is not None:
            check_schema(self.schema)

    @property
    def _here(self) -> bool:
        """Whether Spark runs on this machine, so that a path without a scheme is a file of ours, not one of HDFS."""
        return (self.master or "local").startswith("local") and not any("defaultFS" in c for c in self.conf or [])

    def _logs(self, described: Topology) -> dict[str, str]:
        """Where the logs are, by name; a session that was started in another folder must find them too."""
        given = [named for named in (self.log, self.table_, self.sql) if named]
        if len(given) != 1:
            raise InputError("give the log as files, or by --table, or by --sql: one of them")
        (listed,) = given
        found = {"": listed[0]} if not described.logs else {}
        for part in listed if described.logs else []:
            name, sign, path = part.partition("=")
            if not sign or name not in described.logs or name in found:
                raise InputError(f"log {part!r}: write NAME=PATH once for each of {', '.join(described.logs)}")
            found[name] = path
        if len(found) < max(1, len(described.logs)) or len(listed) > len(found):
            known = ", ".join(described.logs)
            said = f"give NAME=PATH for each of {known}" if known else "more than one log: the operators name none"
            raise InputError(said)
        here = self._here and bool(self.log)
        return {n: os.path.abspath(p) if here and ":" not in p else p for n, p in found.items()}  # noqa: PTH100 - may hold globs

    @property
    def _gather(self) -> dict[str, Any]:
        """The options that batch and stream gather by."""
        times = {name: getattr(self, name) for name in ("time", "window", "origin", "since", "until")}
        return {**times, "time_zone": self.time_zone, "key_groups": self.key_groups, "hash": self.hash_}

    @property
    def _read(self) -> dict[str, Any]:
        """The options that logs are read by."""
        written = {name: getattr(self, name) for name in ("separator", "null_word", "encoding", "header", "escape")}
        return {"format": self.format_, "schema": self.schema, **written}

    def _options(self) -> dict[str, str]:
        return dict(named_values("--option", self.option, "name=value"))

    def _frame(self, spark: SparkSession, source: str) -> Any:
        """A log, of whatever it is read from."""
        from keyshift.spark_stats import read_log, read_query, read_table

        if self.sql:
            return read_query(spark, source)
        if self.table_:
            return read_table(spark, source, self._options())
        return read_log(spark, source, **self._read, options=self._options())

    def _batch(self, run: Running) -> None:
        from keyshift.spark_stats import collect
        from keyshift.spark_stats.output import replace_file
        from keyshift.spark_stats.statistics import refuse

        frames = {name: self._frame(run.spark, source) for name, source in run.logs.items()}
        with collect(frames if run.topology.logs else frames[""], run.topology, **self._gather) as found:
            run.say("counting tuples")
            rejected = found.rejected_counts()
            if self.strict:
                refuse(rejected)
            run.say("writing the tables")
            found.write(run.out, **run.options, keys=self.keys or ())
            if self.transitions is not None:
                matrix = found.transitions(self.transitions, most=run.options["nodes"])
                replace_file(run.out / "transitions.json", json.dumps(matrix) + "\n")

    def _stream(self, run: Running) -> None:
        from keyshift.spark_stats import StatsStream, read_log_stream, read_table
        from keyshift.spark_stats.output import commit, manifest_of, with_defaults

        source = run.logs[""]
        read = read_table(run.spark, source, self._options(), stream=True) if self.table_ else None
        events = read_log_stream(run.spark, source, **self._read, options=self._options()) if read is None else read
        nodes = (run.options["cluster"] or {}).get("capacities", run.options["nodes"])
        stream = StatsStream(events, run.topology, run.out, watermark=self.watermark, nodes=nodes, **self._gather)
        run.say("counting tuples, window by window")
        stream.start().awaitTermination()
        if self.finish:
            stream.finish()
        commit(run.out, with_defaults(manifest_of(run.out), **run.options))


@contextmanager
def _progress(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Show what is being done, and how many of Spark's tasks are, on a terminal; gives a function that says what."""
    if not sys.stderr.isatty():
        yield lambda doing: None
        return
    tracker, done = spark.sparkContext.statusTracker(), threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} tasks"))
    with Progress(*columns, TimeElapsedColumn(), console=Terminal(stderr=True), transient=True) as bar:
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


# The cluster as it is: how large its nodes are, which are to go, and where key groups run now --------------------------


def read_cluster(
    operators: Sequence[str],
    key_groups: int,
    nodes: int | None,
    placement: str,
    *,
    current: Path | None = None,
    capacities: str | None = None,
    draining: str | None = None,
) -> tuple[int | None, dict[str, Any] | None]:
    """Check the options about the cluster; returns the number of nodes and the cluster's entry in the manifest.

    Parameters
    ----------
    current : Path, optional
        A CSV file with the columns operator, key_group, node. Key groups that it does not name are where the placement
        puts them.
    capacities : str, optional
        Numbers above 0 with commas between them, one for each node.
    draining : str, optional
        Numbers of nodes, with commas between them.

    Raises
    ------
    InputError
        With the option or the line of the file, and what is wrong.
    """
    sizes = common.several("--capacities", capacities, guards.as_number, "1,1,2") or None
    if sizes is not None:
        if nodes is not None and nodes != len(sizes):
            raise InputError(f"--capacities names {len(sizes)} nodes, --nodes {nodes}")
        if not all(0 < size < math.inf for size in sizes):
            raise InputError(f"--capacities {capacities}: a capacity must be above 0, and finite")
        nodes = len(sizes)
    if nodes is None:
        if current is not None or draining is not None:
            raise InputError("--current and --draining need --nodes or --capacities")
        return None, None
    guards.whole("--nodes", nodes, least=1)
    leaving = [] if draining is None else [_whole("--draining", part, nodes) for part in draining.split(",")]
    if len(set(leaving)) >= nodes:
        raise InputError(f"--draining {draining}: at least one node must stay")
    places = None if current is None else _places(current, operators, key_groups, nodes, placement)
    found = {"capacities": sizes, "draining": sorted(set(leaving)) or None, "current": places}
    kept = {name: value for name, value in found.items() if value is not None}
    return nodes, kept or None


def _places(file: Path, operators: Sequence[str], key_groups: int, nodes: int, placement: str) -> list[int]:
    made = place(placement, key_groups, nodes).tolist() * len(operators)
    given = open_table(file, 64 * 2**20)
    if set(given.columns) != {"operator", "key_group", "node"}:
        raise InputError(f"{file} needs a header line with the columns operator, key_group, node")
    seen: set[int] = set()
    for line, row in zip(given.index, given.to_dict("records"), strict=True):
        where = f"{file}, line {line}"
        if row["operator"] not in operators:
            raise InputError(f"{where}: there is no operator {shown(row['operator'])}")
        group = _whole(f"{where}: key_group", row["key_group"], key_groups)
        index = operators.index(row["operator"]) * key_groups + group
        if index in seen:
            raise InputError(f"{where}: the key group is named twice")
        seen.add(index)
        made[index] = _whole(f"{where}: node", row["node"], nodes)
    return made


def _whole(what: str, text: Any, below: int) -> int:
    found = Names("", None, below).find(str(text).strip())
    if found is None:
        raise InputError(f"{what} = {text!r} must be a whole number from 0 to {below - 1}")
    return found
