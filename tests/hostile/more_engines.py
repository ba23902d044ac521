"""Malformed inputs of Cruise Control, Flink, Storm and Kafka Streams."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hostile.engine_files import HUGE, case, place
from hostile.refusals import Case

Change = Callable[[Any], object]


def changed(content: Any, change: Change) -> Any:
    """A copy, changed."""
    made = copy.deepcopy(content)
    change(made)
    return made


def cases() -> Iterator[Case]:
    """Of these four."""
    yield from cruise_control()
    yield from flink()
    yield from storm()
    yield from kafka_streams()


def variants(engine: str, files: dict[str, Any], words: list[str], file: str, wrong: dict[str, Any]) -> Iterator[Case]:
    """Each wrong content of a file; a function changes the good one."""
    for name, content in wrong.items():
        bad = changed(files[file], content) if callable(content) else content
        yield case(engine, f"{file}: {name}", files, words, {file: bad})


def cruise_control() -> Iterator[Case]:
    record = {"topic": "t", "partition": 0, "leader": 0, "followers": [1], "cpu": 1.0, "networkInbound": 1.0,
              "networkOutbound": 1.0, "disk": 1.0, "msg_in": 1.0}  # fmt: skip
    own = {"brokerId": "-1", "capacity": {"DISK": "9", "CPU": "100", "NW_IN": "9", "NW_OUT": "9"}, "doc": ""}
    files: dict[str, Any] = {
        "load.json": {"version": 1, "hosts": [], "brokers": [{"Broker": b, "BrokerState": "ALIVE"} for b in (0, 1)]},
        "parts.json": {"version": 1, "records": [record]}, "capacity.json": {"brokerCapacities": [own]},
        "proposals.json": {"proposals": [{"topicPartition": "t-0", "oldLeader": 0, "oldReplicas": [0, 1], "newReplicas": [1, 0]}]},
    }  # fmt: skip
    words = ["import", "cruise-control", "--load", "load.json", "--partition-load", "parts.json", "--capacity", "capacity.json",
             "--proposals", "proposals.json", "--assignment", "theirs.json", "--out", "w"]  # fmt: skip
    yield from variants("cruise control", files, words, "load.json", {
        "the plain text answer": "HOST BROKER DISK(MB)", "cut short": '{"version":1,"brokers":[{"Bro', "no brokers": {"brokers": []},
        "an error of Cruise Control": {"errorMessage": "not enough windows", "version": 1}, "129 MiB": HUGE,
        "an unknown state": lambda c: c["brokers"][0].update(BrokerState="ASLEEP"), "all dead": lambda c: [b.update(BrokerState="DEAD") for b in c["brokers"]],
        "a broker as text": lambda c: c["brokers"][0].update(Broker="0"),
    })  # fmt: skip
    first: Callable[[Any], Any] = lambda c: c["records"][0]  # noqa: E731
    yield from variants("cruise control", files, words, "parts.json", {
        "no records": {"records": []}, "a partition twice": {"records": [record, record]}, "a load below 0": lambda c: first(c).update(cpu=-1.0),
        "NaN": '{"records":[{"topic":"t","partition":0,"leader":0,"followers":[],"cpu":NaN,"networkInbound":1,"networkOutbound":1,"disk":1}]}',
        "a follower that leads": lambda c: first(c).update(followers=[0]), "an unknown broker": lambda c: first(c).update(leader=7),
        "no disk": lambda c: first(c).pop("disk"), "the text of the wiki": "PARTITION LEADER FOLLOWERS",
    })  # fmt: skip
    part: Callable[[Any], Any] = lambda c: c["brokerCapacities"][0]["capacity"]  # noqa: E731
    yield from variants("cruise control", files, words, "capacity.json", {
        "a word for a number": lambda c: part(c).update(CPU="much"), "zero": lambda c: part(c).update(CPU="0"),
        "a resource missing": lambda c: part(c).pop("DISK"), "a broker twice": {"brokerCapacities": [own, own]},
        "no default": lambda c: c["brokerCapacities"][0].update(brokerId="0"), "infinity": lambda c: part(c).update(DISK="inf"),
        "cores and percent": {"brokerCapacities": [own, changed(own, lambda c: c.update(brokerId="0", capacity={**c["capacity"], "CPU": {"num.cores": "4"}}))]},
    })  # fmt: skip
    proposal: Callable[[Any], Any] = lambda c: c["proposals"][0]  # noqa: E731
    yield from variants("cruise control", files, words, "proposals.json", {
        "of another cluster": lambda c: proposal(c).update(topicPartition="u-0"), "another leader": lambda c: proposal(c).update(oldLeader=1),
        "a new broker": lambda c: proposal(c).update(newReplicas=[5, 0]), "a broker twice": lambda c: proposal(c).update(newReplicas=[1, 1]),
        "no replica": lambda c: proposal(c).update(newReplicas=[]), "a leader without replica": lambda c: proposal(c).update(oldLeader=4),
    })  # fmt: skip
    yield case("cruise control", "--balance memory", files, [*words, "--balance", "memory"])
    yield case("cruise control", "proposals alone", files, words[:10] + words[-2:])


def flink() -> Iterator[Case]:
    job, vertex = "a" * 32, "b" * 32
    files: dict[str, Any] = {
        "s/job.json": {"jid": job, "name": "j", "state": "RUNNING", "vertices": [
            {"id": vertex, "name": "count", "maxParallelism": 128, "parallelism": 2}]},
        "s/vertex.json": {"id": vertex, "parallelism": 2, "subtasks": [
            {"subtask": i, "metrics": {"read-records": 5, "accumulated-busy-time": 1.0}} for i in (0, 1)]},
        "s/checkpoint.json": {"subtasks": [{"index": i, "status": "completed", "state_size": 7} for i in (0, 1)]},
    }  # fmt: skip
    words = ["import", "flink", "--saved", "s", "--out", "w"]
    first: Callable[[Any], Any] = lambda c: c["vertices"][0]  # noqa: E731
    yield from variants("flink", files, words, "s/job.json", {
        "an error of Flink": {"errors": ["Job not found"]}, "cut short": '{"jid":"aa', "no vertices": lambda c: c.update(vertices=[]),
        "an id with a path": lambda c: c.update(jid="../../x"), "a parallelism of 0": lambda c: first(c).update(parallelism=0),
        "a max parallelism of a million": lambda c: first(c).update(maxParallelism=10**6), "another vertex": lambda c: first(c).update(id="c" * 32),
        "a max parallelism below the parallelism": lambda c: first(c).update(maxParallelism=1), "129 MiB": HUGE,
        "the dashboard's page": "<!doctype html>",
    })  # fmt: skip
    task: Callable[[Any], Any] = lambda c: c["subtasks"][0]  # noqa: E731
    yield from variants("flink", files, words, "s/vertex.json", {
        "a subtask less": lambda c: c["subtasks"].pop(), "a subtask twice": lambda c: task(c).update(subtask=1),
        "records below 0": lambda c: task(c)["metrics"].update({"read-records": -1}), "records as text": lambda c: task(c)["metrics"].update({"read-records": "5"}),
        "no records": lambda c: task(c)["metrics"].pop("read-records"), "another parallelism": lambda c: c.update(parallelism=3),
        "busy like a word": lambda c: task(c)["metrics"].update({"accumulated-busy-time": "very"}),
    })  # fmt: skip
    yield from variants("flink", files, words, "s/checkpoint.json", {
        "pending": lambda c: c.update(subtasks=[{"index": i, "status": "pending_or_failed"} for i in (0, 1)]),
        "of fewer subtasks": lambda c: c["subtasks"].pop(), "a state below 0": lambda c: task(c).update(state_size=-1),
        "an unknown status": lambda c: task(c).update(status="lost"),
    })  # fmt: skip
    for name, more in {
        "nothing given": ["--out", "w"], "both": [*words[2:], "--rest", "http://127.0.0.1:1"], "a file for a folder": ["--saved", "s/job.json", "--out", "w"],
        "no job": ["--rest", "http://127.0.0.1:1", "--out", "w"], "an address of a file": ["--rest", "file:///etc/passwd", "--job", job, "--out", "w"],
        "nobody answers": ["--rest", "http://127.0.0.1:1", "--job", job, "--out", "w"], "a job id that is not one": ["--rest", "http://127.0.0.1:1", "--job", "x", "--out", "w"],
        "another vertex": [*words[2:], "--vertex", "sum"], "an unknown load": [*words[2:], "--load", "bytes"],
        "a parallelism beyond": [*words[2:], "--advise", "129"], "a parallelism of 0": [*words[2:], "--advise", "0"],
    }.items():  # fmt: skip
        yield case("flink", name, files, ["import", "flink", *more])


def storm() -> Iterator[Case]:
    task = {"task": 1, "component": "c", "slot": "n:6700", "load": 1.0, "state": 1.0}
    files = {
        "s.json": {
            "format": "keyshift-storm-assignment",
            "version": 1,
            "topology": "t",
            "slots": ["n:6700", "m:6700"],
            "tasks": [task],
        }
    }
    first: Callable[[Any], Any] = lambda c: c["tasks"][0]  # noqa: E731
    yield from variants("storm", files, ["import", "storm", "s.json", "--out", "w"], "s.json", {
        "another format": lambda c: c.update(format="storm"), "version 2": lambda c: c.update(version=2), "no tasks": lambda c: c.update(tasks=[]),
        "a slot unknown": lambda c: first(c).update(slot="x:1"), "a slot without port": lambda c: c.update(slots=["n"]), "a slot twice": lambda c: c.update(slots=["n:6700"] * 2),
        "a task twice": {**files["s.json"], "tasks": [task, task]}, "a task below 0": lambda c: first(c).update(task=-1), "129 MiB": HUGE,
    })  # fmt: skip

    one = {"format": "keyshift-storm-counts", "version": 1, "component": "c", "tasks": 2, "epoch": 0, "seconds": 60.0,
           "groups": [0, 1], "entries": {}, "keys": {"a": [5, 80]}}  # fmt: skip
    counts: dict[str, Any] = {f"c/c-{task}.json": {**one, "task": task} for task in (0, 1)}
    yield from variants("storm", counts, ["import", "storm", "c", "--out", "w"], "c/c-1.json", {
        "another epoch": lambda c: c.update(epoch=1), "task 0 twice": lambda c: c.update(task=0), "another table": lambda c: c.update(groups=[0, 0]),
        "no key groups": lambda c: c.update(groups=[]), "an entry without tasks": lambda c: c.update(entries={"a": []}), "in no time": lambda c: c.update(seconds=0),
        "a count below 0": lambda c: c.update(keys={"a": [-1, 8]}), "a key without bytes": lambda c: c.update(keys={"a": [1]}),
        "counts as text": lambda c: c.update(keys={"a": ["1", "8"]}), "an assignment": files["s.json"], "cut short": json.dumps(one)[:90], "129 MiB": HUGE,
    })  # fmt: skip
    both = {name: {**content, "groups": [0, 2]} for name, content in counts.items()}
    yield case("storm", "counts of a task that is not there", both, ["import", "storm", "c", "--out", "w"])
    yield case("storm", "a folder without counts", {"c/note.txt": "x"}, ["import", "storm", "c", "--out", "w"])
    yield case("storm", "keys of an assignment", files, ["import", "storm", "s.json", "--keys", "--out", "w"])


def kafka_streams() -> Iterator[Case]:
    one, other = (f"00000000-0000-0000-0000-00000000000{i}" for i in (1, 2))
    files = {"k.json": {"format": "keyshift-streams-assignment", "version": 1, "processes": [
        {"processId": one, "active": [{"id": "0_1"}]}, {"processId": other, "active": [{"id": "0_2"}]}]}}  # fmt: skip
    first: Callable[[Any], Any] = lambda c: c["processes"][0]  # noqa: E731
    yield from variants("kafka streams", files, ["import", "kafka-streams", "k.json", "--out", "w"], "k.json", {
        "a process by name": lambda c: first(c).update(processId="host-1"), "a process twice": lambda c: first(c).update(processId=other),
        "a task twice": lambda c: first(c).update(active=[{"id": "0_2"}]), "a task like a partition": lambda c: first(c).update(active=[{"id": "orders-1"}]),
        "no task": lambda c: [p.update(active=[]) for p in c["processes"]], "cut short": json.dumps(files["k.json"])[:80], "no format": lambda c: c.pop("format"),
    })  # fmt: skip

    def unnamed(folder: Path, to: list[str]) -> list[str]:
        import keyshift as ks

        w = ks.Workload(load=[2, 1], state=[1, 1], current=[0, 0], nodes=2, keys=["a", "b"], node_names=["n:1", "m:1"])
        ks.plan(ks.KeyGroupAllocation(w), [1, 0]).save(folder / "plan.json")
        place(folder, {})
        return ["export", "plan.json", *to, "--out", "o"]

    for name, to in {
        "storm without a topology": ["--to", "storm"], "storm with both": ["--to", "storm", "--topology", "t", "--counts", "c"],
        "counts that are not there": ["--to", "storm", "--counts", "c"], "counts for redis": ["--to", "redis", "--counts", "c"],
        "storm with keys that are no tasks": ["--to", "storm", "--topology", "t"],
        "kafka streams with keys that are no tasks": ["--to", "kafka-streams"], "racks for storm": ["--to", "storm", "--racks", "1:a"],
    }.items():  # fmt: skip
        yield Case("engines: export", name, partial(unnamed, to=to))
