"""Replicas as key groups: read, kept apart by rules, and written so that a cluster that obeys is where the plan says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_cluster import Cluster, drawn

import keyshift as ks
from keyshift.cli import main
from keyshift.engines import cruise_control as cc
from keyshift.engines import kafka
from keyshift.rules import Apart, Never, Spread


def read(folder: Path, cluster: Cluster, sizes: dict[tuple[str, int], int], **given) -> ks.Workload:
    (folder / "dirs.txt").write_text(cluster.log_dirs(sizes))
    (folder / "now.txt").write_text(cluster.assignment())
    return kafka.read_workload(folder / "dirs.txt", assignment=folder / "now.txt", replicas=True, settled=True, **given)


def test_a_leader_carries_what_goes_out_and_a_follower_what_comes_in(tmp_path):
    cluster = Cluster([1, 2, 3], {("t", 0): [1, 2, 3], ("t", 1): [2, 1]})
    (tmp_path / "loads.csv").write_text("topic,partition,in,out\nt,0,5,7\nt,1,2,0\n")
    racks = {1: "a", 2: "b", 3: "c"}
    w = read(tmp_path, cluster, {("t", 0): 50, ("t", 1): 20}, loads=tmp_path / "loads.csv", racks=racks)
    assert w.keys == ("t-0/0", "t-0/1", "t-0/2", "t-1/0", "t-1/1")
    assert w.current.tolist() == [0, 1, 2, 1, 0]
    assert w.resources["network_in"].tolist() == [5, 5, 5, 2, 2]
    assert w.resources["network_out"].tolist() == [17, 0, 0, 2, 0]
    assert w.last_load.tolist() == [22, 5, 5, 4, 2]
    assert w.state.tolist() == w.resources["disk"].tolist() == [50, 50, 50, 20, 20]
    assert w.groups["role"] == ("leader", "follower", "follower", "leader", "follower")
    assert (w.groups["topic"], w.domains["rack"]) == (("t",) * 5, ("a", "b", "c"))
    assert kafka.replica_rules(w) == [Apart(by="partition", domain="rack")]
    (tmp_path / "loads.csv").write_text("topic,partition,value\nt,0,9\nt,1,8\n")
    w = read(tmp_path, cluster, {("t", 0): 50, ("t", 1): 20}, loads=tmp_path / "loads.csv")
    assert w.last_load.tolist() == [9, 0, 0, 8, 0]
    assert read(tmp_path, cluster, {("t", 0): 50, ("t", 1): 20}).last_load.tolist() == w.state.tolist()


def test_rules_where_racks_are_fewer_than_replicas(tmp_path):
    cluster = Cluster([1, 2, 3, 4, 5], {("t", 0): [1, 2, 3], ("t", 1): [2, 5], ("t", 2): [4]})
    sizes = {("t", n): 1 for n in range(3)}
    w = read(tmp_path, cluster, sizes, racks=dict(zip([1, 2, 3, 4, 5], "aabbc", strict=True)), draining=[5])
    assert kafka.replica_rules(w) == [  # rack c has none that stays
        Apart(by="partition"), Apart({"replicas": (2,)}, "rack", "partition"),
        Spread({"replicas": 3}, "rack", at_least=1, at_most=2, by="partition"), Never(None, ("5",)),
    ]  # fmt: skip
    best = ks.solve(ks.KeyGroupAllocation(w, rules=kafka.replica_rules(w)))
    lists = [best.assignment[:3].tolist(), best.assignment[3:5].tolist()]
    racks = [sorted("aabbc"[i] for i in nodes) for nodes in lists]
    assert racks[0] in (["a", "a", "b"], ["a", "b", "b"])
    assert racks[1] == ["a", "b"]
    assert kafka.replica_rules(read(tmp_path, cluster, sizes)) == [Apart(by="partition")]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), phase_moves=st.integers(1, 5), again=st.booleans())
def test_the_cluster_is_where_the_plan_says_and_back(seed, phase_moves, again, tmp_path_factory):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("replicas")
    cluster, sizes, _ = drawn(rng)
    w = read(folder, cluster, sizes)
    before = {p: list(r) for p, r in cluster.replicas.items()}
    goal = {p: rng.choice(sorted(cluster.brokers), len(r), replace=False).tolist() for p, r in sorted(before.items())}
    brokers = list(w.node_names)
    problem = ks.KeyGroupAllocation(w, rules=kafka.replica_rules(w))
    made = ks.plan(problem, [brokers.index(b) for r in goal.values() for b in r], phase_moves=phase_moves)
    made.save(folder / "plan.json")
    found = kafka.write_reassignment(
        ks.read_plan(folder / "plan.json"), folder / "out", assignment=folder / "now.txt" if again else None
    )
    phases = sorted(int(file.name[:2]) for file in (folder / "out").glob("*-reassign.json"))
    copied = 0
    for number in phases:
        was = {p: set(r) for p, r in cluster.replicas.items()}
        cluster.phase(folder / "out", number)
        copied += sum(len(set(r) - was[p]) for p, r in cluster.replicas.items())
    assert cluster.replicas == goal
    assert cluster.leader == {p: r[0] for p, r in goal.items()}
    assert copied == found.copies == sum(len(set(goal[p]) - set(before[p])) for p in goal)  # nothing twice
    assert found.state_copied == sum(len(set(goal[p]) - set(before[p])) * sizes[p] for p in goal)
    for number in reversed(phases):
        cluster.phase(folder / "out", number, "rollback")
    assert cluster.replicas == before
    assert cluster.leader == {p: r[0] for p, r in before.items()}


def test_leader_and_follower_change_places_without_a_copy(tmp_path):
    cluster = Cluster([1, 2], {("t", 0): [1, 2], ("t", 1): [1, 2]})
    (tmp_path / "loads.csv").write_text("topic,partition,in,out\nt,0,1,8\nt,1,1,8\n")
    w = read(tmp_path, cluster, {("t", 0): 5, ("t", 1): 5}, loads=tmp_path / "loads.csv")
    best = ks.solve(ks.KeyGroupAllocation(w, rules=kafka.replica_rules(w), max_migrations=2))
    assert best.objective == 0
    found = kafka.write_reassignment(best.plan(phase_moves=1), tmp_path / "out")
    assert (found.elections, found.copies, found.state_copied) == (1, 0, 0.0)
    assert [file.name for file in found.files[1:]] == ["00-reassign.json", "00-elect.json", "00-rollback.json"]
    cluster.phase(tmp_path / "out", 0)
    assert sorted(cluster.leader.values()) == [1, 2]


def test_what_is_no_plan_of_replicas_is_refused(tmp_path):
    cluster = Cluster([1, 2, 3], {("t", 0): [1, 2], ("t", 1): [2, 3]})
    w = read(tmp_path, cluster, {("t", 0): 5, ("t", 1): 5})
    made = ks.plan(ks.KeyGroupAllocation(w), [2, 2, 1, 2])
    with pytest.raises(ks.InputError, match="leads two replicas of t-0 to one broker: solve with rules"):
        kafka.write_reassignment(made, tmp_path / "out")
    made = ks.plan(ks.KeyGroupAllocation(w), [2, 1, 1, 2])
    with pytest.raises(ks.InputError, match="racks does not name broker 3, which t-0 needs"):
        kafka.write_reassignment(made, tmp_path / "out", racks={1: "a"})
    (tmp_path / "later.txt").write_text(Cluster([1, 2, 3], {("t", 0): [2, 1], ("t", 1): [2, 3]}).assignment())
    with pytest.raises(ks.InputError, match="t-0 is on 2, 1 now, the plan was made for 1, 2: import again"):
        kafka.write_reassignment(made, tmp_path / "out", assignment=tmp_path / "later.txt")
    with pytest.raises(ks.InputError, match="racks: broker 2 is missing"):
        read(tmp_path, cluster, {("t", 0): 5, ("t", 1): 5}, racks={1: "a", 3: "b"})
    for keys, said in (
        (["t-0/0", "t-0/2"], "not numbered from 0 on: 0, 2"),
        (["t-0/0", "t-1"], "'t-1' is not a replica"),
    ):
        other = ks.Workload(load=[1, 1], state=[1, 1], current=[0, 0], nodes=2, keys=keys, node_names=[1, 2])
        with pytest.raises(ks.InputError, match=said):
            kafka.write_reassignment(ks.plan(ks.KeyGroupAllocation(other), [1, 0]), tmp_path / "out")
    with pytest.raises(ks.InputError, match="read it with replicas=True"):
        kafka.replica_rules(other)


def test_cruise_control_measures_leaders_and_tells_followers_from_them(tmp_path):
    states = ["ALIVE", "DEAD", "DEMOTED", "ALIVE"]
    brokers = [{"Broker": b, "BrokerState": s, "Rack": "abab"[b]} for b, s in enumerate(states)]
    (tmp_path / "load.json").write_text(json.dumps({"brokers": brokers}))
    records = [
        {"topic": "t", "partition": n, "leader": 2 * n, "followers": [2 * n + 1], "cpu": load, "networkInbound": 2 * load,
         "networkOutbound": 3.0, "disk": 10.0} for n, load in enumerate((4.0, 2.0))]  # fmt: skip
    (tmp_path / "partitions.json").write_text(json.dumps({"records": records}))
    w = cc.read_workload(tmp_path / "load.json", tmp_path / "partitions.json", replicas=True)
    assert w.keys == ("t-0/0", "t-0/1", "t-1/0", "t-1/1")
    # in 8 and 4, out 3: of 0.7 in + 0.15 out, a follower has 0.15 in
    np.testing.assert_allclose(w.last_load, [4, 4 * 1.2 / 6.05, 2, 2 * 0.6 / 3.25])
    assert w.resources["network_out"].tolist() == [3, 0, 3, 0]
    assert w.resources["network_in"].tolist() == [8, 8, 4, 4]
    assert w.draining.tolist() == [False, True, False, False]
    rules = kafka.replica_rules(w)
    assert [rule.name for rule in rules] == ["apart", "never", "never"]
    best = ks.solve(ks.KeyGroupAllocation(w, rules=rules))
    assert best.status == "optimal"
    roles = np.array(w.groups["role"])
    assert 1 not in best.assignment
    assert 2 not in best.assignment[roles == "leader"]
    proposal = {"topicPartition": "t-0", "oldLeader": 0, "oldReplicas": [0, 1], "newReplicas": [3, 0]}
    (tmp_path / "p.json").write_text(json.dumps({"proposals": [proposal]}))
    theirs = cc.value(ks.KeyGroupAllocation(w), cc.read_proposals(tmp_path / "p.json"))
    assert theirs.assignment.tolist() == [3, 0, 2, 3]
    assert (theirs.leaders, theirs.replicas) == (1, 1)
    for change, said in (
        ({"oldReplicas": [0, 3]}, "have t-0 on brokers"), ({"newReplicas": [3]}, "1 replicas, it has 2"),
        ({"newReplicas": [9, 0]}, "t-0 to broker 9"),
    ):  # fmt: skip
        (tmp_path / "p.json").write_text(json.dumps({"proposals": [proposal | change]}))
        with pytest.raises(ks.InputError, match=said):
            cc.assignment_of(w, cc.read_proposals(tmp_path / "p.json"))


def test_from_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cluster = Cluster([1, 2, 3, 4], {("t", n): [1, 2 + n % 2] for n in range(6)})
    Path("log-dirs.txt").write_text(cluster.log_dirs({("t", n): 100 + n for n in range(6)}))
    Path("now.txt").write_text(cluster.assignment())
    Path("loads.csv").write_text("topic,partition,in,out\n" + "".join(f"t,{n},{n + 1},{2 * n}\n" for n in range(6)))
    Path("racks.txt").write_text("1:a\n2:b\n3:a\n4:b\n")
    line = "import kafka --log-dirs log-dirs.txt --loads loads.csv --assignment now.txt --replicas --racks"
    assert main(shlex.split(f"{line} racks.txt --out w")) == 0
    assert "Rules, for --rules w/rules.yaml: Apart(domain='rack', by='partition')" in re.sub(
        r"\s+", " ", capsys.readouterr().out
    )
    assert main(shlex.split(f"{line} 1:a,2:b,3:a,4:b --out w.json --json")) == 0
    assert json.loads(capsys.readouterr().out)["note"] == kafka.ALL_REPLICAS
    assert Path("w.rules.yaml").read_text() == Path("w/rules.yaml").read_text()
    assert main(shlex.split("plan w --rules w/rules.yaml --out plan.json")) == 0
    assert main(shlex.split("export plan.json --to kafka --assignment now.txt --out out")) == 0
    assert kafka.ALL_REPLICAS in capsys.readouterr().out
    cluster.phase(Path("out"), 0)
    assert all(
        {1: "a", 2: "b", 3: "a", 4: "b"}[r[0]] != {1: "a", 2: "b", 3: "a", 4: "b"}[r[1]]
        for r in cluster.replicas.values()
    )
    assert main(shlex.split("import kafka --log-dirs log-dirs.txt --replicas --racks :a --out x")) == 2
    assert "--racks :a: write broker and value" in capsys.readouterr().err  # not the picture that Rich has for :a:
    assert main(shlex.split(f"{line} 1:a,2:b,3:a --out x")) == 2
    assert "--racks: broker 4 is missing; without racks" in " ".join(capsys.readouterr().err.split())
