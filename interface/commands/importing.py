"""keyshift import ENGINE, keyshift export: from what an engine's tools print to a workload, from a plan to what they read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from keyshift.commands import common, showing
from keyshift.commands.own import OwnOptions, Request, beside, path_of
from keyshift.files.table import TABLES, is_table, said_of_columns, table_options
from keyshift.models import InputError, Workload
from keyshift.models.base.disk import write_text
from keyshift.models.base.figures import figure, quantity
from keyshift.models.base.guards import as_number
from keyshift.models.rules import Rule
from keyshift.plans.plan import Plan

if TYPE_CHECKING:
    TableArgument: TypeAlias = Request
else:
    TableArgument = path_of("A table with a row for each key group: .csv, .tsv or .parquet.")


def _numbers(parameter: typer.CallbackParam, text: str | None) -> list[int]:
    return common.several(parameter.opts[0], text, int, "3,4")


def _capacities(parameter: typer.CallbackParam, text: str | None) -> dict[int, float]:
    return pairs(parameter.opts[0], text, as_number, "1:2,4:0.5")


def _counts(parameter: typer.CallbackParam, text: str | None) -> dict[str, int]:
    return pairs(parameter.opts[0], text, int, "orders:3,t-*:2", of=str)


def _listed(text: str | None) -> list[str]:
    return [] if text is None else text.split(",")


OutOption = Annotated[Path, typer.Option("--out", "-o", help="Where to write the workload: a folder, or a .json file.")]
DrainingOption = Annotated[str | None, typer.Option(callback=_numbers, help="Brokers to be removed, such as 3,4.")]

ReplicasOption = Annotated[
    bool, typer.Option("--replicas", help="A key group for each replica, leaders and followers; with their rules.yaml.")
]

RacksOption = Annotated[
    str | None, typer.Option(help="kafka: racks of all brokers, such as 1:a,2:b; or a file of such lines.")
]
TopicsOption = Annotated[
    str | None,
    typer.Option(
        callback=_listed, help="Patterns of the topics to plan, such as 'orders-*,clicks', or '!__*' for others."
    ),
]
ReplicationOption = Annotated[
    str | None,
    typer.Option(
        callback=_counts, help="With --replicas: how many replicas topics are to have, such as 'orders:3,t-*:2'."
    ),
]
ExcludedOption = Annotated[
    str | None, typer.Option(callback=_numbers, help="Brokers that must not receive anything, such as 3,4.")
]
DirectoriesOption = Annotated[int | None, typer.Option(help="Plan the replicas on this broker, among its directories.")]
NoCopiesOption = Annotated[
    bool, typer.Option("--no-copies", help="Move only leadership, among the replicas of each partition.")
]
EMPTY_FIRST = ("draining_key_groups", "load_distance", "migrations")
"""The priorities of a workload whose nodes drain: they are emptied, loads are balanced, nothing moves without need."""

importing = typer.Typer(help="Read a running cluster, from what the engine's own tools print.", no_args_is_help=True)


@importing.command("kafka", cls=common.JsonCommand)
def kafka(
    log_dirs: Annotated[Path, typer.Option(help="Output of kafka-log-dirs --describe.")],
    out: OutOption,
    loads: Annotated[
        Path | None, typer.Option(help="CSV of topic,partition,value. Default: the load is the bytes.")
    ] = None,
    assignment: Annotated[
        Path | None,
        typer.Option(help="Output of kafka-reassign-partitions; needed, or --describe, if there are followers."),
    ] = None,
    describe: Annotated[
        Path | None, typer.Option(help="Output of kafka-topics --describe, the only tool that names each leader.")
    ] = None,
    reassigning: Annotated[Path | None, typer.Option(help="Output of kafka-reassign-partitions --list.")] = None,
    settled: Annotated[bool, typer.Option("--settled", help="Nothing is being reassigned.")] = False,
    draining: DrainingOption = None,
    capacities: Annotated[
        str | None,
        typer.Option(callback=_capacities, help="Capacities of brokers that differ from 1, such as 1:2,4:0.5."),
    ] = None,
    offsets: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Instead of --loads: two outputs of kafka-get-offsets, --seconds apart."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Seconds between the two files of --offsets.")] = 0.0,
    replicas: ReplicasOption = False,
    racks: RacksOption = None,
    topics: TopicsOption = None,
    excluded: ExcludedOption = None,
    replication: ReplicationOption = None,
    directories: DirectoriesOption = None,
    no_copies: NoCopiesOption = False,
) -> common.Response:
    """Kafka: a key group for each partition, where its leader is, or for each replica; a node for each broker."""
    options = locals()
    from keyshift.engines import kafka as engine

    notes: list[str] = []
    given = common.same_named(engine.read_workload, options)
    read = engine.read_workload(**given, copies=not no_copies, notes=notes)
    note = engine.DIRECTORIES if directories is not None else engine.ALL_REPLICAS if replicas else engine.LEADERS_ONLY
    return _written_for_kafka(read, out, "kafka", note, notes)


@importing.command("cruise-control", cls=common.JsonCommand)
def cruise_control(
    load: Annotated[Path, typer.Option(help="The answer of /load?json=true.")],
    partition_load: Annotated[Path, typer.Option(help="The answer of /partition_load?json=true, of all partitions.")],
    out: OutOption,
    capacity: Annotated[Path | None, typer.Option(help="capacity.json; default: all brokers are equal.")] = None,
    balance: Annotated[str, typer.Option(help="The measure of load: cpu, network_in, network_out or disk.")] = "cpu",
    replicas: ReplicasOption = False,
    no_racks: Annotated[bool, typer.Option("--no-racks", help="With --replicas: plan without racks.")] = False,
    proposals: Annotated[
        Path | None, typer.Option(help="The answer of /proposals?json=true; with --assignment.")
    ] = None,
    assignment: Annotated[
        Path | None, typer.Option(help="A file for the assignment that the proposals lead to, for `keyshift check`.")
    ] = None,
) -> common.Response:
    """Cruise Control: the brokers and partitions of a Kafka cluster as it measured them; dead and demoted brokers drain."""
    options = locals()
    from keyshift.engines import cruise_control as engine
    from keyshift.engines import kafka as kafka_engine
    from keyshift.engines.formats import as_json as line

    if (proposals is None) != (assignment is None):
        raise InputError(
            "--proposals and --assignment must be given together: the proposals to read, and the file for the assignment "
            "they lead to"
        )
    notes: list[str] = []
    read = engine.read_workload(**common.same_named(engine.read_workload, options), racks=not no_racks, notes=notes)
    theirs = None if proposals is None else engine.assignment_of(read, engine.read_proposals(proposals))
    limits = [] if capacity is None else engine.capacity_rules(read, capacity, balance)
    note = kafka_engine.ALL_REPLICAS if replicas else kafka_engine.LEADERS_ONLY
    response = _written_for_kafka(read, out, "cruise-control", note, notes, limits)
    if theirs is None or assignment is None:
        return response
    write_text(assignment, line(theirs.tolist()))
    moved, what = int((theirs != read.current).sum()), "replicas" if replicas else "leaders"
    said = f"Cruise Control's proposals change {moved} {what}: {assignment}, for `keyshift check`"
    return response._replace(shown=[*response.shown, said])


@importing.command("flink", cls=common.JsonCommand)
def flink(
    out: OutOption,
    rest: Annotated[str | None, typer.Option(help="The REST API, such as http://127.0.0.1:8081.")] = None,
    job: Annotated[str | None, typer.Option(help="The job's id.")] = None,
    saved: Annotated[Path | None, typer.Option(help="A folder of the same JSON, as --keep leaves it.")] = None,
    vertex: Annotated[
        str | None, typer.Option(help="Id or name; needed unless there is only one after the sources.")
    ] = None,
    load: Annotated[str, typer.Option(help="The measure of load: records, or busy (milliseconds).")] = "records",
    keep: Annotated[Path | None, typer.Option(help="Keep the answers in this folder.")] = None,
    advise: Annotated[
        str | None, typer.Option(help="Parallelisms to compare, such as 6,7,8: state moved and loads of each.")
    ] = None,
) -> common.Response:
    """Flink: a node for each subtask of a vertex, a key group for each of Flink's."""
    from keyshift.engines import flink as engine

    wanted = common.several("--advise", advise, int, "6,7,8")
    read = engine.read_workload(rest, job, saved=saved, vertex=vertex, load=load, keep=keep)  # type: ignore[arg-type]
    advised = engine.advise(read, wanted).to_dict("records") if wanted else []
    response = written(read, out, "flink", engine.SPREAD)
    if not advised:
        return response
    heads = ["parallelism", "groups", "max load", "above mean", "moved by Flink", "least moved"]
    rows = [
        (
            str(r["parallelism"]), f"{r['least']}-{r['most']}", r["max_load"], f"{100 * r['imbalance']:.3g} %",
            r["state_moved"], r["least_state_moved"],
        )
        for r in advised
    ]  # fmt: skip
    return common.Response(advised, [*response.shown, showing.plain_table(heads, rows)])


@importing.command("storm", cls=common.JsonCommand)
def storm(
    source: Annotated[
        Path,
        typer.Argument(
            help="The folder in which a topology counts, or JSON: which slot runs which task; see the docs."
        ),
    ],
    out: OutOption,
    keys: Annotated[
        bool, typer.Option("--keys", help="For a folder: make a key group of each key, with its home.")
    ] = False,
) -> common.Response:
    """Storm: a key group for each of a topology's, a node for each task; or a key group for each task, a node for each slot."""
    from keyshift.engines import storm as engine
    from keyshift.engines.formats import some

    if not source.is_dir():
        if keys:
            raise InputError(f"--keys is for counts, and {source} is not a folder")
        return written(engine.read_workload(source), out, "storm")
    topology = engine.read_topology(source)
    shared = topology.shared()
    note = f"Left out, since several tasks serve them: {some(shared)}." if shared else ""
    return written(engine.workload_of(topology, keys), out, "storm", note)


@importing.command("kafka-streams", cls=common.JsonCommand)
def kafka_streams(
    assignment: Annotated[Path, typer.Argument(help="JSON: which process runs which tasks; see the docs.")],
    out: OutOption,
) -> common.Response:
    """Kafka Streams: a key group for each active task, a node for each process."""
    from keyshift.engines import kafka_streams as engine

    return written(engine.read_workload(assignment), out, "kafka-streams")


class TableCommand(OwnOptions):
    """A command about a table, whose columns are options of its line."""

    def owners(self, given: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
        return {"the table": table_options}


@importing.command("table", cls=TableCommand)
def table(request: TableArgument, out: OutOption) -> common.Response:
    """Any table: a key group for each row. Columns with usual names are found, others are named by options."""
    if not is_table(request.path):
        raise InputError(f"{request.path}: a table's name ends in {', '.join(TABLES)}")
    return written(request.workload(), out, "table", notes=[said_of_columns(request.path, **request.table)])


@importing.command("redis", cls=common.JsonCommand)
def redis(
    url: Annotated[str, typer.Argument(help="Any node, such as 127.0.0.1:7001 or redis://user:password@host:7001.")],
    out: OutOption,
    counts: Annotated[Path | None, typer.Option(help="CSV of key,count: how often each key is asked for.")] = None,
    sample: Annotated[int, typer.Option(help="How many keys of a slot to measure for memory; 0: all.")] = 10_000,
    draining: Annotated[str | None, typer.Option(help="Masters to be emptied: host:port,host:port.")] = None,
) -> common.Response:
    """Redis Cluster: a key group for each slot that holds something, a node for each master."""
    from keyshift.engines import redis as engine

    leaving = [] if draining is None else draining.split(",")
    read = engine.read_workload(url, counts, sample=sample, draining=leaving)
    return written(read, out, "redis", rules=engine.slot_rules(read) or None)


def _written_for_kafka(
    workload: Workload, out: Path, engine: str, note: str, notes: Sequence[str], limits: Sequence[Rule] = ()
) -> common.Response:
    """Write a workload, with a file of the rules that it needs, and print what a reader must be told."""
    from keyshift.engines import kafka

    replicas = note == kafka.ALL_REPLICAS
    rules = [*(kafka.replica_rules if replicas else kafka.standing_rules)(workload), *limits]
    return written(workload, out, engine, note, notes, rules if rules or replicas else None)


def written(
    workload: Workload,
    out: Path,
    engine: str,
    note: str = "",
    notes: Sequence[str] = (),
    rules: Sequence[Rule] | None = None,
) -> common.Response:
    """Write a workload, and the rules that it needs beside it, and say what it is."""
    from keyshift.files.workload import write_workload

    write_workload(workload, out)
    record = {"path": str(out), "engine": engine, "key_groups": workload.key_groups, "nodes": workload.nodes}
    record["draining"] = [workload.node(i) for i in np.flatnonzero(workload.draining)]
    record |= {"load": workload.last_load.sum(), "state": workload.state.sum()}
    record |= {"note": note, "notes": list(notes), "rules": list(map(str, rules or ()))}
    shown = [*filter(None, [note]), *notes, f"{workload!r} written to {out}", *_priorities(workload, out)]
    file = beside(out, "rules")
    if rules is not None:
        write_text(file, "".join(f"- {json.dumps(rule.record())}\n" for rule in rules) or "[]\n")
        said = "; ".join(map(str, rules)) or "none"
        shown.append(
            f"Rules, for --rules {file}: {said}. They hold unless --rules names others." if rules else f"Rules: {said}"
        )
    else:
        file.unlink(missing_ok=True)  # those of another import into the same place
    return common.Response(record, shown)


def _priorities(workload: Workload, out: Path) -> list[str]:
    """Where nodes drain, write the priorities that empty them first, and say so."""
    file, drains = beside(out, "priorities"), np.flatnonzero(workload.draining).tolist()
    if not drains:
        file.unlink(missing_ok=True)  # those of another import into the same place
        return []
    write_text(file, "".join(f"- {measure}\n" for measure in EMPTY_FIRST))
    names = ", ".join(str(workload.node(i)) for i in drains)
    return [
        f"Nodes that drain, and are emptied first: {names}. The priorities are {', '.join(EMPTY_FIRST)} ({file}), unless "
        "--priorities names others."
    ]


def pairs(
    option: str, text: str | None, kind: Callable[[str], common.Value], example: str, of: Callable[[str], Any] = int
) -> dict[Any, common.Value]:
    """Read ``1:a,2:b``; of numbers the workload itself checks the values."""
    what = "broker" if of is int else "topic"
    found: dict[Any, common.Value] = {}
    for part in [] if text is None else text.split(","):
        name, colon, value = part.partition(":")
        if not name or not colon or not value:
            raise InputError(f"{option} {part:.60}: write {what} and value with a colon, such as {example}")
        (named,) = common.several(option, name, of, example)
        if named in found:
            raise InputError(f"{option} names {what} {named} twice")
        found[named] = common.several(option, value, kind, example)[0]
    return found


# keyshift export: a saved plan as the files that an engine's tools read ------------------------------------------------

ENGINES = ("kafka", "kafka-streams", "redis", "storm")


def export(
    plan: Annotated[Path, typer.Argument(help="A plan that `keyshift plan --out` wrote.")],
    to: Annotated[str, typer.Option(help=f"The engine: {', '.join(ENGINES)}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder that does not exist yet, or is empty.")],
    assignment: Annotated[
        Path | None, typer.Option(help="kafka: the current assignment, to check that the plan still starts from it.")
    ] = None,
    describe: Annotated[
        Path | None,
        typer.Option(help="kafka: present output of kafka-topics --describe, for the same purpose, and for leaders."),
    ] = None,
    log_dirs: Annotated[
        Path | None,
        typer.Option(
            help="kafka: present output of kafka-log-dirs --describe, to choose the directories of copies and of the way back."
        ),
    ] = None,
    racks: RacksOption = None,
    topology: Annotated[str | None, typer.Option(help="storm: the topology's name, for a plan of tasks.")] = None,
    counts: Annotated[
        Path | None, typer.Option(help="storm: the folder that was imported, for a plan of key groups; read again.")
    ] = None,
) -> common.Response:
    """Write a plan as the files that an engine's own tools read, phase by phase, with the way back."""
    from keyshift.plans.saved import read_plan

    if to not in ENGINES:
        raise InputError(f"--to {to:.60}: choose one of {', '.join(ENGINES)}")
    own = (
        ("--assignment", assignment, "kafka"), ("--describe", describe, "kafka"), ("--racks", racks, "kafka"),
        ("--log-dirs", log_dirs, "kafka"), ("--topology", topology, "storm"), ("--counts", counts, "storm"),
    )  # fmt: skip
    for name, value, engine in own:
        if value is not None and to != engine:
            raise InputError(f"{name} is for {engine} alone")
    made = read_plan(plan)
    if to == "kafka":
        figures, files = _kafka(made, out, assignment=assignment, describe=describe, log_dirs=log_dirs, racks=racks)
    else:
        figures = {"note": "", "said": [], "phases": len(made.phases)}
        files = _assignments(made, out, to, topology, counts)
    notes = list(made.notes)
    record = {"engine": to, "path": str(out), **figures, "notes": notes, "files": [file.name for file in files]}
    note, sentences = figures.pop("note"), figures.pop("said")
    state = made.made_for.units.get("state", "")
    counted = showing.lines((name.replace("_", " "), _shown(name, value, state)) for name, value in figures.items())
    said = f"{len(files)} files written to {out}; begin with {files[0].name}"
    return common.Response(
        record, [*filter(None, [note]), *counted, *sentences, *showing.lines(("note", n) for n in notes), said]
    )


def _kafka(made: Plan, out: Path, **files: Any) -> tuple[dict[str, Any], list[Path]]:
    from keyshift.engines import kafka

    found = kafka.write_reassignment(made, out, **files)
    figures = {
        "note": found.note,
        "said": list(found.said),
        "phases": sum(file.name.endswith("-reassign.json") for file in found.files),
        "leaders_elected": found.elections,
        "replicas_copied": found.copies,
        **({"between_directories": found.between} if found.note == kafka.DIRECTORIES else {}),
        "state_copied": found.state_copied,
        "followers_left": found.followers_left,
    }
    return figures, found.files


def _assignments(made: Plan, out: Path, to: str, topology: str | None, counts: Path | None) -> list[Path]:
    if to == "redis":
        from keyshift.engines import redis as engine

        return engine.write_slots(made, out)
    if to == "kafka-streams":
        from keyshift.engines import kafka_streams

        return kafka_streams.write_assignment(made, out)
    if (topology is None) == (counts is None):
        raise InputError(
            "--to storm needs either --topology, the topology's name, or --counts, the folder that was imported"
        )
    from keyshift.engines import storm

    if counts is not None:
        return storm.write_plan(made, out, storm.read_topology(counts))
    assert topology is not None
    return storm.write_assignment(made, out, topology)


def _shown(name: str, value: Any, state: str) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} on broker {broker}, which drains" for broker, count in value.items()) or "none"
    return quantity(value, state if name.startswith("state") else "")


# keyshift run: a saved plan carried out ----------------------------------------------------------------------------------

running = typer.Typer(help="Carry a saved plan out on a running cluster.", no_args_is_help=True)


@running.callback()
def _running() -> None:
    """A group, even while it has one command."""


@running.command("redis", cls=common.JsonCommand)
def run_redis(
    plan: Annotated[Path, typer.Argument(help="A plan that `keyshift plan --out` wrote.")],
    url: Annotated[str, typer.Argument(help="Any node, such as 127.0.0.1:7001 or redis://user:password@host:7001.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run/--execute", help="Only report what would move, or move it.")
    ] = True,
    keys_per_second: Annotated[float | None, typer.Option(help="The pace, on average.")] = None,
    bytes_per_second: Annotated[float | None, typer.Option(help="The pace, in bytes of memory.")] = None,
    batch: Annotated[int, typer.Option(help="Keys sent at once; source and target serve no clients meanwhile.")] = 100,
    phases: Annotated[int | None, typer.Option(min=1, help="Carry out this many phases only.")] = None,
) -> common.Response:
    """Redis Cluster: move the plan's slots while clients read and write. After a break, run the same line again."""
    from keyshift.engines.redis_moving import execute
    from keyshift.plans.saved import read_plan

    made = read_plan(plan)
    with common.progress(f"{len(made)} slots"):
        done = execute(
            made, url, dry_run=dry_run, keys_per_second=keys_per_second, bytes_per_second=bytes_per_second, batch=batch,
            phases=phases,
        )  # fmt: skip
    rows = [
        ("slots to move" if dry_run else "slots moved", figure(done.slots)), ("there already", figure(done.already)),
        ("left half-way before", figure(done.healed)), ("keys", figure(done.keys)), ("state", quantity(done.state, "bytes")),
        ("seconds", f"{done.seconds:.2f}"),
    ]  # fmt: skip
    shown = [*showing.lines(rows), *["nothing was moved; --execute does it"] * bool(dry_run and done.slots)]
    return common.Response(done._asdict(), shown)
