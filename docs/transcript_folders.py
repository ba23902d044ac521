"""Files of the folder where a page's transcript begins, and the tables that are written into pages."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def clicks() -> None:
    """A web shop's log of clicks, its topologies, and what Kafka's tools would print about a topic of twelve partitions."""
    rng = np.random.default_rng(5)
    share = 1 / np.arange(1, 401) ** 0.7
    users = rng.choice(400, 6000, p=share / share.sum())
    seconds = np.sort(rng.integers(0, 3 * 3600, 6000))
    rows = ["ts,user,page,bytes"]
    for t, u in zip(seconds, users, strict=True):
        rows.append(
            f"2026-03-01 {9 + t // 3600:02}:{t // 60 % 60:02}:{t % 60:02},"
            f"user-{u},page-{rng.integers(30)},{rng.integers(200, 2000)}"
        )
    Path("clicks.csv").write_text("\n".join(rows) + "\n")
    Path("job.yaml").write_text(JOB)
    Path("topic.yaml").write_text("operators:\n  - name: clicks\n    key: user\n    state: bytes\n")
    _kafka(
        "clicks", {n: [1 + n // 3, 1 + (n // 3 + 1) % 4] for n in range(12)}, lambda n: 400_000 + 40_000 * (n * n % 7)
    )


JOB = """\
operators:
  - name: sessions      # one state for each user
    key: user
    cost: "1"
    state: bytes        # keeps what it saw ...
    windows: 2          # ... for two windows
  - name: hits          # counts pages
    key: page
    state: "8"
edges:
  - [sessions, hits]
"""


def cluster() -> None:
    """Four brokers with twelve partitions of two replicas each, as Kafka's tools print them."""
    replicas = {n: [1 + n % 2, 3 + n % 2] for n in range(12)}
    _kafka("orders", replicas, lambda n: (n + 3) * 1_000_000)
    rows = ["topic,partition,value", *(f"orders,{n},{40 + 7 * (n * n % 11)}" for n in replicas)]
    Path("loads.csv").write_text("\n".join(rows) + "\n")
    rows = ["topic,partition,in,out", *(f"orders,{n},{10 + n * n % 11},{5 * (n % 4)}" for n in replicas)]
    Path("traffic.csv").write_text("\n".join(rows) + "\n")
    Path("racks.txt").write_text("1:a\n2:a\n3:b\n4:b\n")
    for name, seconds in (("before.txt", 0), ("after.txt", 600)):
        lines = [f"orders:{n}:{1_000 * n + seconds * (40 + 7 * (n * n % 11))}" for n in replicas]
        Path(name).write_text("\n".join(lines) + "\n")
    _cruise_control(replicas)


def _cruise_control(replicas: dict[int, list[int]]) -> None:
    """The same cluster as Cruise Control measured it."""
    brokers = [{"Broker": b, "BrokerState": "ALIVE", "Rack": "a" if b < 3 else "b"} for b in range(1, 5)]
    Path("load.json").write_text(json.dumps({"version": 1, "hosts": [], "brokers": brokers}))
    records = [
        {"topic": "orders", "partition": n, "leader": r[0], "followers": r[1:], "cpu": 2.0 + n * n % 11, "networkInbound": 90.0,
         "networkOutbound": 120.0, "disk": 3.0 + n, "msg_in": 40.0}
        for n, r in replicas.items()
    ]  # fmt: skip
    Path("partitions.json").write_text(json.dumps({"version": 1, "records": records}))
    own = {"DISK": "60", "CPU": "100", "NW_IN": "5000", "NW_OUT": "5000"}
    Path("capacity.json").write_text(json.dumps({"brokerCapacities": [{"brokerId": "-1", "capacity": own, "doc": ""}]}))
    moved = {
        "topicPartition": {"topic": "orders", "partition": 3},
        "oldLeader": 2,
        "oldReplicas": [2, 4],
        "newReplicas": [3, 4],
    }
    Path("proposals.json").write_text(json.dumps({"proposals": [moved]}))


def _kafka(topic: str, replicas: dict[int, list[int]], size: Any) -> None:
    partitions = [
        {"topic": topic, "partition": n, "replicas": r, "log_dirs": ["any", "any"]} for n, r in replicas.items()
    ]
    heading = "Current partition replica assignment\n"
    Path("current.txt").write_text(heading + json.dumps({"version": 1, "partitions": partitions}) + "\n")
    lines = [f"Topic: {topic}\tPartitionCount: {len(replicas)}\tReplicationFactor: 2\tConfigs: "]
    for n, r in replicas.items():
        listed = ",".join(map(str, r))
        lines.append(
            f"\tTopic: {topic}\tPartition: {n}\tLeader: {r[0]}\tReplicas: {listed}\tIsr: {listed}\tElr: \tLastKnownElr: "
        )
    Path("topics.txt").write_text("\n".join(lines) + "\n")
    brokers = []
    for b in range(1, 5):
        held = [
            {"partition": f"{topic}-{n}", "size": int(size(n)), "offsetLag": 0, "isFuture": False}
            for n, r in replicas.items()
            if b in r
        ]
        folders = [
            {"logDir": f"/data/{name}", "error": None, "partitions": some}
            for name, some in (("a", held[:2]), ("b", held[2:]))
        ]
        brokers.append({"broker": b, "logDirs": folders})
    heading = (
        "Querying brokers for log directories information\nReceived log directory information from brokers 1,2,3,4\n"
    )
    Path("log-dirs.txt").write_text(heading + json.dumps({"version": 1, "brokers": brokers}) + "\n")


@contextlib.contextmanager
def redis_cluster() -> Iterator[None]:
    """Four masters with 4,000 keys, half of them in families of one hash tag, and how often each is asked for."""
    sys.path.append(str(Path(__file__).parents[1] / "benchmarks" / "redis"))
    import cluster as servers

    keys = [f"user:{i}" for i in range(2_000)] + [f"{{cart:{i // 50}}}:{i}" for i in range(2_000)]
    rng = np.random.default_rng(1)
    often = rng.permutation(np.rint(30_000 / np.arange(1, 4_001))).astype(int)
    Path("counts.csv").write_text("key,count\n" + "".join(f"{k},{c}\n" for k, c in zip(keys, often, strict=True)))
    with servers.running(4, first=7_001) as names:
        servers.fill(names, keys, rng.integers(50, 500, len(keys)))
        _tasks()
        yield


def topology() -> None:
    """What the four tasks of a Storm topology counted in a minute, and where its tasks run."""
    Path("words").mkdir()
    groups = [g % 4 for g in range(32)]
    of: list[dict[str, list[float]]] = [{} for _ in range(4)]
    for k in range(300):
        code = 0
        for letter in f"word{k}":
            code = (31 * code + ord(letter)) % 2**32
        of[(31 + code) % 32 % 4][f"word{k}"] = [6_000 // (k + 3), 2_000 + 10 * (k % 40)]
    for task, keys in enumerate(of):
        content = {"format": "keyshift-storm-counts", "version": 1, "component": "count", "task": task, "tasks": 4, "epoch": 0,
                   "seconds": 60.0, "groups": groups, "entries": {}, "keys": keys}  # fmt: skip
        Path(f"words/count-{task}.json").write_text(json.dumps(content))
    slots = ["node-1:6700", "node-2:6700"]
    tasks = [
        {"task": n, "component": "count" if n < 5 else "join", "slot": slots[0], "load": 10.0 * n} for n in range(1, 9)
    ]
    head: dict[str, Any] = {"format": "keyshift-storm-assignment", "version": 1, "topology": "words", "slots": slots}
    Path("storm.json").write_text(json.dumps({**head, "tasks": tasks}))


def _tasks() -> None:
    """Where the tasks of a Kafka Streams application run, and what Flink's REST API answers."""
    processes = [f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2)]
    active = [[{"id": f"0_{n}", "load": 4.0 + n, "state": 4096} for n in range(6)], []]
    listed = [{"processId": name, "active": held} for name, held in zip(processes, active, strict=True)]
    Path("streams.json").write_text(
        json.dumps({"format": "keyshift-streams-assignment", "version": 1, "processes": listed})
    )
    Path("answers").mkdir()
    subtasks = [
        {"subtask": i, "metrics": {"read-records": 500 + 90 * i, "accumulated-busy-time": 1.0}} for i in range(5)
    ]
    vertex = {"id": "b" * 32, "name": "count", "maxParallelism": 128, "parallelism": 5}
    for name, content in {
        "job": {"jid": "a" * 32, "name": "clicks", "state": "RUNNING", "vertices": [vertex]},
        "vertex": {"id": "b" * 32, "parallelism": 5, "subtasks": subtasks},
        "checkpoint": {"subtasks": [{"index": i, "status": "completed", "state_size": 1_000 + i} for i in range(5)]},
    }.items():
        Path(f"answers/{name}.json").write_text(json.dumps(content))


def measured(file: str, kept: dict[str, str] | list[str] | None = None, shape: str = ",.6g") -> str:
    """What a benchmark on a real engine predicted and measured, as its table."""
    frame = pd.read_csv(Path(__file__).parents[1] / "benchmarks" / "results" / file)
    if kept is not None:
        frame = frame[list(kept)]
    if isinstance(kept, dict):
        frame = frame.rename(columns=kept)
        frame["difference"] = frame["measured"] - frame["predicted"]
    frame = frame.apply(lambda column: column.map({True: "yes", False: "no"}) if column.dtype == bool else column)
    rows = [
        [f"{v:{shape}}" if isinstance(v, float) else str(v) for v in row]
        for row in frame.fillna("-").itertuples(index=False)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(frame.columns), ["---"] * frame.shape[1], *rows])


def rules_measured() -> str:
    """Allocation under rules beside Meta's Rebalancer: means over the seeds, and on how many of these keyshift is ahead."""
    frame = pd.read_csv(Path(__file__).parents[1] / "benchmarks/results/0.3.0/rules_beside.csv")
    rows = ["nodes/key groups | Rebalancer | keyshift | ahead-equal-behind", "---|---|---|---"]
    for size, part in frame.groupby("size", sort=False):
        both = part.pivot_table(index="seed", columns="method", values="distance %")
        less = (both["rebalancer"] - both["keyshift"]).round(3)
        counts = f"{(less > 0).sum()}-{(less == 0).sum()}-{(less < 0).sum()}"
        rows.append(f"{size} | {both['rebalancer'].mean():.3f} | {both['keyshift'].mean():.3f} | {counts}")
    return "\n".join(rows)


def storm_measured(part: str) -> str:
    """Storm: a table of `make storm`."""
    file = Path(__file__).parents[1] / f"benchmarks/results/0.4.0/storm_{part}.csv"
    kept = [name for name in pd.read_csv(file, nrows=0) if name != "service ms" and not name.startswith("ratio spread")]
    return measured(f"0.4.0/{file.name}", kept, ",.4g")


def redis_measured() -> str:
    """Redis Cluster: the last seed of `make redis`."""
    return measured("0.3.0/redis_last.csv")


def kafka_measured() -> str:
    """Kafka: the cases of `make kafka`."""
    return measured("0.4.0/kafka_cases.csv")


def flink_measured() -> str:
    """Flink: the state that a rescale moves, of `make flink`."""
    names = {"from - to": "subtasks", "predicted MB moved": "predicted", "measured MB moved": "measured"}
    return measured("0.2.0/flink-rescale.csv", names)


def methods(problem: str) -> str:
    """A table of a problem's methods, from the catalogue, for a page in a folder beside the lessons."""
    from keyshift.catalogue import FORMULATIONS
    from keyshift.commands.model import as_row

    columns = ("method", "kind", "certain", "for", "options", "source", "code", "lesson")
    rows = [_table_row(as_row(FORMULATIONS[problem], method)) for method in FORMULATIONS[problem].methods]
    return "\n".join([f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *rows])


def _table_row(row: dict[str, Any]) -> str:
    options = ", ".join(f"`{name}`" for name in row["options"]) or "-"
    lesson = f"[{row['lesson'].rpartition('/')[2]}](../{row['lesson']}.md)"
    cells = [f"`{row['method']}`", row["kind"], row["guarantee"], row["limits"] or "-"]
    cells += [options, row["source"], f"`{row['code']}`", lesson]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def written_in(page: Path) -> None:
    """The files that a page shows as JSON, under the names that it says."""
    for name, text in re.findall(
        r"in a file `([\w.]+)`:\n\n```json\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    ):
        Path(name).write_text(text)


def options() -> str:
    """Every command with its options, from the command line itself."""
    import typer

    from keyshift.cli import application

    lines: list[str] = []
    for name, command in _every(typer.main.get_command(application())):
        first, *_ = (command.help or "").strip().split("\n\n")
        lines += [f"### keyshift {name}", "", _as_code(first.replace("\\[", "[")), ""]
        shown = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
        lines += ["| | |", "|---|---|"] if shown else []
        for p in shown:
            written = f"`{(p.metavar or p.name.upper())}`"
            if p.opts[0].startswith("-"):
                written = ", ".join(f"`{o}`" for o in p.opts) + ("" if p.is_flag else " `<...>`")
            said = _as_code(getattr(p, "help", None) or "").replace("|", "or")
            default = "" if p.default in (None, False, ()) or callable(p.default) else f" Default `{p.default}`."
            lines.append(f"| {written} | {said}{default} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def _as_code(text: str) -> str:
    return re.sub(r"(?<![`\w])--[a-z][\w-]*", lambda m: f"`{m[0]}`", " ".join(text.split()))


def _every(group: Any, before: str = "") -> Any:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _every(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command
