"""Cruise Control: its samples are read, capacities too, and its proposals are valued beside ours."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.engines import cruise_control as cc
from keyshift.engines import kafka

DATA = Path(__file__).parents[1] / "data" / "engines"
LOAD, PARTITIONS = DATA / "cruise-control-load.json", DATA / "cruise-control-partition-load.json"
BROKER = {"BrokerState": "ALIVE", "Host": "h", "DiskMB": 1.0}


def cluster(folder: Path, states: list[str], records: list[tuple[list[int], float]]) -> cc.Workload:
    brokers = [{**BROKER, "Broker": b, "BrokerState": state} for b, state in enumerate(states)]
    (folder / "load.json").write_text(json.dumps({"version": 1, "hosts": [], "brokers": brokers}))
    found = [
        {"topic": "t", "partition": n, "leader": r[0], "followers": r[1:], "cpu": load, "networkInbound": 2 * load,
         "networkOutbound": 3.0, "disk": 10.0 + n, "msg_in": 0.0} for n, (r, load) in enumerate(records)]  # fmt: skip
    (folder / "partitions.json").write_text(json.dumps({"version": 1, "records": found}))
    return cc.read_workload(folder / "load.json", folder / "partitions.json")


def test_the_samples_are_read():
    w = cc.read_workload(LOAD, PARTITIONS, DATA / "cruise-control-capacity.json")
    assert (w.key_groups, w.nodes, w.node_names) == (6, 3, (0, 1, 2))
    assert w.keys[0] == "__CruiseControlMetrics-0 [2]"
    assert w.keys[-1] == "__KafkaCruiseControlPartitionMetricSamples-30 [2,0]"
    assert set(w.resources) == {"cpu", "network_in", "network_out", "disk"}
    assert w.last_load[0] == 0.08448822051286697
    assert w.state[0] == w.resources["disk"][0] == 0.0381927490234375
    assert w.capacity.tolist() == [100, 100, 100]
    assert not w.draining.any()
    by_network = cc.read_workload(LOAD, PARTITIONS, DATA / "cruise-control-capacity.json", balance="network_in")
    assert by_network.capacity.tolist() == [50_000, 10_000, 10_000]
    assert set(by_network.resources) == {"cpu", "network_in", "network_out", "disk"}


def test_capacities_of_cores_and_of_several_disks():
    cores = cc.read_capacities(DATA / "cruise-control-capacity-cores.json", [0, 1])
    assert cores["cpu"] == {0: 32, 1: 16}
    disks = cc.read_capacities(DATA / "cruise-control-capacity-jbod.json", [0, 1])
    assert disks["disk"] == {0: 500_000, 1: 250_000}


def test_dead_and_demoted_brokers_drain(tmp_path):
    states = ["ALIVE", "DEAD", "NEW", "DEMOTED", "BAD_DISKS"]
    w = cluster(tmp_path, states, [([1, 0], 4.0), ([3, 2], 2.0)])
    assert w.draining.tolist() == [False, True, False, True, True]


def test_proposals_are_valued_beside_ours(tmp_path):
    rng = np.random.default_rng(3)
    records = [([int(n % 2), 2 + int(n % 2)], float(rng.integers(1, 20))) for n in range(12)]
    w = cluster(tmp_path, ["ALIVE"] * 4, records)
    proposals = [
        {"topicPartition": "t-0", "oldLeader": 0, "oldReplicas": [0, 2], "newReplicas": [2, 0]},
        {"topicPartition": {"hash": 1, "partition": 3, "topic": "t"}, "oldLeader": 1, "oldReplicas": [3, 1], "newReplicas": [3, 0]},
        {"topicPartition": "t-5", "oldLeader": 1, "oldReplicas": [1, 3], "newReplicas": [1, 2]},
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(
        json.dumps({"version": 1, "proposals": proposals, "summary": {}, "goalSummary": []})
    )
    problem = ks.KeyGroupAllocation(w, max_migrations=2)
    theirs = cc.value(problem, cc.read_proposals(tmp_path / "p.json"))
    expected = w.current.copy()
    expected[[0, 3]] = [2, 3]
    assert w.keys.index("t-3 [1,3]") == 3
    assert theirs.assignment.tolist() == expected.tolist()
    assert (theirs.leaders, theirs.replicas) == (2, 2)
    assert theirs.report.feasible
    assert theirs.report.objective == problem.objective(expected)
    ours = ks.solve(problem)
    assert ours.objective <= theirs.report.objective
    kafka.write_reassignment(ours.plan(), tmp_path / "out")  # a plan of it is one for Kafka
    assert not cc.value(
        ks.KeyGroupAllocation(w, max_migrations=1), cc.read_proposals(tmp_path / "p.json")
    ).report.feasible


def test_from_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cluster(tmp_path, ["ALIVE"] * 3, [([0, 1], 5.0), ([0, 2], 3.0), ([1, 2], 1.0)])
    proposal = {"topicPartition": "t-1", "oldLeader": 0, "oldReplicas": [0, 2], "newReplicas": [2, 0]}
    Path("p.json").write_text(json.dumps({"proposals": [proposal]}))
    line = "import cruise-control --load load.json --partition-load partitions.json --out w"
    assert main(shlex.split(f"{line} --proposals p.json --assignment theirs.json")) == 0
    assert "change 1 leaders" in capsys.readouterr().out
    assert main(shlex.split("check w --assignment theirs.json --max-migrations 1")) == 0
    assert "load distance: 2" in capsys.readouterr().out  # 5, 1, 3 around a mean of 3
    assert main(shlex.split(f"{line} --proposals p.json")) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"oldLeader": 2}, "have t-1 led by broker 2, the workload by 0"), ({"newReplicas": [9, 0]}, "let broker 9 lead t-1"),
        ({"topicPartition": "u-1"}, "name u-1, which the workload does not have"),
    ],
)  # fmt: skip
def test_proposals_of_another_cluster_are_refused(tmp_path, change, said):
    w = cluster(tmp_path, ["ALIVE"] * 3, [([0, 1], 5.0), ([0, 2], 3.0)])
    proposal = {"topicPartition": "t-1", "oldLeader": 0, "oldReplicas": [0, 2], "newReplicas": [2, 0], **change}
    (tmp_path / "p.json").write_text(json.dumps({"proposals": [proposal]}))
    with pytest.raises(ks.InputError, match=said):
        cc.value(ks.KeyGroupAllocation(w), cc.read_proposals(tmp_path / "p.json"))
