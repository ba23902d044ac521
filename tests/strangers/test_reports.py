"""Public reports of operators of clusters: what each wanted, its right value, and that keyshift says it.

The inputs are made anew, small, in the reporters' formats, and ids, names and kinds are as theirs. Right values come from counting by hand.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import redis

import keyshift as ks
from keyshift.cli import main
from keyshift.rules import Count, Moves

DATA = Path(__file__).parent / "data" / "reports"
FIRST_MOVES, FIRST_LOAD = ("--priorities", "migrations,load_distance"), ("--priorities", "load_distance,migrations")


class Shell:
    """A person at a shell, in a folder of their own: what the last command printed, and its exit code."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def __call__(self, *line: str, code: int = 0) -> str:
        given = [str(self.folder / part[1:]) if part[:1] == "@" else part for part in line]
        ended = main(given)
        said = self.capsys.readouterr()
        assert ended == code, said.out + said.err
        return " ".join((said.out + said.err).split())

    def read(self, report: str, *more: str) -> str:
        """What `keyshift import` says; ``name.txt`` of the options are the report's files."""
        kind = "cruise-control" if (DATA / report / "partitions.json").exists() else "kafka"
        return self(
            "import", kind, *(str(DATA / report / part) if "." in part[-5:] else part for part in more), "--out", "@w"
        )

    def solve(self, *more: str, code: int = 0) -> ks.Workload | dict:
        return json.loads(self("solve", "@w", *more, "--json", code=code))

    def moved(self, answer: dict) -> list[tuple[str, str, str]]:
        """What moves from where to where, in names."""
        w = ks.read_workload(self.folder / "w")
        names = [str(name) for name in w.node_names]
        return [
            (str(w.keys[k]), names[w.current[k]], names[i])
            for k, i in enumerate(answer["assignment"])
            if i != w.current[k]
        ]


@pytest.fixture
def shell(tmp_path, capsys):
    return Shell(tmp_path, capsys)


def test_kafka_kit_243_drains_one_node_of_two_topics(shell):
    """Broker 1003 goes; nothing else is to move. It has three replicas. The tool's warnings stand before what it prints."""
    files = ("--log-dirs", "log-dirs.txt", "--assignment", "current.txt")
    shell.read("kafka-kit-243", *files, "--replicas", "--draining", "1003")
    answer = shell.solve("--rules", "@w/rules.yaml", *FIRST_MOVES)
    assert sorted(key for key, source, _ in shell.moved(answer) if source == "1003") == ["a-1/1", "a-2/0", "b-0/0"]
    assert answer["metrics"]["migrations"] == 3


def test_kafka_kit_281_replaces_all_three_brokers(shell):
    """Eight replicas of 100 bytes move to three brokers: 300, 300, 200 about 266.67; no two replicas of a partition share one."""
    files = ("--log-dirs", "log-dirs.txt", "--assignment", "current.txt")
    shell.read("kafka-kit-281", *files, "--replicas", "--draining", "1001,1002,1003")
    answer = shell.solve("--rules", "@w/rules.yaml")
    assert answer["metrics"]["load_distance"] == pytest.approx(200 / 3)
    moved = shell.moved(answer)
    assert len(moved) == 8
    assert {target for _, _, target in moved} == {"1004", "1005", "1006"}
    assert len({(key[:-2], target) for key, _, target in moved}) == 8


def test_kafka_kit_126_grows_from_13_to_18_brokers_fairly(shell):
    """96 replicas on 18 brokers are 5 or 6 each: the five new ones need 25, and the thirteen old ones can keep the other 71."""
    shell.read("kafka-kit-126", "--log-dirs", "log-dirs.txt", "--assignment", "current.txt", "--replicas")
    rules = ("--rules", "@w/rules.yaml", "--rule", "count at_least=5 at_most=6")
    assert shell.solve(*rules, *FIRST_MOVES)["metrics"]["migrations"] == 25


def test_cmak_81_a_dead_broker_is_drained_and_the_healthy_ones_stay(shell):
    """Broker 4 does not answer, so no directory shows it, but three lists name it: those three replicas move, no other."""
    said = shell.read("cmak-81", "--log-dirs", "log-dirs.txt", "--assignment", "current.txt", "--replicas")
    assert "4" in said
    moved = shell.moved(shell.solve("--rules", "@w/rules.yaml", *FIRST_MOVES))
    assert [(key, source) for key, source, _ in moved] == [
        ("clicks-0/0", "4"),
        ("clicks-3/1", "4"),
        ("clicks-4/1", "4"),
    ]


def test_strimzi_279_the_leader_is_who_leads(shell):
    """`kafka-topics --describe`: partition 1 prefers broker 1 and is led by 2."""
    shell.read("strimzi-279", "--log-dirs", "log-dirs.txt", "--describe", "describe.txt")
    w = ks.read_workload(shell.folder / "w")
    assert [int(w.node_names[i]) for i in w.current] == [0, 2, 2]


@pytest.mark.parametrize("loads", [(), ("--loads", "loads.csv")], ids=["bytes", "loads of one topic"])
def test_kafka_operator_312_scales_in_a_broker_with_internal_topics(shell, loads):
    """Broker 3 has four replicas, three of them of internal topics: all leave, or what stays is said by name."""
    files = ("--log-dirs", "log-dirs.txt", "--assignment", "current.txt", *loads)
    said = shell.read("kafka-operator-312", *files, "--replicas", "--draining", "3")
    moved = shell.moved(shell.solve("--rules", "@w/rules.yaml", *FIRST_MOVES))
    assert {source for _, source, _ in moved} == {"3"}
    assert len(moved) == 4 or "__consumer_offsets" in said


def test_kafka_19858_adds_a_broker_with_the_least_movement(shell):
    """Replicas 3, 6, 3 and none, racks in turn: three go from broker 20 to 40, which is in its rack."""
    files = ("--log-dirs", "log-dirs.txt", "--assignment", "current.txt")
    shell.read("kafka-19858", *files, "--replicas", "--racks", "10:az-1,20:az-2,30:az-1,40:az-2")
    answer = shell.solve("--rules", "@w/rules.yaml", "--rule", "count at_least=3 at_most=3", *FIRST_MOVES)
    assert [move[1:] for move in shell.moved(answer)] == [("20", "40")] * 3


@pytest.mark.parametrize("value", ["323.78 KB", "1_158"])
def test_astraea_177_sizes_with_units_are_no_numbers(shell, value):
    (shell.folder / "loads.csv").write_text(
        (DATA / "astraea-177" / "loads.csv").read_text().replace("323.78 KB", value)
    )
    sizes = str(DATA / "astraea-177" / "log-dirs.txt")
    said = shell("import", "kafka", "--log-dirs", sizes, "--loads", "@loads.csv", "--out", "@w", code=2)
    assert f"loads.csv, line 2: value = '{value}' is not a number" in said


def test_kafkactl_196_leaders_in_turn(shell):
    """Broker 1 leads five of six, every broker has every partition: three leaders change, and nothing is copied. A table of Windows."""
    files = ("--log-dirs", "log-dirs.txt", "--assignment", "current.txt")
    shell.read("kafkactl-196", *files, "--loads", "loads.csv")
    shell("plan", "@w", *FIRST_LOAD, "--out", "@plan.json")
    said = shell(
        "export",
        "@plan.json",
        "--to",
        "kafka",
        "--assignment",
        str(DATA / "kafkactl-196" / "current.txt"),
        "--out",
        "@x",
    )
    assert "leaders elected 3 replicas copied 0" in said
    lists = [
        entry["replicas"]
        for file in shell.folder.glob("x/*reassign.json")
        for entry in json.loads(file.read_text())["partitions"]
    ]
    assert sorted(replicas[0] for replicas in lists) == [3, 5, 5]
    assert all(sorted(replicas) == [1, 3, 5] for replicas in lists)


def test_cruise_control_889_two_replicas_in_each_of_two_racks(shell):
    """Four replicas are in two racks already; three partitions have both replicas in rack A, so three replicas move."""
    shell.read("cruise-control-889", "--load", "load.json", "--partition-load", "partitions.json", "--replicas")
    answer = shell.solve("--rules", "@w/rules.yaml", *FIRST_MOVES)
    assert sorted(key[:8] for key, _, _ in shell.moved(answer)) == ["narrow-0", "narrow-1", "narrow-2"]
    assert shell.solve("--rule", "apart partition rack", code=1)["status"] == "infeasible"


def test_cruise_control_889_the_goal_as_a_rule(shell):
    """`RackAwareDistributionGoal` in words, as the table of goals has it: nothing has to move."""
    shell.read("cruise-control-889", "--load", "load.json", "--partition-load", "partitions.json", "--replicas")
    goals = ["spread by=partition rack at_most=2", "apart partition"]
    w = ks.read_workload(shell.folder / "w")
    assert ks.solve(ks.KeyGroupAllocation(w, rules=goals, priorities="migrations")).objective == 0


@pytest.mark.parametrize("words", [False, True], ids=["python", "words"])
def test_cruise_control_2184_one_broker_replaces_another(shell, words):
    """All that 1016 has, three replicas, goes to 1001, its neighbour in the rack; 1017 and 1018 get nothing."""
    shell.read("cruise-control-2184", "--load", "load.json", "--partition-load", "partitions.json", "--replicas")
    rules = ["count 0 nodes=1016", "moves 0 into=1017,1018"]
    if not words:
        rules = [Count(at_most=0, nodes=[1016]), Moves(0, into=[1017, 1018])]
    w = ks.read_workload(shell.folder / "w")
    answer = ks.solve(ks.KeyGroupAllocation(w, rules=["apart partition rack", *rules], priorities="migrations"))
    assert answer.moves[["key", "source", "target"]].astype(str).to_numpy().tolist() == [
        ["q-0/1", "1016", "1001"], ["q-1/0", "1016", "1001"], ["q-3/1", "1016", "1001"],
    ]  # fmt: skip


def test_cruise_control_1953_disks_of_several_directories_and_a_default(shell):
    """Brokers 1 and 2 have 2 x 500 MB by default, broker 3 has 2,000: 60, 20 and 10 % full. One partition of 300 MB moves: 30, 20, 25 %."""
    files = ("--load", "load.json", "--partition-load", "partitions.json", "--capacity", "capacity.json")
    shell.read("cruise-control-1953", *files, "--balance", "disk")
    answer = shell.solve(*FIRST_LOAD)
    sums = (
        np.bincount(place, [300, 300, 100, 100, 200], 3) / [1000, 1000, 2000]
        for place in itertools.product(range(3), repeat=5)
    )
    assert (
        answer["metrics"]["load_distance"]
        == pytest.approx(min(abs(used - 0.25).max() for used in sums))
        == pytest.approx(0.05)
    )
    assert shell.moved(answer) == [("t-0 [1]", "1", "3")]


def test_cruise_control_884_brokers_with_16_and_8_cores(shell):
    """Six leaders of 4 % each on the smaller broker: four belong on the larger."""
    files = ("--load", "load.json", "--partition-load", "partitions.json", "--capacity", "capacity.json")
    shell.read("cruise-control-884", *files)
    answer = shell.solve()
    assert (answer["metrics"]["load_distance"], answer["metrics"]["migrations"]) == (0, 4)


@pytest.mark.parametrize(
    ("rule", "right"),
    [("count at_least=1 at_most=2", 2), ("spread domain=supervisor at_least=3 at_most=3", 3)],
)
def test_storm_8590_a_supervisor_returns_without_work(shell, rule, right):
    """Nine tasks on slots 2, 3, 2, 2, 0, 0; on supervisors 5, 4, 0."""
    shell("import", "storm", str(DATA / "storm-8590" / "assignment.json"), "--out", "@w")
    assert shell.solve("--rule", rule, *FIRST_MOVES)["metrics"]["migrations"] == right


def test_kafka_5390_streams_tasks_of_a_heavy_subtopology(shell):
    """Tasks 1_2 and 1_4 weigh 8, five others 1. 1_2 stays, 1_4 must not go to ...12: the five meet there, and four tasks move."""
    shell("import", "kafka-streams", str(DATA / "kafka-5390" / "assignment.json"), "--out", "@w")
    process = "00000000-0000-0000-0000-0000000000{}"
    answer = shell.solve("--rule", "pinned 1_2", "--rule", f"never 1_4 {process.format(12)}", *FIRST_LOAD)
    assert answer["metrics"]["load_distance"] == 2
    assert {key: target[-2:] for key, _, target in shell.moved(answer)} == {
        "0_0": "12",
        "0_1": "12",
        "0_12": "12",
        "1_4": "13",
    }


class Masters:
    """Masters of a Redis Cluster without keys, and the slots of each, as redis-py says it; a client of any of them."""

    def __init__(self, slots: dict[str, list[list[str]]], me: str = "", **settings: object) -> None:
        self.slots, self.me = slots, me
        self.waiting: list[tuple] = []

    def __call__(self, host: str, port: int, **settings: object) -> Masters:
        return Masters(self.slots, f"{host}:{port}")

    def __enter__(self) -> Masters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass

    def pipeline(self, transaction: bool) -> Masters:
        return Masters(self.slots, self.me)

    def execute_command(self, name: str, *given: object) -> object:
        self.waiting.append((name, *given))
        if name == "CLUSTER NODES":
            return {at: {"node_id": at, "flags": "myself,master" if at == self.me else "master", "slots": spans, "migrations": []}
                    for at, spans in self.slots.items()}  # fmt: skip
        if name == "CLUSTER SLOT-STATS":
            raise redis.ResponseError("unknown subcommand")
        return 0 if name == "CLUSTER COUNTKEYSINSLOT" else []

    def execute(self, **_: object) -> list[int]:
        return [0] * len(self.waiting)


def test_redis_3001_a_master_of_weight_0_keeps_no_slot(shell, monkeypatch):
    """4,096 slots leave, the last one too, and the other three, of 4,096 each, get a third of them: 5,462, 5,461 and 5,461."""
    place = "10.240.0.{}:6379".format
    slots = {place(44): [["0", "1364"], ["5461", "6826"], ["10923", "12287"]], place(43): [["12288", "16383"]],
             place(33): [["6827", "10922"]], place(40): [["1365", "5460"]]}  # fmt: skip
    monkeypatch.setattr(redis, "Redis", Masters(slots))
    shell("import", "redis", place(40), "--draining", place(44), "--out", "@w")
    moved = shell.moved(shell.solve("--rules", "@w/rules.yaml", "--effort", "2"))
    assert {source for _, source, _ in moved} == {place(44)}
    assert sorted(Counter(target for _, _, target in moved).values()) == [1365, 1365, 1366]


def test_redis_4941_new_masters_without_keys_get_their_share(shell, monkeypatch):
    """One of five has all 16,384 slots and none has keys: four get 3,277 or one less."""
    slots = {f"[::1]:{7001 + i}": [["0", "16383"]] if i == 0 else [] for i in range(5)}
    monkeypatch.setattr(redis, "Redis", Masters(slots))
    shell("import", "redis", "redis://[::1]:7001", "--out", "@w")
    answer = shell.solve(*FIRST_LOAD, "--time-limit", "5")
    assert answer["metrics"]["load_distance"] == pytest.approx(0.8)
    assert sorted(Counter(target for _, _, target in shell.moved(answer)).values()) in (
        [3276, 3277, 3277, 3277],
        [3277] * 4,
    )


def test_kafka_5390_ids_of_processes_are_shown_whole(shell, monkeypatch):
    """Sixteen columns more than the ids need; without loads there is no mean to be a share of."""
    monkeypatch.setenv("COLUMNS", "132")
    tasks = json.loads((DATA / "kafka-5390" / "assignment.json").read_text())
    shell("import", "kafka-streams", str(DATA / "kafka-5390" / "assignment.json"), "--out", "@w")
    said = shell("solve", "@w", "--max-migrations", "1")
    assert tasks["processes"][0]["processId"] in said
    for process in tasks["processes"]:
        for task in process["active"]:
            task["load"] = 0
    (shell.folder / "idle.json").write_text(json.dumps(tasks))
    shell("import", "kafka-streams", "@idle.json", "--out", "@idle")
    assert "load distance 0 -> 0 peak load on the way 0 (mean 0)" in shell("plan", "@idle", "--out", "@idle-plan.json")
