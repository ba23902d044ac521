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


def counts_file(task: int, tasks: int, **changed: object) -> dict[str, object]:
    """What a task of a topology writes: 16 key groups by the hash, key-a listed."""
    keys = {f"w{k}": [10.0 * k, 8.0] for k in range(40) if (31 + hash_of(f"w{k}")) % 16 % tasks == task}
    more = {"a": [500.0, 100.0]} if task == 1 else {}
    return {"format": "keyshift-storm-counts", "version": 1, "component": "count", "task": task, "tasks": tasks, "epoch": 3,
            "seconds": 10.0, "groups": [g % tasks for g in range(16)], "entries": {"a": [1]}, "keys": keys | more, **changed}  # fmt: skip


def hash_of(text: str) -> int:
    """Java's, of short ASCII texts."""
    code = 0
    for letter in text:
        code = (31 * code + ord(letter)) % 2**32
    return code


@pytest.fixture
def counted(tmp_path):
    (tmp_path / "counts").mkdir()
    for task in range(4):
        (tmp_path / "counts" / f"count-{task}.json").write_text(json.dumps(counts_file(task, 4)))
    return tmp_path / "counts"


@pytest.mark.parametrize("keys", [False, True])
def test_a_topology_is_read_planned_and_written(counted, keys, tmp_path):
    topology = storm.read_topology(counted)
    w = storm.workload_of(topology, keys)
    assert w.last_load.sum() == pytest.approx((sum(10 * k for k in range(40)) + 500) / 10)
    assert w.state.sum() == 40 * 8 + 100
    problem = ks.MixedRouting(w, theta_max=0.3) if keys else ks.KeyGroupAllocation(w, max_migrations=5)
    plan = ks.solve(problem, time_limit=5).plan(phase_moves=2)
    files = storm.write_plan(plan, tmp_path / "made", topology)
    there, back = (json.loads(file.read_text()) for file in files)
    assert there["tables"] == back["tables"][::-1]
    assert (there["epoch"], back["epoch"]) == (3, 3 + len(plan.phases))
    for table, nodes in zip(there["tables"], [plan.current, *plan.assignments()], strict=True):
        for name, node in zip(w.keys, nodes.tolist(), strict=True):
            kind, _, key = str(name).partition("-")
            group = int(key) if kind == "group" else (31 + hash_of(key)) % 2**32
            listed = (
                table["entries"].get(key, [table["groups"][group % 16]]) if kind == "key" else [table["groups"][group]]
            )
            assert listed == [node]
    moved = [{**counts_file(task, 4), "epoch": 4, "groups": [0] * 16} for task in range(4)]
    for task, content in enumerate(moved):
        (counted / f"count-{task}.json").write_text(json.dumps(content))
    with pytest.raises(ks.InputError, match="another table than the plan begins with"):
        storm.write_plan(plan, tmp_path / "again", storm.read_topology(counted))


def test_counts_that_do_not_belong_together(counted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split("import storm counts --out w")) == 0
    assert main(shlex.split("plan w --out p.json")) == 0
    assert main(shlex.split("export p.json --to storm --counts counts --out made")) == 0
    assert (tmp_path / "made" / "undo.json").exists()
    for wrong, said in (({"epoch": 4}, "epoch differs"), ({"tasks": 5}, "tasks differs"), ({"seconds": 0}, "seconds"),
                        ({"entries": {"a": []}}, "entries"), ({"keys": {"w1": [1]}}, "keys")):  # fmt: skip
        (counted / "count-2.json").write_text(json.dumps(counts_file(2, 4) | wrong))
        assert main(shlex.split("import storm counts --out v")) == 2
        assert said in capsys.readouterr().err
    (counted / "count-2.json").unlink()
    assert main(shlex.split("import storm counts --out v")) == 2
    assert "task 2 is missing" in capsys.readouterr().err
    assert main(shlex.split("export p.json --to storm --out made2")) == 2


def test_keys_of_several_tasks_stay_where_they_are(counted, tmp_path):
    for task in range(4):
        (counted / f"count-{task}.json").write_text(json.dumps(counts_file(task, 4, entries={"a": [0, 2]})))
    topology = storm.read_topology(counted)
    w = storm.workload_of(topology)
    assert "key-a" not in w.keys
    files = storm.write_plan(ks.solve(ks.KeyGroupAllocation(w, max_migrations=3)).plan(), tmp_path / "m", topology)
    assert all(table["entries"] == {"a": [0, 2]} for table in json.loads(files[0].read_text())["tables"])
    storm.write_tables(tmp_path / "t.json", 4, 7, [([0, 1], {"a": [0, 3], "b": [2]})])
    assert storm.read_grouping(tmp_path / "t.json") == (4, {"b": 2})
    with pytest.raises(ks.InputError, match="names task 4: there are 4"):
        storm.write_tables(tmp_path / "t.json", 4, 7, [([0, 4], {})])
