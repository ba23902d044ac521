"""What operators want of a plan for Kafka, on what Kafka 4.3.1 printed: factors, directories, leadership alone, topics, brokers."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka_cluster import drawn
from strangers.test_kafka_files import KAFKA4, RACKS, best, placed, read

import keyshift as ks
from keyshift.cli import main
from keyshift.engines import kafka, kafka_reassignment
from keyshift.engines.kafka_files import LogDirs, Partition

HEALTHY = {"assignment": KAFKA4 / "directory-offline" / "current.txt"}


def healthy(**given: Any) -> ks.Workload:
    return kafka.read_workload(KAFKA4 / "noise" / "log-dirs.txt", notes=[], **HEALTHY, **given)


def written(
    plan: ks.Plan, folder: Path, kind: str = "reassign", **given: Any
) -> dict[str, tuple[list[int], list[str]]]:
    """The list and the directories of each partition in the files of a plan."""
    if not folder.exists():
        kafka.write_reassignment(plan, folder, **given)
    entries = [e for f in sorted(folder.glob(f"*-{kind}.json")) for e in json.loads(f.read_text())["partitions"]]
    return {f"{e['topic']}-{e['partition']}": (e["replicas"], e["log_dirs"]) for e in entries}


def test_the_plan_changes_how_many_replicas_there_are(tmp_path):
    lists = kafka.read_assignment(HEALTHY["assignment"])
    w = healthy(replicas=True, racks=RACKS, replication={"orders": 3, "audit*": 2, "single": 2})
    assert w.node_names[-1] == "unplaced"
    plan = best(w, priorities=("draining_key_groups", "load_distance")).plan()
    plan.save(tmp_path / "plan.json")
    after = written(ks.read_plan(tmp_path / "plan.json"), tmp_path / "out", log_dirs=KAFKA4 / "noise" / "log-dirs.txt")
    back = written(plan, tmp_path / "out", "rollback")
    for p, r in lists.items():
        count = {"orders": 3, "audit-log": 2, "single": 2}.get(p.topic, len(r))
        new = after.get(str(p), (list(r), []))[0]
        assert len(set(new)) == count
        assert len({RACKS[b] for b in new}) == min(count, 2)
        assert back.get(str(p), (list(r), []))[0] == list(r)
    text = " ".join((tmp_path / "out" / "STEPS.md").read_text().split())
    assert "12 partitions with 2 replicas before and 3 after." in text
    assert "4 partitions with 3 replicas before and 2 after." in text


def test_what_goes_first_is_what_drains_then_what_shares_a_rack():
    w = healthy(replicas=True, racks=RACKS, replication={"audit-log": 2}, draining=[3], topics=["audit-log"])
    assert placed(w) == {
        "audit-log-0/0 [4,1,3]": 4, "audit-log-0/1 [4,1,3]": 1, "audit-log-1/0 [2,3,1]": 2, "audit-log-1/2 [2,3,1]": 1,
        "audit-log-2/0 [4,1,3]": 4, "audit-log-2/1 [4,1,3]": 1, "audit-log-3/0 [2,3,1]": 2, "audit-log-3/2 [2,3,1]": 1,
    }  # fmt: skip
    w = healthy(replicas=True, racks=RACKS, replication={"audit-log": 2}, topics=["audit-log"])
    assert [key for key in w.keys if key.startswith("audit-log-1")] == [
        "audit-log-1/0 [2,3,1]",
        "audit-log-1/1 [2,3,1]",
    ]


@pytest.mark.parametrize("seed", range(25))
def test_factors_change_there_and_back_on_any_cluster(seed, tmp_path):
    rng = np.random.default_rng(seed)
    cluster, sizes, racks = drawn(rng)
    (tmp_path / "dirs.txt").write_text(cluster.log_dirs(sizes))
    (tmp_path / "now.txt").write_text(cluster.assignment())
    before = {p: list(r) for p, r in cluster.replicas.items()}
    counts = {t: int(rng.integers(1, min(3, len(cluster.brokers)) + 1)) for t in {t for t, _ in before}}
    w = kafka.read_workload(
        tmp_path / "dirs.txt", assignment=tmp_path / "now.txt", replicas=True, replication=counts, racks=racks, notes=[]
    )
    goal = {p: rng.choice(sorted(cluster.brokers), counts[p[0]], replace=False).tolist() for p in sorted(before)}
    names = list(map(str, w.node_names))
    plan = ks.plan(ks.KeyGroupAllocation(w), [names.index(str(b)) for r in goal.values() for b in r])
    made = kafka.write_reassignment(plan, tmp_path / "out", log_dirs=tmp_path / "dirs.txt")
    for number in sorted(int(file.name[:2]) for file in (tmp_path / "out").glob("*-reassign.json")):
        cluster.phase(tmp_path / "out", number)
    assert cluster.replicas == goal
    assert made.copies == sum(len(set(goal[p]) - set(r)) for p, r in before.items())
    for number in sorted((int(file.name[:2]) for file in (tmp_path / "out").glob("*-rollback.json")), reverse=True):
        cluster.phase(tmp_path / "out", number, "rollback")
    assert cluster.replicas == before


def test_a_replica_without_a_place_is_named_and_not_made(tmp_path):
    w = healthy(replicas=True, replication={"single": 2}, topics=["single"])
    plan = ks.plan(ks.KeyGroupAllocation(w), w.current)
    made = kafka.write_reassignment(plan, tmp_path / "out")
    assert "3 replicas to be made: the plan has no place for them, and they are not made." in made.said
    assert not list((tmp_path / "out").glob("*-reassign.json"))


def test_directories_of_a_broker(tmp_path):
    w = healthy(directories=1)
    assert w.node_names == ("1:/var/lib/kafka/data-1/a", "1:/var/lib/kafka/data-1/b")
    plan = ks.solve(ks.KeyGroupAllocation(w), effort=2).plan()
    plan.save(tmp_path / "plan.json")
    files = {"log_dirs": KAFKA4 / "noise" / "log-dirs.txt", **HEALTHY}
    made = kafka.write_reassignment(ks.read_plan(tmp_path / "plan.json"), tmp_path / "out", **files)
    assert made.note == kafka.DIRECTORIES
    assert (made.copies, made.elections, made.between) == (0, 0, len(plan))
    assert not list((tmp_path / "out").glob("*-elect.json"))
    lists = {str(p): list(r) for p, r in kafka.read_assignment(HEALTHY["assignment"]).items()}
    after, back = written(plan, tmp_path / "out"), written(plan, tmp_path / "out", "rollback")
    assert set(after) == {w.keys[k].partition("/")[0] for k in plan.key_group}
    for p, (replicas, folders) in after.items():
        assert replicas == back[p][0] == lists[p]
        here = dict(zip(replicas, zip(folders, back[p][1], strict=True), strict=True))
        assert sorted(here.pop(1)) == ["/var/lib/kafka/data-1/a", "/var/lib/kafka/data-1/b"]
        assert {there for there, _ in here.values()} <= {"any"}
    sizes = [0.0, 0.0]
    for i, size in zip(plan.assignment, w.state, strict=True):
        sizes[i] += size
    assert abs(sizes[0] - sizes[1]) <= abs(np.bincount(w.current, w.state) @ [1, -1])
    moved_dirs = (KAFKA4 / "noise" / "log-dirs.txt").read_text().replace("data-1/a", "data-1/c")
    (tmp_path / "dirs.txt").write_text(moved_dirs)
    with pytest.raises(ks.InputError, match=r"is not in /var/lib/kafka/data-1/a of broker 1 any more: import again"):
        kafka.write_reassignment(plan, tmp_path / "other", log_dirs=tmp_path / "dirs.txt")


def test_directories_that_cannot_be_planned():
    with pytest.raises(ks.InputError, match="directories: broker 4 has 1 that can be read"):
        read("directory-offline", directories=4)
    for more in ({"replicas": True}, {"draining": [2]}, {"excluded": [2]}, {"capacities": {1: 2.0}}, {"racks": RACKS}):
        with pytest.raises(ks.InputError, match="those of one broker are planned alone"):
            healthy(directories=1, **more)
    with pytest.raises(ks.InputError, match="broker 9 is not known"):
        healthy(directories=9)


def test_copies_go_to_the_emptiest_directory_and_the_way_back_to_todays(tmp_path):
    w, _ = read("directory-offline", replicas=True, racks=RACKS)
    plan = best(w, priorities=("migrations",)).plan()
    files = {"log_dirs": KAFKA4 / "directory-offline" / "log-dirs.txt", **HEALTHY}
    describe = KAFKA4 / "directory-offline" / "topics.txt"
    after = written(plan, tmp_path / "out", describe=describe, **files)
    back = written(plan, tmp_path / "out", "rollback")
    logs = kafka.read_log_dirs(files["log_dirs"])
    for p, (replicas, folders) in after.items():
        was, homes = back[p]
        for b, folder in zip(replicas, folders, strict=True):
            assert folder == "any" if b in was else folder in logs.readable[b]
        assert "/var/lib/kafka/data-4/b" in homes  # it is offline, and the only one of broker 4 that is
        assert "any" not in homes


def test_leadership_alone_moves_among_those_in_sync():
    w, _ = read("killed", copies=False)
    assert not w.state.any()
    found = ks.solve(ks.KeyGroupAllocation(w, rules=kafka.standing_rules(w)), effort=2)
    described = {
        line.split("\t")[1] + line.split("\t")[2]: line
        for line in (KAFKA4 / "killed" / "topics.txt").read_text().splitlines()
        if "Leader" in line
    }
    for key, b in placed(w, found.assignment).items():
        p, _ = kafka.partition_of(key)
        line = described[f"Topic: {p.topic}Partition: {p.number}"]
        assert str(b) in line.split("Isr: ")[1].split("\t")[0].split(",")
    with pytest.raises(ks.InputError, match="copies are made: plan leaders alone"):
        read("killed", copies=False, replicas=True)


def test_topics_by_pattern_and_brokers_excluded(tmp_path):
    w = healthy(replicas=True, topics=["*o*", "!orders", "!audit-log"], excluded=[4])
    assert set(w.groups["topic"]) == {"my.topic-v2"}
    found = best(w)
    moved = {key: b for key, b in placed(w, found.assignment).items() if b != placed(w)[key]}
    assert moved
    assert 4 not in moved.values()
    carried = np.bincount(w.current, w.last_load, w.nodes) / w.capacity
    excluded = list(w.node_names).index(4)
    assert carried[excluded] == pytest.approx(np.delete(np.bincount(w.current, w.last_load, w.nodes), excluded).mean())
    with pytest.raises(
        ks.InputError, match=r"topics: nothing-\* fits no topic; there are __consumer_offsets, audit-log, clicks"
    ):
        healthy(topics=["nothing-*"])
    none = healthy(topics=["single"], excluded=[4])  # broker 4 leads none of it
    assert 4 not in none.node_names
    notes: list[str] = []
    files = {"describe": KAFKA4 / "killed" / "topics.txt"}
    kafka.read_workload(KAFKA4 / "killed" / "log-dirs.txt", topics=["orders"], replicas=True, notes=notes, **files)
    assert any(note.startswith("Broker 4 drains, and keeps audit-log-0, audit-log-2") for note in notes)


def test_what_drains_with_racks_gives_its_place_to_the_new_leader(tmp_path):
    w = healthy(draining=[4], racks=RACKS)
    found = ks.solve(ks.KeyGroupAllocation(w, rules=kafka.standing_rules(w)), effort=2)
    lists = kafka.read_assignment(HEALTHY["assignment"])
    after = written(found.plan(), tmp_path / "out", racks=RACKS)
    led = [p for p, r in lists.items() if r[0] == 4]
    for p in led:
        new = after[str(p)][0]
        assert new[0] != 4
        assert 4 not in new or new[0] in lists[p]  # a replica that was there before leads, and both change places
        assert len({RACKS[b] for b in new}) >= len({RACKS[b] for b in lists[p]})


def test_a_plan_that_leaves_partitions_on_fewer_racks_says_so(tmp_path):
    w = healthy(replicas=True, draining=[3, 4], racks=RACKS, topics=["clicks"])
    made = kafka.write_reassignment(best(w).plan(), tmp_path / "out", racks=RACKS)
    assert (
        "On fewer racks than before: 6 partitions, clicks-0, clicks-1, clicks-2, clicks-3, clicks-4 and 1 more."
        in made.said
    )


def test_the_options_from_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = f"--log-dirs {KAFKA4}/noise/log-dirs.txt --assignment {HEALTHY['assignment']}"
    for options, said in (
        ("--replicas --replication orders:3,audit-*:2", "Nodes that drain, and are emptied first: unplaced"),
        ("--directories 2", kafka.DIRECTORIES),
        ("--no-copies --topics !single", "Only(key_groups={'allowed': '1,2,3'}"),
        ("--replicas --topics clicks --excluded 4", "Moves(at_most=0, into={'state': 'EXCLUDED'})"),
    ):
        assert main(shlex.split(f"import kafka {files} {options} --out w")) == 0
        assert said in " ".join(capsys.readouterr().out.split())
        assert main(shlex.split("plan w --time-limit 10 --out plan.json")) == 0
        assert main(shlex.split(f"export plan.json --to kafka {files} --out out-{len(options)}")) == 0
        capsys.readouterr()
    for options, said in (
        ("--replication orders:3", "plan each replica (--replicas)"),
        ("--replicas --replication orders:0", "orders is to have 0 replicas; 1 to 4 are possible"),
        ("--replicas --replication orders:5", "orders is to have 5 replicas; 1 to 4 are possible"),
        ("--replicas --replication orders", "--replication orders: write topic and value with a colon"),
        ("--excluded x", "'x' is not a number"),
        ("--excluded 9", "excluded: broker 9 is not known"),
        ("--directories 1 --no-copies", "plan leaders alone"),
    ):
        assert main(shlex.split(f"import kafka {files} {options} --out x")) == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_the_emptiest_directory_is_that_without_what_leaves():
    """Broker 1 loses the large log of a, so that a is where the next copy goes, though b holds less today."""
    large, small, new = (Partition("t", number) for number in range(3))
    logs = LogDirs(
        (1, 2), {large: {1: 100}, small: {1: 10}, new: {2: 5}}, {large: {1: "/a"}, small: {1: "/b"}, new: {2: "/c"}},
        {1: ["/a", "/b"], 2: ["/c"]}, {}, {},
    )  # fmt: skip
    before = {large: (1,), small: (1,), new: (2,)}
    leaves = kafka_reassignment._Change(before, {}, {large: (2,), small: (1,), new: (1,)}, {})
    stays = kafka_reassignment._Change(before, {}, {large: (1,), small: (1,), new: (1,)}, {})
    assert kafka_reassignment._emptiest(leaves, logs)[new, 1] == "/a"
    assert kafka_reassignment._emptiest(stays, logs)[new, 1] == "/b"
