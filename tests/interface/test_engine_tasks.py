"""Storm and Kafka Streams: assignments are read, written after each phase, and read again as the plan says."""

from __future__ import annotations

import json
import shlex
import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keyshift as ks
from keyshift.cli import main
from keyshift.engines import kafka_streams, storm


def storm_file(rng: np.random.Generator) -> dict[str, object]:
    slots = [f"node-{i}:{6700 + i % 2}" for i in range(int(rng.integers(2, 6)))]
    tasks = [{"task": t, "component": f"c{t % 2}", "slot": slots[int(rng.integers(len(slots)))], "load": float(rng.integers(9)),
              "state": float(rng.integers(9))} for t in range(1, int(rng.integers(2, 15)))]  # fmt: skip
    return {"format": "keyshift-storm-assignment", "version": 1, "topology": "words", "slots": slots, "tasks": tasks}


def streams_file(rng: np.random.Generator) -> dict[str, object]:
    names = [str(uuid.UUID(int=int(rng.integers(2**62)))) for _ in range(int(rng.integers(2, 6)))]
    active: list[list[dict[str, object]]] = [[] for _ in names]
    for t in range(int(rng.integers(1, 15))):
        one = {"id": f"{t % 2}_{t}", "load": float(rng.integers(9)), "state": float(rng.integers(9))}
        active[int(rng.integers(len(names)))].append(one)
    processes = [{"processId": n, "active": tasks} for n, tasks in zip(names, active, strict=True)]
    return {"format": "keyshift-streams-assignment", "version": 1, "processes": processes}


def where(file, engine: str) -> dict[object, object]:
    """What a scheduler or an assignor makes of a file."""
    content = json.loads(file.read_text())
    if engine == "storm":
        return {f"{t['component']}:{t['task']}": t["slot"] for t in content["tasks"]}
    return {task["id"]: p["processId"] for p in content["processes"] for task in p["active"]}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), engine=st.sampled_from(["storm", "kafka-streams"]))
def test_what_is_written_after_each_phase_is_the_plan(seed, engine, tmp_path_factory):
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("tasks")
    (folder / "now.json").write_text(json.dumps(storm_file(rng) if engine == "storm" else streams_file(rng)))
    module = storm if engine == "storm" else kafka_streams
    w = module.read_workload(folder / "now.json")
    assert where(folder / "now.json", engine) == {w.keys[k]: w.node_names[i] for k, i in enumerate(w.current)}
    made = ks.plan(ks.KeyGroupAllocation(w), rng.integers(0, w.nodes, w.key_groups), phase_moves=2)
    files = (
        storm.write_assignment(made, folder / "o", "words")
        if engine == "storm"
        else kafka_streams.write_assignment(made, folder / "o")
    )
    for file, nodes in zip(files, [made.current, *made.assignments()], strict=True):
        assert where(file, engine) == {w.keys[k]: w.node_names[i] for k, i in enumerate(nodes)}
    again = module.read_workload(files[-1])
    assert again.current.tolist() == made.assignment.tolist()
    assert again.node_names == w.node_names
    assert dict(zip(again.keys, again.state, strict=True)) == dict(zip(w.keys, w.state, strict=True))


def test_from_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "s.json").write_text(json.dumps(storm_file(rng)))
    (tmp_path / "k.json").write_text(json.dumps(streams_file(rng)))
    for engine, file, more in (("storm", "s.json", "--topology words"), ("kafka-streams", "k.json", "")):
        assert main(shlex.split(f"import {engine} {file} --out {engine}")) == 0
        assert main(shlex.split(f"plan {engine} --out p.json")) == 0
        assert main(shlex.split(f"export p.json --to {engine} --out out-{engine} {more}")) == 0
        assert (tmp_path / f"out-{engine}" / "before-assignment.json").exists()


def test_a_grouping_is_written_and_read(tmp_path):
    storm.write_grouping(ks.RoutingTable([0, 2], [3, 1]), tmp_path / "g.json", 4, ["a", "b", "c"])
    assert storm.read_grouping(tmp_path / "g.json") == (4, {"a": 3, "c": 1})
    with pytest.raises(ks.InputError, match="names task 3: there are 3"):
        storm.write_grouping(ks.RoutingTable([0], [3]), tmp_path / "g.json", 3)
    (tmp_path / "g.json").write_text(
        json.dumps({"format": "keyshift-storm-grouping", "version": 1, "tasks": 2, "entries": {"a": 2}})
    )
    with pytest.raises(ks.InputError, match=r"entries\['a'\] = 2: there are 2 tasks"):
        storm.read_grouping(tmp_path / "g.json")
