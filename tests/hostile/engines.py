"""Malformed, truncated, foreign and huge inputs in the engines' formats, and the table of what is said to each.

``python -m hostile.engines`` (with ``tests`` on the path) renews the page of the documentation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hostile import more_engines
from hostile.engine_files import HUGE, case, line, place
from hostile.refusals import Case, judge

Change = Callable[[Any], object]


def cases() -> Iterator[Case]:
    """Of all engines."""
    yield from kafka()
    yield from more_engines.cases()


# Kafka ------------------------------------------------------------------------------------------------------------

HEAD = "Querying brokers for log directories information\nReceived log directory information from brokers 1,2\n"


def log_dirs(change: Change = lambda _: None) -> str:
    """A good output of kafka-log-dirs, changed."""
    content: dict[str, Any] = {"version": 1, "brokers": [
        {"broker": b, "logDirs": [{"logDir": "/d", "error": None, "partitions": [
            {"partition": p, "size": 7, "offsetLag": 0, "isFuture": False} for p in ("t-0", "t-1")]}]} for b in (1, 2)]}  # fmt: skip
    change(content)
    return HEAD + json.dumps(content) + "\n"


def assignment(change: Change = lambda _: None) -> str:
    """A good output of kafka-reassign-partitions, changed."""
    content: dict[str, Any] = {"version": 1, "partitions": [
        {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]},
        {"topic": "t", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]}]}  # fmt: skip
    change(content)
    return "Current partition replica assignment\n" + json.dumps(content) + "\n"


def _first(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["brokers"][0]["logDirs"][0]["partitions"][0]
    return found


FILES = {"dirs.txt": log_dirs(), "now.txt": assignment(), "loads.csv": "topic,partition,value\nt,0,1\nt,1,2\n"}
WORDS = ["import", "kafka", "--log-dirs", "dirs.txt", "--loads", "loads.csv", "--assignment", "now.txt", "--out", "w"]


def kafka() -> Iterator[Case]:
    yield from _log_dirs()
    yield from _assignments()
    yield from _loads()
    for option, values in {
        "--draining": ["9", "x", "1,2", "-1"],
        "--capacities": ["1", "1:0", "1:x", "9:1", "1:2,1:3"],
    }.items():
        for value in values:
            yield case("kafka", f"{option} {value}", FILES, [*WORDS, f"{option}={value}"])
    alone = ["import", "kafka", "--log-dirs", "dirs.txt", "--out", "w"]
    yield case("kafka", "several replicas, no assignment", FILES, alone)
    yield case("kafka", "a folder for a file", FILES, ["import", "kafka", "--log-dirs", ".", "--out", "w"])
    yield from _replicas(alone)
    yield from _described()
    yield from _exports()


def _replicas(alone: list[str]) -> Iterator[Case]:
    """Racks that are wrong, or asked for without --replicas."""
    yield case("kafka", "--replicas, no assignment", FILES, [*alone, "--replicas"])
    for racks in ("1:a", "1:a,2:b,3:c", "1:a,1:b", "x:a,2:b", "1:,2:b", "1", "1:a,2:b,"):
        yield case("kafka", f"--replicas --racks {racks}", FILES, [*WORDS, "--replicas", f"--racks={racks}"])
    files: dict[str, Any] = {"empty": "", "not UTF-8": b"\xff{", "no colon": "1 a\n2 b\n", "129 MiB": HUGE}
    for name, content in files.items():
        words = [*WORDS, "--replicas", "--racks", "racks.txt"]
        yield case(
            "kafka",
            f"--replicas, racks of a file: {name}",
            {**FILES, "racks.txt": "1:a\n2:b\n"},
            words,
            {"racks.txt": content},
        )
    beyond = assignment(lambda c: c["partitions"][0].update(replicas=[1, 3]))
    yield case(
        "kafka", "--replicas, a replica on an unknown broker", FILES, [*WORDS, "--replicas"], {"now.txt": beyond}
    )


def _log_dirs() -> Iterator[Case]:
    dirs: dict[str, Any] = {
        "empty": "", "text only": HEAD, "cut short": log_dirs()[:-30], "a stack trace": "org.apache.kafka.KafkaException: no\n",
        "an HTML page": "<html></html>", "a list": HEAD + "[]", "no brokers": log_dirs(lambda c: c.update(brokers=[])),
        "version 2": log_dirs(lambda c: c.update(version=2)), "no version": log_dirs(lambda c: c.pop("version")),
        "a size below 0": log_dirs(lambda c: _first(c).update(size=-1)),
        "a size as text": log_dirs(lambda c: _first(c).update(size="7")), "a size of 1.5": log_dirs(lambda c: _first(c).update(size=1.5)),
        "a size beyond floats": log_dirs(lambda c: _first(c).update(size=2**60)),
        "a replica that moves": log_dirs(lambda c: _first(c).update(isFuture=True)),
        "a partition without a number": log_dirs(lambda c: _first(c).update(partition="orders")),
        "a partition with a path": log_dirs(lambda c: _first(c).update(partition="../etc-0")),
        "a partition twice": log_dirs(lambda c: _first(c).update(partition="t-1")),
        "a broker twice": log_dirs(lambda c: c["brokers"][0].update(broker=2)),
        "a field twice": HEAD + '{"version":1,"version":1,"brokers":[]}', "deep": HEAD + '{"a":' * 100_000,
        "not UTF-8": b"\xff{", "129 MiB": HUGE,
    }  # fmt: skip
    for name, content in dirs.items():
        yield case("kafka", f"log dirs: {name}", FILES, WORDS, {"dirs.txt": content})


def _assignments() -> Iterator[Case]:
    entry: Callable[[dict[str, Any]], dict[str, Any]] = lambda c: c["partitions"][0]  # noqa: E731
    now: dict[str, Any] = {
        "the heading alone": "Current partition replica assignment\n", "cut short": assignment()[:-20],
        "of another tool": "Topic: t PartitionCount: 2", "a broker twice": assignment(lambda c: entry(c).update(replicas=[1, 1])),
        "no replica": assignment(lambda c: entry(c).update(replicas=[], log_dirs=[])),
        "a partition twice": assignment(lambda c: entry(c).update(partition=1)),
        "log_dirs too short": assignment(lambda c: entry(c).update(log_dirs=["any"])),
        "a broker below 0": assignment(lambda c: entry(c).update(replicas=[-1, 2])),
        "a topic with a slash": assignment(lambda c: entry(c).update(topic="a/b")),
        "other brokers than the logs": assignment(lambda c: entry(c).update(replicas=[1, 3])),
        "a partition less": assignment(lambda c: c["partitions"].pop()), "129 MiB": HUGE,
    }  # fmt: skip
    for name, content in now.items():
        yield case("kafka", f"assignment: {name}", FILES, WORDS, {"now.txt": content})


TOPICS = (
    "Topic: t\tTopicId: x\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr: \n"
    "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\tElr: \tLastKnownElr: \n"
)


def _described() -> Iterator[Case]:
    """What kafka-topics --describe printed, and the list of reassignments."""
    files = {**FILES, "topics.txt": TOPICS, "list.txt": "No partition reassignments found.\n"}
    words = [*WORDS, "--describe", "topics.txt", "--reassigning", "list.txt"]
    topics: dict[str, Any] = {
        "empty": "", "of another tool": HEAD, "cut short": TOPICS[: TOPICS.rindex("\tTopic")], "half a line": TOPICS[:-20],
        "a partition twice": TOPICS + TOPICS.splitlines(keepends=True)[1], "a broker twice": TOPICS.replace("Replicas: 1,2", "Replicas: 1,1"),
        "a leader without replica": TOPICS.replace("Leader: 1", "Leader: 7"), "a leader as a word": TOPICS.replace("Leader: 1", "Leader: one"),
        "in sync without replica": TOPICS.replace("Isr: 1,2", "Isr: 1,3"), "an unknown field": TOPICS.replace("Elr:", "Epoch:"),
        "on its way": TOPICS.replace("Isr: 1,2", "Isr: 1,2\tAdding Replicas: 2\tRemoving Replicas: 1"),
        "other brokers than the assignment": TOPICS.replace("2,1", "2,3"), "another order": TOPICS.replace("Replicas: 2,1", "Replicas: 1,2"),
        "nobody leads": TOPICS.replace("Leader: 1", "Leader: none").replace("Leader: 2", "Leader: none"), "129 MiB": HUGE,
    }  # fmt: skip
    for name, content in topics.items():
        yield case("kafka", f"topics: {name}", files, words, {"topics.txt": content})
    listed: dict[str, Any] = {
        "empty": "", "on its way": "Current partition reassignments:\nt-0: replicas: 1,2. adding: 2. removing: 1.\n",
        "cut short": "Current partition reassignments:\nt-0: replicas: 1,2. addi",
    }  # fmt: skip
    for name, content in listed.items():
        yield case("kafka", f"list of reassignments: {name}", files, words, {"list.txt": content})
    longer = assignment(lambda c: c["partitions"][0].update(replicas=[1, 2, 3], log_dirs=["any"] * 3))
    yield case("kafka", "a longer list than others of its topic", FILES, WORDS, {"now.txt": longer})
    shorter = log_dirs(lambda c: _first(c).update(size=900))
    yield case("kafka", "a log far shorter than its leader's", FILES, WORDS, {"dirs.txt": shorter})


def _loads() -> Iterator[Case]:
    head = "topic,partition,value\n"
    loads: dict[str, Any] = {
        "empty": "", "no heading": "t,0,1\nt,1,2\n", "the heading alone": head, "a partition missing": head + "t,0,1\n",
        "a stranger": head + "t,0,1\nt,1,2\nu,0,1\n", "a row twice": head + "t,0,1\nt,0,1\n", "two fields": head + "t,0\n",
        "a word": head + "t,0,many\nt,1,2\n", "nan": head + "t,0,nan\nt,1,2\n", "minus": head + "t,0,-1\nt,1,2\n",
        "infinity": head + "t,0,inf\nt,1,2\n", "partition 1.5": head + "t,1.5,1\n", "an open quote": head + 't,"0,1\n',
        "a null character": head + "t,0,1\x00\n", "JSON": '{"t-0": 1}', "129 MiB": HUGE,
    }  # fmt: skip
    for name, content in loads.items():
        yield case("kafka", f"loads: {name}", FILES, WORDS, {"loads.csv": content})


def _exports() -> Iterator[Case]:
    def made(words: list[str], keys: list[str] | None, names: list[Any] | None, folder: Path) -> list[str]:
        import keyshift as ks

        w = ks.Workload(load=[2, 1], state=[1, 1], current=[0, 0], nodes=2, keys=keys, node_names=names)
        ks.plan(ks.KeyGroupAllocation(w), [1, 0]).save(folder / "plan.json")
        place(folder, {"now.txt": assignment(), "full/x": "mine"})
        return ["export", "plan.json", *words]

    to, good = ["--to", "kafka", "--out", "k"], ["t-0 [1,2]", "t-1 [1,2]"]
    for name, words, keys, names in (
        ("an unknown engine", ["--to", "pulsar", "--out", "k"], good, [1, 2]), ("no engine", ["--out", "k"], good, [1, 2]),
        ("nodes without names", to, good, None), ("a broker with a name", to, good, ["a", "b"]),
        ("keys without names", to, None, [1, 2]), ("keys without replicas", to, ["t-0", "t-1"], [1, 2]),
        ("a key that is not a partition", to, ["x", "y"], [1, 2]), ("another leader", to, ["t-0 [2,3]", "t-1 [1,2]"], [1, 2]),
        ("a replica twice", to, ["t-0 [1,1]", "t-1 [1,2]"], [1, 2]), ("another assignment now", [*to, "--assignment", "now.txt"], good, [1, 2]),
        ("a rack unknown", [*to, "--racks", "1:a"], ["t-0 [1]", "t-1 [1]"], [1, 2]), ("racks as JSON", [*to, "--racks", "{}"], good, [1, 2]),
        ("a folder with something in it", ["--to", "kafka", "--out", "full"], good, [1, 2]),
        ("a workload for a plan", ["--to", "kafka", "--out", "k"], good, [1, 2]),
    ):  # fmt: skip
        make = partial(made, words, keys, names)
        if name == "a workload for a plan":
            make = partial(
                line,
                {"plan.json": {"load": [1], "state": [1], "current": [0], "nodes": 1}},
                ["export", "plan.json", *words],
            )
        yield Case("engines: export", name, make)


def table() -> str:
    """What is said to each, as a table."""
    lines = ["| what is wrong | exit code | what keyshift says |", "|---|---|---|"]
    for each in cases():
        verdict = judge(each, timed=False)
        engine = each.kind.removeprefix("engines: ")
        said = " ".join(verdict.said.removeprefix("keyshift: ").split()).replace("|", "\\|")
        lines.append(f"| {engine}: {each.name} | {verdict.outcome} | {said} |")
    return "\n".join(lines) + "\n"


PAGE = Path(__file__).parents[2] / "docs" / "engines" / "refusals.md"
INTRODUCTION = """# What is refused

Malformed, truncated, foreign and huge inputs in the engines' formats, and the one sentence that each ends in. A test runs them all and holds this page to it.

"""

if __name__ == "__main__":
    PAGE.write_text(INTRODUCTION + table())
