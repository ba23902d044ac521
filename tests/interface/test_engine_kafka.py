"""Kafka: samples are read, plans are written, and a cluster that obeys them is where the plan says - and back again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_cluster import Cluster, drawn

import keyshift as ks
from keyshift.cli import main
from keyshift.engines import cruise_control, kafka, kafka_files
from keyshift.engines.kafka_files import Partition, read_assignment, read_log_dirs

DATA = Path(__file__).parents[1] / "data" / "engines"


def test_samples_of_log_dirs_are_read():
    found = read_log_dirs(DATA / "kafka-log-dirs.txt")
    assert found.brokers == (0,)
    assert {p.number: held[0] for p, held in found.sizes.items()} == {4: 394, 3: 394, 2: 392, 1: 392, 0: 393}
    assert {p.topic for p in found.sizes} == {"NEW-TOPIC-2"}
    found = read_log_dirs(DATA / "kafka-log-dirs-replicated.txt")
    assert found.brokers == (1, 2, 3)
    assert found.sizes[Partition("s14_move", 2)] == {2: 2095104, 3: 2095104}


def test_samples_of_assignments_are_read():
    assert read_assignment(DATA / "kafka-generate.txt") == {
        ("topic-reassign", 2): (2, 1), ("topic-reassign", 1): (1, 0), ("topic-reassign", 3): (0, 1), ("topic-reassign", 0): (0, 2),
    }  # fmt: skip
    assert read_assignment(DATA / "kafka-execute.txt") == {("bar", 0): (4, 5), ("foo", 1): (1, 2, 3)}


def test_a_workload_says_what_the_cluster_holds(tmp_path):
    (tmp_path / "now.json").write_text(
        json.dumps({"version": 1, "partitions": [
            {"topic": "s14_move", "partition": n, "replicas": r} for n, r in enumerate([[3, 1], [1, 2], [2, 3]])]})
    )  # fmt: skip
    (tmp_path / "loads.csv").write_text("topic,partition,value\ns14_move,1,3\ns14_move,0,5.5\n\ns14_move,2,0\n")
    w = kafka.read_workload(
        DATA / "kafka-log-dirs-replicated.txt", tmp_path / "loads.csv", assignment=tmp_path / "now.json",
        draining=[1], capacities={2: 4.0},
    )  # fmt: skip
    assert w.keys == ("s14_move-0 [3,1]", "s14_move-1 [1,2]", "s14_move-2 [2,3]")
    assert w.node_names == (1, 2, 3)
    assert w.last_load.tolist() == [5.5, 3, 0]
    assert w.state.tolist() == [2098176, 2101248, 2095104]
    assert w.current.tolist() == [2, 0, 1]
    assert w.capacity.tolist() == [1, 4, 1]
    assert w.draining.tolist() == [True, False, False]


def test_other_topics_are_left_alone(tmp_path):
    cluster = Cluster([1, 2], {("a", 0): [1], ("b", 0): [1], ("b", 1): [2]})
    (tmp_path / "dirs.txt").write_text(cluster.log_dirs({("a", 0): 5, ("b", 0): 6, ("b", 1): 7}))
    (tmp_path / "loads.csv").write_text("topic,partition,value\nb,0,1\nb,1,2\n")
    notes: list[str] = []
    w = kafka.read_workload(tmp_path / "dirs.txt", tmp_path / "loads.csv", notes=notes)
    assert w.keys == ("b-0 [1]", "b-1 [2]")
    assert notes == ["Left where they are, without being counted: 1 partition of a."]
    with pytest.warns(UserWarning, match="1 partition of a"):
        kafka.read_workload(tmp_path / "dirs.txt", tmp_path / "loads.csv")
    w = kafka.read_workload(tmp_path / "dirs.txt")
    assert w.last_load.tolist() == w.state.tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("replicas", "target", "racks", "expected"),
    [
        ((1, 2, 3), 2, None, (2, 1, 3)),  # a follower becomes the leader, the leader a follower
        ((1, 2, 3), 4, None, (4, 2, 3)),  # the target takes the leader's place
        ((1, 2), 4, {1: "a", 2: "b", 4: "b"}, (4, 1)),  # ... but not next to a follower on its rack
        ((1, 2), 4, {1: "b", 2: "b", 4: "b"}, (4, 2)),  # no worse than before
        ((1, 2), 4, {1: "a", 2: "b", 4: "c"}, (4, 2)),
        ((1,), 4, {1: "a", 4: "a"}, (4,)),
    ],
)
def test_how_a_leader_moves(replicas, target, racks, expected):
    assert kafka.moved_leader(Partition("t", 0), replicas, target, racks) == expected


def test_a_leader_that_is_down_leaves_its_list_though_that_costs_a_rack():
    racks = {1: "a", 2: "b", 4: "b"}
    assert kafka.moved_leader(Partition("t", 0), (1, 2), 4, racks) == (4, 1)
    assert kafka.moved_leader(Partition("t", 0), (1, 2), 4, racks, {1}) == (4, 2)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), phase_moves=st.integers(1, 5), with_racks=st.booleans(), again=st.booleans())
def test_the_cluster_is_where_the_plan_says_after_each_phase_and_back(
    seed, phase_moves, with_racks, again, tmp_path_factory
):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("kafka")
    cluster, sizes, racks = drawn(rng)
    (folder / "dirs.txt").write_text(cluster.log_dirs(sizes))
    (folder / "now.txt").write_text(cluster.assignment())
    partitions = sorted(sizes)
    lines = [f"{t},{n},{rng.integers(1, 100)}" for t, n in partitions]
    (folder / "loads.csv").write_text("\n".join(["topic,partition,value", *lines]))
    w = kafka.read_workload(folder / "dirs.txt", folder / "loads.csv", assignment=folder / "now.txt")
    problem = ks.KeyGroupAllocation(w)
    assignment = rng.integers(0, w.nodes, w.key_groups)
    made = ks.plan(problem, assignment, phase_moves=phase_moves)
    made.save(folder / "plan.json")
    before = {p: list(r) for p, r in cluster.replicas.items()}
    kafka.write_reassignment(
        ks.read_plan(folder / "plan.json"), folder / "out",
        racks=racks if with_racks else None, assignment=folder / "now.txt" if again else None,
    )  # fmt: skip
    for phase, expected in zip(made.phases, made.assignments(), strict=True):
        cluster.phase(folder / "out", phase.number)
        assert [cluster.leader[p] for p in partitions] == [w.node_names[i] for i in expected]
    assert [cluster.leader[p] for p in partitions] == [w.node_names[i] for i in made.assignment]
    for p, replicas in cluster.replicas.items():
        assert len(replicas) == len(before[p])
        assert len(set(replicas) - set(before[p])) <= 1
        if with_racks:
            assert len({racks[b] for b in replicas}) >= len({racks[b] for b in before[p]})
    for phase, expected in zip(reversed(made.phases), made.undo().assignments(), strict=True):
        cluster.phase(folder / "out", phase.number, "rollback")
        assert [cluster.leader[p] for p in partitions] == [w.node_names[i] for i in expected]
    assert cluster.replicas == before
    assert len(list((folder / "out").iterdir())) == 1 + 3 * len(made.phases)


@pytest.mark.parametrize("sample", ["log dirs", "cruise control"])
def test_samples_go_all_the_way_and_back(sample, tmp_path):
    if sample == "log dirs":
        now = [{"topic": "s14_move", "partition": n, "replicas": r} for n, r in enumerate([[3, 1], [1, 2], [3, 2]])]
        (tmp_path / "now.json").write_text(json.dumps({"version": 1, "partitions": now}))
        w = kafka.read_workload(DATA / "kafka-log-dirs-replicated.txt", assignment=tmp_path / "now.json")
    else:
        w = cruise_control.read_workload(
            DATA / "cruise-control-load.json",
            DATA / "cruise-control-partition-load.json",
            DATA / "cruise-control-capacity.json",
        )
    replicas = {}
    for key in w.keys:
        name, listed = key.split(" ")
        topic, _, number = name.rpartition("-")
        replicas[topic, int(number)] = json.loads(listed)
    cluster = Cluster(list(w.node_names), replicas)
    made = ks.solve(ks.KeyGroupAllocation(w)).plan(phase_moves=1)
    assert len(made) > 0
    kafka.write_reassignment(made, tmp_path / "out")
    for phase in made.phases:
        cluster.phase(tmp_path / "out", phase.number)
    assert list(cluster.leader.values()) == [w.node_names[i] for i in made.assignment]
    for phase in reversed(made.phases):
        cluster.phase(tmp_path / "out", phase.number, "rollback")
    assert cluster.replicas == replicas
    assert list(cluster.leader.values()) == [w.node_names[i] for i in w.current]


def test_from_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cluster = Cluster([1, 2, 3], {("t", n): [1 + n % 2, 3] for n in range(6)})
    Path("log-dirs.txt").write_text(cluster.log_dirs({("t", n): 100 + n for n in range(6)}))
    Path("now.txt").write_text(cluster.assignment())
    Path("loads.csv").write_text("topic,partition,value\n" + "".join(f"t,{n},{n + 1}\n" for n in range(6)))
    imported = "import kafka --log-dirs log-dirs.txt --loads loads.csv --assignment now.txt --draining 1 --out w"
    assert main(shlex.split(imported)) == 0
    assert main(shlex.split("plan w --out plan.json")) == 0
    assert main(shlex.split("export plan.json --to kafka --out reassignment")) == 0
    said = capsys.readouterr().out
    assert said.count(kafka.LEADERS_ONLY) == 2
    assert Path("reassignment/STEPS.md").read_text().splitlines()[2] == f"**{kafka.LEADERS_ONLY}**"
    assert max(map(len, Path("reassignment/STEPS.md").read_text().splitlines())) <= 110
    cluster.phase(Path("reassignment"), 0)
    plan = ks.read_plan("plan.json")
    assert list(cluster.leader.values()) == [plan.made_for.node(i) for i in plan.assignment]
    kept = sum(1 in replicas[1:] for replicas in cluster.replicas.values())
    assert f"{kept} on broker 1, which drains" in said if kept else "followers left         none" in said
    assert main(shlex.split("export plan.json --to kafka --out other --json --racks 1:a,2:b,3:c")) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["leaders_elected"] + record["replicas_copied"] == len(plan) > 0
    assert record["files"][:2] == ["STEPS.md", "00-reassign.json"]
    assert main(shlex.split("export plan.json --to kafka --out reassignment")) == 2
    assert "is not empty" in capsys.readouterr().err


def test_what_the_plan_does_not_know_is_asked_for(tmp_path):
    plain = ks.Workload(load=[2, 1], state=[1, 1], current=[0, 0], nodes=2, keys=["t-0", "t-1"], node_names=[7, 8])
    made = ks.plan(ks.KeyGroupAllocation(plain), [1, 0])
    with pytest.raises(ks.InputError, match="the key t-0 does not list its replicas"):
        kafka.write_reassignment(made, tmp_path / "out")
    now = tmp_path / "now.json"
    now.write_text(Cluster([7, 8, 9], {("t", 0): [7, 9], ("t", 1): [7, 8]}).assignment())
    kafka.write_reassignment(made, tmp_path / "out", assignment=now)
    written = json.loads((tmp_path / "out/00-reassign.json").read_text())
    assert written["partitions"] == [{"topic": "t", "partition": 0, "replicas": [8, 9], "log_dirs": ["any", "any"]}]
    now.write_text(Cluster([7, 8, 9], {("t", 0): [8, 9], ("t", 1): [7, 8]}).assignment())
    with pytest.raises(ks.InputError, match="t-0 is led by broker 8, the plan expects 7"):
        kafka.write_reassignment(made, tmp_path / "other", assignment=now)
    assert not (tmp_path / "other").exists()


def test_offsets_that_grow_are_the_load(tmp_path):
    (tmp_path / "one").write_text("orders:0:100\norders:1:7\n\n")
    (tmp_path / "two").write_text("orders:1:7\norders:0:400\n")
    found = kafka_files.read_offsets(tmp_path / "one", tmp_path / "two", 60)
    assert not found.without
    assert {str(p): value for p, value in found.loads.items()} == {"orders-0": (5.0,), "orders-1": (0.0,)}
    (tmp_path / "two").write_text("orders:0:400\norders:1:\nnew:0:5\n")
    assert [str(p) for p in kafka_files.read_offsets(tmp_path / "one", tmp_path / "two", 60).without] == [
        "new-0",
        "orders-1",
    ]
    for text, said in (("orders:0:99\norders:1:7", "falls"), ("orders:0", "is not topic"), ("x", "is not")):
        (tmp_path / "two").write_text(text)
        with pytest.raises(ks.InputError, match=said):
            kafka_files.read_offsets(tmp_path / "one", tmp_path / "two", 60)
    with pytest.raises(ks.InputError, match="seconds"):
        kafka_files.read_offsets(tmp_path / "one", tmp_path / "one", 0)
    (tmp_path / "empty").write_text("")
    with pytest.raises(ks.InputError, match="no partition in common"):
        kafka_files.read_offsets(tmp_path / "empty", tmp_path / "empty", 1)


def test_a_partition_that_every_broker_holds_moves_for_nothing(tmp_path):
    held = [
        {"partition": f"orders-{p}", "size": 50, "offsetLag": 0, "isFuture": False, "of a later release": 1}
        for p in range(2)
    ]
    brokers = [{"broker": b, "logDirs": [{"logDir": "/d", "error": None, "partitions": held[: 3 - b]}]} for b in (1, 2)]
    (tmp_path / "dirs").write_text(json.dumps({"version": 1, "brokers": brokers}))
    lists = [{"topic": "orders", "partition": p, "replicas": r} for p, r in ((0, [1, 2]), (1, [1]))]
    (tmp_path / "now").write_text(json.dumps({"version": 1, "partitions": lists}))
    w = kafka.read_workload(tmp_path / "dirs", assignment=tmp_path / "now", settled=True)
    assert w.state.tolist() == [0, 50]
    with pytest.raises(ks.InputError, match="orders-0: a reassignment may be under way"):
        kafka.read_workload(tmp_path / "dirs", assignment=tmp_path / "now")


def test_copies_are_throttled_to_the_slowest_broker(tmp_path):
    w = ks.Workload(
        load=[3.0, 1.0], state=[8.0, 8.0], current=[0, 0], nodes=2, keys=["t-0 [1]", "t-1 [1]"], node_names=[1, 2]
    )
    plan = ks.plan(ks.KeyGroupAllocation(w), [0, 1], bandwidth=[5e6, 3e6])
    kafka.write_reassignment(plan, tmp_path / "there")
    steps = (tmp_path / "there" / "STEPS.md").read_text()
    assert "--throttle 3000000" in steps
    assert "--cancel" in steps
