"""Clusters whose nodes and tasks have numbers for names, and rules about them; small inputs made anew from public reports."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import keyshift as ks
from keyshift import rules
from keyshift.cli import main
from keyshift.engines import kafka, kafka_streams, redis
from keyshift.files.solution import read_solution
from keyshift.heuristics.collocation.albic import step_four
from keyshift.models.rules import RULES, read_rule
from keyshift.models.rules.rule import Selection

DATA = Path(__file__).parent / "data" / "names"
PROCESS = "00000000-0000-0000-0000-000000000001"


def four_brokers(**options):
    return kafka.read_workload(DATA / "f1-dirs.txt", assignment=DATA / "f1-now.txt", replicas=True, **options)


# Brokers 1 to 4, all partitions led by 1 --------------------------------------------------------------------------------


@pytest.mark.parametrize("broker", [1, "1", np.int64(1)])
def test_a_rule_about_broker_1_is_about_broker_1(broker):
    w = four_brokers()
    never = rules.Never({"role": "leader"}, broker)
    problem = ks.KeyGroupAllocation(w, rules=[*kafka.replica_rules(w), never], priorities=["migrations"])
    answer = ks.solve(problem)
    leads = [i for i, role in zip(answer.assignment, w.groups["role"], strict=True) if role == "leader"]
    assert 1 not in {w.node(i) for i in leads}
    assert answer.status == "optimal"
    assert (answer.assignment != w.current).sum() == 4


def test_the_same_from_files_and_the_line(tmp_path, capsys):
    line = [
        "import",
        "kafka",
        "--log-dirs",
        str(DATA / "f1-dirs.txt"),
        "--assignment",
        str(DATA / "f1-now.txt"),
        "--replicas",
    ]
    assert main([*line, "--out", str(tmp_path / "w")]) == 0
    for said in (["--rule", "never role=leader 1"], ["--rules", str(tmp_path / "more.yaml")]):
        (tmp_path / "more.yaml").write_text("- never: {key_groups: {role: leader}, nodes: [1]}\n")
        given = ["--rules", str(tmp_path / "w" / "rules.yaml"), *said, "--priorities", "migrations", "--json"]
        capsys.readouterr()
        assert main(["solve", str(tmp_path / "w"), *given]) == 0
        found = json.loads(capsys.readouterr().out)
        w = four_brokers()
        leads = {w.node(i) for i, role in zip(found["assignment"], w.groups["role"], strict=True) if role == "leader"}
        assert 1 not in leads
        assert found["objective"] == 4


def test_the_broker_with_the_highest_id_is_known():
    problem = ks.KeyGroupAllocation(four_brokers(), rules=["count 0 nodes=4"])
    assert set(np.flatnonzero(problem.scope.nodes("count", "4"))) == {3}
    with pytest.raises(ks.InputError, match="never: node '0' is not known; there is 1, 2, 3, 4"):
        ks.KeyGroupAllocation(four_brokers(), rules=["never role=leader 0"])


@pytest.mark.parametrize("option", ["--draining", "--capacities"])
@pytest.mark.parametrize("name", ["01", "+1", "1_2", "1e0", "1.0", "１", "5", "-1", ""])
def test_an_import_knows_brokers_by_their_ids_alone(tmp_path, capsys, option, name):
    line = ["import", "kafka", "--log-dirs", str(DATA / "f1-dirs.txt"), "--assignment", str(DATA / "f1-now.txt")]
    value = name if option == "--draining" else f"{name}:2"
    assert main([*line, option, value, "--out", str(tmp_path / "w")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "w").exists()


def test_brokers_drain_by_id_as_a_number_or_a_text():
    for broker in (4, "4", np.int64(4)):
        assert four_brokers(draining=[broker]).draining.tolist() == [False, False, False, True]
        assert four_brokers(capacities={broker: 2.0}).capacity.tolist() == [1, 1, 1, 2]


# Tasks of Kafka Streams, named 1_2 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["words", "yaml", "python"])
def test_exactly_task_1_2_moves(tmp_path, way):
    w = kafka_streams.read_workload(DATA / "f2-streams.json")
    file = tmp_path / "rules.yaml"
    file.write_text(f"- never: {{key_groups: 1_2, nodes: {PROCESS}}}\n")
    rule = {
        "words": f"never 1_2 {PROCESS}",
        "yaml": None,
        "python": rules.Never("1_2", PROCESS),
    }[way]
    if rule is None:
        from keyshift.commands.own import read_rules

        (rule,) = read_rules(rules=[str(file)])
    answer = ks.solve(ks.KeyGroupAllocation(w, rules=[rule], priorities=["migrations"]))
    assert answer.moves["key"].tolist() == ["1_2"]


# Addresses of Redis ------------------------------------------------------------------------------------------------------


def test_addresses_with_brackets_need_no_quotes():
    names = ["[::1]:7001", "[::1]:7002", "10.0.0.1:7001"]
    w = ks.Workload(
        load=[1, 2, 3],
        state=[1, 1, 1],
        current=[0, 0, 1],
        nodes=3,
        node_names=names,
        keys=["slot-0", "slot-1", "slot-2"],
    )
    problem = ks.KeyGroupAllocation(w, rules=["never slot-1 [::1]:7001", "count 1 nodes=[::1]:7002,10.0.0.1:7001"])
    answer = ks.solve(problem)
    assert answer.assignment[1] != 0
    shards = redis.Shards(dict.fromkeys(names), np.zeros(0))
    with pytest.raises(ks.InputError, match="is not a master"):
        shards.one("[::1]:07001")


# What two names may not be ----------------------------------------------------------------------------------------------

PLAIN = {"load": [1, 2], "state": [1, 1], "current": [0, 1], "nodes": 2}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"node_names": [1, "1"]}, r"node_names\[1\] = '1' prints like node_names\[0\]"),
        ({"keys": ["2", 2]}, r"keys\[1\] = 2 prints like keys\[0\]"),
        ({"keys": ["a", "a"]}, r"keys\[1\] = 'a' is a duplicate of keys\[0\]"),
        ({"keys": [True, "True"]}, "keys"),
        ({"groups": {1: ["a", "b"], "1": ["a", "b"]}}, "groups has '1' and 1, which print alike"),
        ({"resources": {1: [1, 2], "1": [1, 2]}}, "resources has '1' and 1, which print alike"),
        ({"draining": {1: True, "1": False}}, "draining has '1' and 1, which print alike"),
        ({"node_names": [1 << 16000, 1]}, "a number of 4817 digits names nothing"),
        ({"domains": {"rack": {0: "a"}}}, r"domains\['rack'\]\[1\] = None must be a text"),
    ],
    ids=range(9),
)
def test_names_that_print_alike_are_refused(more, sentence):
    with pytest.raises(ks.InputError, match=sentence):
        ks.Workload(**PLAIN, **more)


def test_a_selection_by_names_that_print_alike_is_refused():
    with pytest.raises(ks.InputError, match="print alike"):
        rules.Use("load", {1: 2.0, "1": 3.0})


def test_without_names_a_number_is_a_position():
    w = ks.Workload(load=[1] * 12, state=[1] * 12, current=[0] * 12, nodes=12)
    problem = ks.KeyGroupAllocation(w)
    for given in (11, "11", np.int64(11)):
        assert problem.scope.key_groups("pinned", given).tolist() == [11]
    for given in ("011", "+11", "1_1", "11.0", 11.0, "１１", 12, -1, True, None, "", "1e1", 10**30):
        with pytest.raises(ks.InputError, match="is not known"):
            rules.Pinned([given]).violations(problem, [0] * 12)


# Nodes that are new ------------------------------------------------------------------------------------------------------


def test_a_new_node_has_a_name_of_its_own():
    """Of brokers 2 to 4 the one at position 3 was called 3, as another is."""
    w = ks.Workload(load=[5, 4, 3, 3], state=[1] * 4, current=[0, 0, 1, 2], nodes=3, node_names=[2, 3, "new 1"])
    problem = ks.MovementWithinLimits(w, lower=0, upper=9, nodes_after=4)
    new = [problem.scope.names[i] for i in range(3, problem.places)]
    assert new[:1] == ["new 2"]
    assert w.node(3) == "new 2"
    for given, at in ((3, 1), ("new 1", 2), (new[0], 3)):
        rule = rules.Never(None, given)
        posed = ks.MovementWithinLimits(w, lower=0, upper=9, nodes_after=4, rules=[rule])
        assert np.flatnonzero(posed.scope.nodes("never", given)).tolist() == [at]
        words = read_rule(f"count 0 nodes='{given}'")
        assert np.flatnonzero(posed.scope.nodes("count", words.nodes)).tolist() == [at]
    moved = ks.plan(problem, [0, 3, 1, 2]).moves
    assert moved["target"].tolist() == ["new 2"]


def test_a_replay_keeps_the_names_of_nodes_that_stay():
    """After node 0 has gone, a rule about node 1 is still about node 1."""
    from keyshift.replays import Scaling
    from keyshift.replays.planner import Cluster

    for names in (None, ["b0", "b1", "b2"]):
        w = ks.Workload(load=[1, 1, 1], state=[1, 1, 1], current=[1, 1, 2], nodes=3, node_names=names)
        cluster = Cluster.of(w)
        cluster.scale(Scaling(add=1, drain=(0,)))
        assert cluster.terminate_empty() == 1
        after = cluster.workload(w)
        assert [after.node(i) for i in range(after.nodes)] == ([1, 2, 3] if names is None else ["b1", "b2", "new 1"])
        problem = ks.KeyGroupAllocation(after, rules=[rules.Pinned([0]), rules.Never(2, w.node(1))])
        assert not problem.check([0, 0, 1]).violations
        assert problem.check([0, 0, 0]).violations


def test_rules_that_a_heuristic_states_are_about_the_same_key_groups():
    rng = np.random.default_rng(2)
    traffic = np.triu(rng.integers(0, 9, (12, 12)), 1).astype(float)
    plain = {"load": np.ones(12), "state": np.ones(12), "current": np.arange(12) % 3, "nodes": 3, "traffic": traffic}
    names = {"keys": [(k + 5) % 12 for k in range(12)], "node_names": [2, 0, 1]}
    one, other = (ks.CollocatedAllocation(ks.Workload(**plain, **more), max_migrations=6) for more in ({}, names))
    posed = [step_four(problem, seed=3) for problem in (one, other)]
    assert posed[0].rules
    assert posed[0].lowered.alike.tolist() == posed[1].lowered.alike.tolist()
    closed = [p.lowered.closed for p in posed]
    assert (closed[0] is None) == (closed[1] is None)
    assert closed[0] is None or (closed[0] == closed[1]).all()


# Words -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("pinned 't-0 [1,2]'", rules.Pinned("t-0 [1,2]")),
        ('pinned "t-0 [1,2]",t-1', rules.Pinned(["t-0 [1,2]", "t-1"])),
        ("pinned it's", rules.Pinned("it's")),
        ("pinned 'it''s'", rules.Pinned("it's")),
        ("pinned ''", rules.Pinned("")),
        ("pinned 'a=b'", rules.Pinned("a=b")),
        ("pinned topic=a=b", rules.Pinned({"topic": "a=b"})),
        ("pinned topic=a,topic=b", rules.Pinned({"topic": ["a", "b"]})),
        ("pinned 'the topic'='a, b',c", rules.Pinned({"the topic": ["a, b", "c"]})),
        ("pinned 1_2", rules.Pinned("1_2")),
        ("pinned 007,1e3,1.10,+5,٣", rules.Pinned(["007", "1e3", "1.10", "+5", "٣"])),
        ("never nodes=[::1]:7001 key_groups=nodes=x", rules.Never({"nodes": "x"}, "[::1]:7001")),
        ("use load 1=4,2=0.5", rules.Use("load", {"1": 4, "2": 0.5})),
        ("count 1e3", rules.Count(1000)),
    ],
)
def test_words_stay_text_and_may_be_quoted(words, rule):
    assert read_rule(words) == rule


def test_a_file_of_rules_leaves_names_as_they_are(tmp_path):
    from keyshift.commands.own import read_rules

    (tmp_path / "rules.yaml").write_text(
        "- pinned: {key_groups: [1_2, 007, 1e3, 1.10, +5, on, 2024-01-01, '1:30', ~, 0x1f, \"null\"]}\n"
        "- {rule: never, key_groups: null, nodes: 0123}\n"
        "- near: {nodes: {rack: 01}, by: topic, at_least: 2}\n"
        '- {"rule": "never", "key_groups": null, "nodes": ["5"]}\n'
        "- {rule: use, resource: load, at_most: {1.10: 2.5, 007: 1e3}}\n"
    )
    found = read_rules(rules=[str(tmp_path / "rules.yaml")])
    assert found == [
        rules.Pinned(["1_2", "007", "1e3", "1.10", "+5", "on", "2024-01-01", "1:30", "~", "0x1f", "null"]),
        rules.Never(None, "0123"), rules.Near({"rack": "01"}, "topic", 2), rules.Never(None, ["5"]),
        rules.Use("load", {"1.10": 2.5, "007": 1000}),
    ]  # fmt: skip


def test_names_in_an_option_of_the_line_stay_text():
    from keyshift.commands.own import read_own

    names = ["007", "1.10", "on", "null", "+5", "1e3", 7]
    text = "{load: {007: 1, 1.10: 2, on: 3, null: 4, +5: 5, 1e3: 6, 7: 7}}"
    given = read_own(ks.KeyGroupAllocation, {"resource_capacity": [text]}, "the problem")
    w = ks.Workload(load=[1], state=[1], current=[0], nodes=7, node_names=names)
    assert ks.KeyGroupAllocation(w, **given).resource_capacity["load"].tolist() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("pinned 't-0 [1,2]", "a quote begins or ends within a value"),
        ("pinned 'a'b", "a quote begins or ends within a value"),
        ("count four", "count four': at_most = 'four' must be a finite number"),
        ("count 4_000", "must be a finite number"),
        ("count 1.5", "must be a whole number"),
        ("count 3 at_most=4", "nothing is left for '4'"),
    ],
)
def test_words_that_say_nothing_are_one_sentence(words, sentence):
    with pytest.raises(ks.InputError, match=sentence):
        read_rule(words)


# Numbers of rules, and rules of one's own ---------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [10**30, 18446744073709551616, 10**4000], ids=["30", "20", "4000"])
def test_numbers_that_no_array_holds_are_refused(most):
    for make in (
        lambda: rules.Near(0, at_least=most), lambda: rules.Spread(at_least=most), lambda: rules.Spread(at_most=most),
        lambda: rules.Count(most), lambda: rules.Even(slack=most), lambda: rules.Moves(most),
    ):  # fmt: skip
        with pytest.raises(ks.InputError, match="must be at most 9007199254740992"):
            make()


def test_the_largest_numbers_are_counted_with():
    w = ks.Workload(load=[1, 2], state=[1, 1], current=[0, 1], nodes=2, domains={"rack": ["a", "b"]})
    most = 2**53
    given = [rules.Near(0, at_least=most), rules.Spread(at_least=most), rules.Count(at_least=most)]
    for rule in given:
        problem = ks.KeyGroupAllocation(w, rules=[rule])
        assert problem.check([0, 1]).violations[0].amount == most - 1
        assert ks.solve(problem).status == "infeasible"
        assert ks.remedies(problem)
    loose = [rules.Count(most), rules.Moves(most), rules.Spread(at_most=most), rules.Even(slack=most)]
    assert ks.solve(ks.KeyGroupAllocation(w, rules=loose)).status == "optimal"


def test_a_number_of_many_digits_on_the_line_is_bad_input(tmp_path, capsys):
    (tmp_path / "w.json").write_text(json.dumps(PLAIN))
    for words in (
        "count 18446744073709551616",
        "near 0 at_least=1" + "0" * 30,
        "spread at_least=1e30",
        "use load 1e400",
    ):
        assert main(["solve", str(tmp_path / "w.json"), "--rule", words]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@rules.register_rule
@dataclass(frozen=True)
class Quiet(rules.Rule):
    """A rule of one's own: some key groups stay where they are."""

    name: ClassVar[str] = "quiet_test_rule"
    words: ClassVar[tuple[str, ...]] = ("key_groups",)
    one_of: ClassVar[tuple[str, ...]] = ("key_groups",)
    key_groups: Selection = None
    strictly: bool = True

    def broken(self, scope, assignment):
        yield from rules.Pinned(self.key_groups).broken(scope, assignment)

    def forms(self, scope):
        yield from rules.Pinned(self.key_groups).forms(scope)


def test_a_rule_of_ones_own_is_read_saved_and_pickled(tmp_path):
    w = ks.Workload(load=[3, 2, 1], state=[1, 1, 1], current=[0, 0, 0], nodes=2, keys=["1_2", "12", "2"])
    assert RULES["quiet_test_rule"] is Quiet
    problem = ks.KeyGroupAllocation(w, rules=["quiet_test_rule 1_2 strictly=false"])
    assert problem.rules == (Quiet("1_2", strictly=False),)
    answer = ks.solve(problem)
    assert answer.assignment[0] == 0
    assert pickle.loads(pickle.dumps(problem)).rules == problem.rules
    assert pickle.loads(pickle.dumps(answer)).problem.rules == problem.rules
    answer.save(tmp_path / "s.json")
    assert read_solution(tmp_path / "s.json").problem.rules == problem.rules
    script = "import sys; from keyshift.files.solution import read_solution; read_solution(sys.argv[1])"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "s.json"], capture_output=True, text=True, check=False
    )
    assert "no rule 'quiet_test_rule'" in elsewhere.stderr
    assert "those whose module is imported" in elsewhere.stderr


def test_two_rules_may_not_have_one_name():
    with pytest.raises(ks.InputError, match="there is a rule 'count' already, Count"):
        rules.register_rule(type("Another", (rules.Count,), {}))


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("count", "count must be a frozen dataclass under Rule"),
        (dict, "dict must be a frozen dataclass under Rule"),
        (rules.Rule, "Rule must be a frozen dataclass under Rule"),
        (type("Odd", (rules.Count,), {"name": "one two"}), "Odd must be a frozen dataclass under Rule, with a name"),
        (
            type("Lost", (rules.Count,), {"name": "lost", "words": ("most",)}),
            "Lost has no field 'most', which it names",
        ),
    ],
)
def test_what_is_no_rule_is_not_registered(rule, why):
    before = dict(RULES)
    with pytest.raises(ks.InputError, match=why):
        rules.register_rule(rule)
    assert before == RULES


# Numbers in what a plan's key groups are called ---------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["slot-007", "slot-１", "slot-+1", "slot-1_2", "slot-16384", "slot-"])
def test_a_slot_of_redis_is_called_by_its_number_alone(label):
    names = ["a:1", "b:1"]
    w = ks.Workload(load=[1], state=[1], current=[0], nodes=2, keys=[label], node_names=names)
    with pytest.raises(ks.InputError, match="is not a slot"):
        redis.slots_of(ks.plan(ks.KeyGroupAllocation(w), [1]))


@pytest.mark.parametrize(("text", "sentence"), [("t-007", "is not a partition"), ("t-１", "is not a partition")])
def test_a_partition_is_called_by_its_number_alone(text, sentence):
    with pytest.raises(ks.InputError, match=sentence):
        kafka.partition_of(text)


@pytest.mark.parametrize("said", ["02", "+2", "2_", "2.0", "２"])
def test_where_nothing_has_a_name_a_position_is_said_as_it_prints(said):
    w = ks.Workload(load=[1, 1, 1], state=[1, 1, 1], current=[0, 1, 2], nodes=3)
    for words in (f"never 0 {said}", f"never {said} 0"):
        with pytest.raises(ks.InputError, match="is not known"):
            ks.KeyGroupAllocation(w, rules=[words])
    assert ks.KeyGroupAllocation(w, rules=["never 0 2"]).rules == ks.KeyGroupAllocation(w, rules=["never 0 '2'"]).rules
