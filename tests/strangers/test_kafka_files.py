"""Clusters of operators who asked in public, made anew in small, and what Kafka 4.3.1 printed: each with its right value."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.engines import cruise_control, kafka, kafka_files
from keyshift.engines.kafka_cluster import LEADERS_ASSUMED
from keyshift.files.workload import read_workload

CLUSTERS = Path(__file__).parent / "data" / "clusters"
KAFKA4 = Path(__file__).parent / "data" / "kafka4"
RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


def placed(w: ks.Workload, assignment: Any = None) -> dict[str, int]:
    nodes = w.current if assignment is None else assignment
    return {str(key): int(w.node(int(i))) for key, i in zip(w.keys, nodes, strict=True)}


def best(w: ks.Workload, **given: Any) -> ks.Solution:
    return ks.solve(ks.KeyGroupAllocation(w, rules=kafka.replica_rules(w), **given), effort=2)


def test_one_partition_on_its_way_is_a_question_and_its_answer_is_taken():
    dirs, now = CLUSTERS / "f3-dirs.txt", CLUSTERS / "f3-now.txt"
    with pytest.raises(ks.InputError, match=r"t-0: a reassignment may be under way .*--verify.*--cancel.*--settled"):
        kafka.read_workload(dirs, assignment=now)
    assert len(kafka.read_workload(dirs, assignment=now, settled=True, replicas=True, notes=[]).keys) == 7


def test_a_longer_list_is_a_question_though_all_logs_are_of_one_length(tmp_path):
    text = (CLUSTERS / "f3-dirs.txt").read_text()
    (tmp_path / "dirs.txt").write_text(text.replace('"size": 10', '"size": 70'))
    with pytest.raises(ks.InputError, match=r"t-0: a reassignment may be under way .*3 replicas, others of t have 2"):
        kafka.read_workload(tmp_path / "dirs.txt", assignment=CLUSTERS / "f3-now.txt")


def test_a_directory_that_is_offline_loses_what_it_held_first():
    notes: list[str] = []
    w = kafka.read_workload(
        CLUSTERS / "f4-offline-dir.txt", assignment=CLUSTERS / "f4-now.txt", replicas=True, notes=notes
    )
    assert "Broker 3 cannot read /data/b: replicas that cannot be seen there (t-2) leave first." in notes
    assert dict(zip(w.keys, w.state, strict=True))["t-2/1"] == 40
    found = best(w, max_migrations=1)
    assert {key for key, b in placed(w, found.assignment).items() if b != placed(w)[key]} == {"t-2/1"}


def test_a_broker_that_is_dead_drains_as_if_it_were_named():
    dead = kafka.read_workload(
        CLUSTERS / "f5-dead-dirs.txt", assignment=CLUSTERS / "f5-dead-now.json", replicas=True, notes=[]
    )
    hand = kafka.read_workload(
        CLUSTERS / "f5-by-hand-dirs.txt",
        assignment=CLUSTERS / "f5-dead-now.json",
        replicas=True,
        draining=[3],
        notes=[],
    )
    for w in (dead, hand):
        found = best(w, priorities=("migrations", "load_distance"))
        moved = {key: b for key, b in placed(w, found.assignment).items() if b != placed(w)[key]}
        assert moved == {"t-1/0": 4}
    assert dead.state.tolist() == hand.state.tolist()


@pytest.mark.parametrize("dirs", ["dirs.txt", "f6-line-before.txt", "f6-bom.txt"])
@pytest.mark.parametrize("now", ["now.txt", "f7-now-pretty.txt"])
def test_lines_marks_and_pretty_json_change_nothing(dirs, now):
    w = kafka.read_workload(CLUSTERS / dirs, CLUSTERS / "loads.csv", assignment=CLUSTERS / now, notes=[])
    assert placed(w) == {"t-0 [1,2]": 1, "t-1 [1,3]": 1, "t-2 [2,3]": 2}
    assert (w.last_load.tolist(), w.state.tolist()) == ([7, 5, 4], [70, 50, 40])


def test_a_partition_without_offsets_is_named_and_the_others_are_planned():
    notes: list[str] = []
    offsets = (CLUSTERS / "f10-before.txt", CLUSTERS / "f10-after.txt")
    w = kafka.read_workload(
        CLUSTERS / "dirs.txt", assignment=CLUSTERS / "now.txt", offsets=offsets, seconds=60, notes=notes
    )
    assert dict(zip(w.keys, w.last_load, strict=True)) == {"t-0 [1,2]": 10, "t-1 [1,3]": 1}
    assert "t-2: no two offsets, so left out; there is no leader, or the partition is too new." in notes


# Cruise Control -----------------------------------------------------------------------------------------------------


def test_capacities_as_gson_reads_them(tmp_path):
    found = cruise_control.read_capacities(CLUSTERS / "f9-capacity-int-id.json", [1, 2, 3])
    assert found["disk"] == {1: 1000, 2: 1000, 3: 1000}
    own = "{'brokerCapacities': [ # mine\n {brokerId: 3, capacity: {DISK: 5, CPU: '100', NW_IN: 1, NW_OUT: \"2\"}} // end\n]}"
    (tmp_path / "capacity.json").write_text(own)
    assert cruise_control.read_capacities(tmp_path / "capacity.json", [3])["disk"] == {3: 5}


def test_limits_of_what_is_not_balanced_hold_from_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = f"--load {CLUSTERS}/f12-load.json --partition-load {CLUSTERS}/f12-part.json --capacity {CLUSTERS}/f12-capacity.json"
    assert main(shlex.split(f"import cruise-control {given} --out w")) == 0
    assert main(shlex.split("plan w --out plan.json --json")) == 0
    plan, w = ks.read_plan("plan.json"), read_workload("w")
    assert plan.load_distance[1] == pytest.approx(0, abs=1e-9)
    on_three = [str(key) for key, i in zip(w.keys, plan.assignment, strict=True) if w.node(int(i)) == 3]
    assert [key.split("-")[0] for key in on_three] == ["small"] * 6
    capsys.readouterr()
    assert main(shlex.split("plan w --rules none --out other.json")) == 0
    assert ks.read_plan("other.json").parameters.get("rules", []) == []


def test_what_cruise_control_says_is_wrong_is_shown(tmp_path):
    (tmp_path / "load.json").write_text('{"errorMessage":"There are only 0 valid windows.\\n at x","version":1}')
    with pytest.raises(
        ks.InputError, match=r"load.json is a refusal of the server: There are only 0 valid windows\. at x"
    ):
        cruise_control.read_workload(tmp_path / "load.json", CLUSTERS / "cc-part.json")


@pytest.mark.parametrize("state", ["DEAD", "BAD_DISKS", "DEMOTED"])
def test_a_broker_that_is_not_well_drains_and_is_named(state, tmp_path):
    text = (CLUSTERS / "f19-cc-load.json").read_text().replace('"DEAD"', json.dumps(state))
    (tmp_path / "load.json").write_text(text)
    notes: list[str] = []
    w = cruise_control.read_workload(tmp_path / "load.json", CLUSTERS / "f19-cc-part.json", notes=notes)
    assert w.draining.tolist() == [False, False, True]
    assert notes == [f"{state}: broker 3; what stands there (t-2) leaves first."]


def test_the_rack_of_a_broker_is_missing(tmp_path):
    content = json.loads((CLUSTERS / "cc-load.json").read_text())
    del content["brokers"][1]["Rack"]
    (tmp_path / "load.json").write_text(json.dumps(content))
    with pytest.raises(
        ks.InputError, match=r"load\.json does not say the rack of broker 2: plan without racks by --no-racks"
    ):
        cruise_control.read_workload(tmp_path / "load.json", CLUSTERS / "cc-part.json", replicas=True)
    w = cruise_control.read_workload(tmp_path / "load.json", CLUSTERS / "cc-part.json", replicas=True, racks=False)
    assert set(w.domains) == {"state"}


# What Kafka 4.3.1 printed ---------------------------------------------------------------------------------------------


def read(case: str, *, describe: bool = True, assignment: bool = True, **given: Any) -> tuple[ks.Workload, list[str]]:
    folder, notes = KAFKA4 / case, list[str]()
    files = {"describe": folder / "topics.txt"} if describe else {}
    files |= {"assignment": folder / "current.txt"} if assignment else {}
    return kafka.read_workload(folder / "log-dirs.txt", notes=notes, **files, **given), notes


@pytest.mark.parametrize("files", [{}, {"describe": False}, {"assignment": False}])
@pytest.mark.parametrize("replicas", [False, True])
def test_what_is_in_flight_is_refused_by_name_with_the_ways_on(files, replicas):
    with pytest.raises(ks.InputError, match=r"clicks-2.* under way .*wait.*--cancel"):
        read("in-flight", replicas=replicas, **files)


def test_what_is_in_flight_by_the_list_of_reassignments(tmp_path):
    (tmp_path / "list.txt").write_text(
        "Current partition reassignments:\nclicks-2: replicas: 2,4,1,3. adding: 2,4. removing: 1,3.\n"
    )
    with pytest.raises(ks.InputError, match=r"clicks-2: a reassignment is under way .*--list says replicas: 2,4,1,3"):
        read("in-flight", describe=False, reassigning=tmp_path / "list.txt")
    (tmp_path / "list.txt").write_text("No partition reassignments found.\n")
    assert read("in-flight", describe=False, reassigning=tmp_path / "list.txt")[0].key_groups == 1


def test_loads_are_counted_where_the_leader_is_and_every_planned_leader_is_elected(tmp_path):
    w, notes = read("leaders-elsewhere")
    assert placed(w) == {"clicks-5 [3,1]": 3, "orders-8 [4,1]": 1}
    assert notes == []
    plan = ks.plan(ks.KeyGroupAllocation(w), w.current)
    kafka.write_reassignment(plan, tmp_path / "out", assignment=KAFKA4 / "leaders-elsewhere" / "current.txt")
    (entry,) = json.loads((tmp_path / "out" / "00-reassign.json").read_text())["partitions"]
    assert (entry["topic"], entry["partition"], entry["replicas"]) == ("orders", 8, [1, 4])
    assert json.loads((tmp_path / "out" / "00-elect.json").read_text())["partitions"] == [
        {"topic": "orders", "partition": 8}
    ]
    (back,) = json.loads((tmp_path / "out" / "00-rollback.json").read_text())["partitions"]
    assert back["replicas"] == [4, 1]
    assert back["log_dirs"] == ["/var/lib/kafka/data-4/a", "/var/lib/kafka/data-1/b"]
    each, _ = read("leaders-elsewhere", replicas=True)
    roles = dict(zip(each.keys, each.groups["role"], strict=True))
    assert placed(each) == {"clicks-5/0": 3, "clicks-5/1": 1, "orders-8/1": 1, "orders-8/0": 4}
    assert roles["orders-8/1"] == "leader"
    made = kafka.write_reassignment(ks.plan(ks.KeyGroupAllocation(each), each.current), tmp_path / "each")
    assert json.loads((tmp_path / "each" / "00-reassign.json").read_text())["partitions"][0]["replicas"] == [1, 4]
    assert made.copies == 0
    assert LEADERS_ASSUMED in read("leaders-elsewhere", describe=False)[1]


def test_a_drained_broker_keeps_nothing_that_the_plan_does_not_know(tmp_path):
    w, _ = read("drain-outside", draining=[4], replicas=True)
    assert "__consumer_offsets-1/0" in w.keys
    found = best(w)
    assert 4 not in placed(w, found.assignment).values()
    made = kafka.write_reassignment(found.plan(), tmp_path / "out", describe=KAFKA4 / "drain-outside" / "topics.txt")
    assert made.followers_left == {}
    leaders, _ = read("drain-outside", draining=[4])
    assert placed(leaders)["__consumer_offsets-1 [4,1]"] == 4
    _, notes = read("drain-outside", describe=False, draining=[4])
    assert (
        "Broker 4 drains, and keeps __consumer_offsets-1, in no list: --describe of all topics plans them, too."
        in notes
    )
    (tmp_path / "loads.csv").write_text("topic,partition,value\norders,10,5\nsingle,1,2\n")
    w, notes = read("drain-outside", draining=[4], loads=tmp_path / "loads.csv")
    assert dict(zip(w.keys, w.last_load, strict=True))["__consumer_offsets-1 [4,1]"] == 0
    assert any(note.startswith("No load is known for __consumer_offsets-1") for note in notes)


@pytest.mark.parametrize("describe", [True, False])
def test_a_broker_that_was_killed_is_left_by_all_that_stood_on_it(describe):
    w, notes = read("killed", describe=describe, replicas=True, racks=RACKS)
    assert any(note.startswith("Broker 4 did not answer") for note in notes)
    assert (w.domains["state"], w.draining.tolist()) == (
        ("ALIVE", "ALIVE", "ALIVE", "DEAD"),
        [False, False, False, True],
    )
    sizes = dict(zip(w.keys, w.state, strict=True))
    on_four = [key for key, b in placed(w).items() if b == 4]
    assert len(on_four) == 14
    assert all(
        sizes[key] == sizes[key.replace("/1", "/0") if key.endswith("/1") else key.replace("/0", "/1")]
        for key in on_four
    )
    assert 4 not in placed(w, best(w).assignment).values()


def test_no_place_to_go_is_said(tmp_path):
    dirs = json.loads((CLUSTERS / "f5-dead-dirs.txt").read_text())
    dirs["brokers"] = dirs["brokers"][:2]
    (tmp_path / "dirs.json").write_text(json.dumps(dirs))
    now = {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2, 3]},
            {"topic": "t", "partition": 1, "replicas": [3, 1, 2]},
        ],
    }
    dirs["brokers"][1]["logDirs"][0]["partitions"].append(
        {"partition": "t-1", "size": 1000, "offsetLag": 0, "isFuture": False}
    )
    (tmp_path / "dirs.json").write_text(json.dumps(dirs))
    (tmp_path / "now.json").write_text(json.dumps(now))
    notes: list[str] = []
    kafka.read_workload(tmp_path / "dirs.json", assignment=tmp_path / "now.json", replicas=True, notes=notes)
    assert "There are partitions of 3 replicas, and 2 brokers stay: no plan has a place for all." in notes


def test_a_directory_offline_on_kafka_4_moves_first_and_the_others_are_planned_as_ever():
    w, _ = read("directory-offline", replicas=True, racks=RACKS)
    lost = {key for key, label in zip(w.keys, w.groups["standing"], strict=True) if label == "offline-4"}
    assert {key.rpartition("/")[0] for key in lost} == {
        "audit-log-2", "clicks-4", "my.topic-v2-0", "my.topic-v2-4", "orders-0", "orders-6", "orders-10",
    }  # fmt: skip
    found = best(w, priorities=("migrations",))
    after = placed(w, found.assignment)
    assert all(after[key] != 4 for key in lost)
    assert w.key_groups == 61


def test_a_warning_before_the_first_line(tmp_path):
    (tmp_path / "now.txt").write_text((KAFKA4 / "directory-offline" / "current.txt").read_text())
    w = kafka.read_workload(KAFKA4 / "noise" / "log-dirs.txt", assignment=tmp_path / "now.txt", notes=[])
    assert w.key_groups == 30


def test_the_export_says_which_racks_get_two_replicas_or_that_it_did_not_look(tmp_path):
    w, _ = read("drain-outside", draining=[4], replicas=True)
    names = list(w.node_names)
    goal = {**placed(w), "orders-10/0": 2, "__consumer_offsets-1/0": 3}
    plan = ks.plan(ks.KeyGroupAllocation(w), [names.index(goal[key]) for key in w.keys])
    (tmp_path / "racks.txt").write_text("1:a\n2:a\n3:b\n4:b\n")
    for number, racks in enumerate((RACKS, "1:a,2:a,3:b,4:b", tmp_path / "racks.txt", str(tmp_path / "racks.txt"))):
        said = kafka.write_reassignment(plan, tmp_path / str(number), racks=racks).said
        assert said == (
            "Two replicas or more in one rack after the plan: 1 partition, orders-10 (brokers 2, 1 in a).",
            "On fewer racks than before: 1 partition, orders-10.",
        )
        assert "orders-10 (brokers 2, 1 in a)" in " ".join((tmp_path / str(number) / "STEPS.md").read_text().split())
    assert "was not looked at" in kafka.write_reassignment(plan, tmp_path / "without").said[0]


def test_leaders_only_with_racks_and_draining_is_exported(tmp_path):
    w, _ = read("drain-outside", draining=[4])
    names = list(w.node_names)
    goal = [names.index(3) if key.startswith("orders") else int(i) for key, i in zip(w.keys, w.current, strict=True)]
    made = kafka.write_reassignment(ks.plan(ks.KeyGroupAllocation(w), goal), tmp_path / "out", racks=RACKS)
    assert made.said == ("No partition that changes ends with two replicas in one rack.",)


def test_rules_of_an_import_hold_without_being_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = f"--log-dirs {CLUSTERS}/f1-dirs.txt --assignment {CLUSTERS}/f1-now.txt"
    for out in ("w", "w.json"):
        assert main(shlex.split(f"import kafka {files} --replicas --racks 1:a,2:b,3:c,4:d --out {out}")) == 0
        assert main(shlex.split(f"plan {out} --out plan.json")) == 0
        assert ks.read_plan("plan.json").parameters["rules"]
        assert main(shlex.split(f"export plan.json --to kafka --out out-{out}")) == 0
    capsys.readouterr()


DESCRIBED = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2{}\n\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2{}\n"


def dirs_of_t(folder: Path) -> Path:
    logs = [{"partition": f"t-{k}", "size": 10, "offsetLag": 0, "isFuture": False} for k in (0, 1)]
    brokers = [{"broker": b, "logDirs": [{"logDir": "/data", "error": None, "partitions": logs}]} for b in (1, 2)]
    (folder / "dirs.txt").write_text(json.dumps({"version": 1, "brokers": brokers}))
    return folder / "dirs.txt"


@pytest.mark.parametrize(
    "text",
    [
        "Topic: t\tPartitionCount: 2\n"
        + DESCRIBED.format("\tOffline: \tLiveObservers: ", "\tOffline: 1\tLiveObservers: "),
        DESCRIBED.format("", "\tOffline: 1"),
        "Topic: t\tReplicationFactor: 2\n" + DESCRIBED.format("", "").replace("Topic: t\t", ""),
    ],
    ids=["Confluent", "a field that one line has", "the topic once, above its partitions"],
)
def test_descriptions_with_other_fields_are_read(tmp_path, text):
    (tmp_path / "topics.txt").write_text(text)
    w = kafka.read_workload(dirs_of_t(tmp_path), describe=tmp_path / "topics.txt", notes=[])
    assert placed(w) == {"t-0 [1,2]": 1, "t-1 [2,1]": 2}


def test_a_field_that_only_one_line_lacks_is_a_line_cut_short(tmp_path):
    (tmp_path / "topics.txt").write_text(DESCRIBED.format("\tElr: \tLastKnownElr: ", ""))
    with pytest.raises(ks.InputError, match=r"line 2: .*is not a partition as kafka-topics --describe prints it"):
        kafka.read_workload(dirs_of_t(tmp_path), describe=tmp_path / "topics.txt", notes=[])


def test_observers_are_refused_in_an_assignment_and_at_the_export(tmp_path):
    listed = [{"topic": "t", "partition": k, "replicas": [1 + k, 2 - k], "observers": []} for k in (0, 1)]
    (tmp_path / "now.json").write_text(json.dumps({"version": 1, "partitions": listed}))
    w = kafka.read_workload(dirs_of_t(tmp_path), assignment=tmp_path / "now.json", settled=True, notes=[])
    plan = ks.plan(ks.KeyGroupAllocation(w), [1, 1])
    watched = DESCRIBED.format("\tOffline: \tLiveObservers: 2", "\tOffline: \tLiveObservers: ")
    (tmp_path / "topics.txt").write_text(watched)
    with pytest.raises(ks.InputError, match=r"^t-0: a plan would make usual replicas of their observers"):
        kafka.write_reassignment(plan, tmp_path / "out", describe=tmp_path / "topics.txt")
    listed[0]["observers"] = [2]
    (tmp_path / "now.json").write_text(json.dumps({"version": 1, "partitions": listed}))
    with pytest.raises(ks.InputError, match=r"partitions\[0\].observers = \[2\] must be empty"):
        kafka.read_workload(dirs_of_t(tmp_path), assignment=tmp_path / "now.json", settled=True, notes=[])


def test_observers_are_no_replicas_that_a_plan_may_use(tmp_path):
    (tmp_path / "topics.txt").write_text(DESCRIBED.format("\tOffline: \tObservers: 2", "\tOffline: \tObservers: "))
    with pytest.raises(ks.InputError, match=r"^t-0: a plan would make usual replicas of their observers: .*'!t'$"):
        kafka.read_workload(dirs_of_t(tmp_path), describe=tmp_path / "topics.txt", notes=[])


@pytest.mark.parametrize(
    "text",
    [
        "topic;partition;value\nt;0;5\nt;1;6\n",
        ",Topic,Partition,msg_rate\n0,t,0,5\n1,t,1,6\n",
        "bytes,rate,partition,topic\n9,5,0,t\n9,6,1,t\n",
        "size,value,topic,partition\n9,5,t,0\n9,6,t,1\n",
    ],
    ids=["semicolons", "as pandas writes it", "in another order, among others", "called value, among others"],
)
def test_loads_are_read_from_the_columns_that_are_named_so(tmp_path, text):
    (tmp_path / "loads.csv").write_text(text)
    (tmp_path / "topics.txt").write_text(DESCRIBED.format("", ""))
    w = kafka.read_workload(
        dirs_of_t(tmp_path), describe=tmp_path / "topics.txt", loads=tmp_path / "loads.csv", notes=[]
    )
    assert w.last_load.tolist() == [5, 6]


@pytest.mark.parametrize(
    "head",
    ["t,0,5", "topic,partition", "topic,partition,x,y", "topic,partition,load,rate", "topic,partition,value,Value"],
)
def test_loads_without_a_column_that_says_so_are_refused(tmp_path, head):
    (tmp_path / "loads.csv").write_text(head + "\n" + ",".join(["t", "0", "5", "6"][: head.count(",") + 1]) + "\n")
    with pytest.raises(ks.InputError, match=r"needs the columns topic and partition|which column is the load"):
        kafka_files.read_loads(tmp_path / "loads.csv")


def test_racks_are_read_from_what_kafka_broker_api_versions_prints(tmp_path):
    printed = "b{0}:9092 (id: {0} rack: {1} isFenced: false) -> (\n\tProduce(0): 0 to 12 [usable: 12],\n)\n"
    (tmp_path / "racks.txt").write_text(printed.format(1, "eu-1a") + printed.format(2, "eu-1b"))
    assert kafka_files.read_racks(tmp_path / "racks.txt").of_all([1, 2]) == {1: "eu-1a", 2: "eu-1b"}
    (tmp_path / "racks.txt").write_text(printed.format(1, "eu-1a") + printed.format(2, "null"))
    with pytest.raises(ks.InputError, match=r"racks.txt: broker 2 has no rack$"):
        kafka_files.read_racks(tmp_path / "racks.txt")
