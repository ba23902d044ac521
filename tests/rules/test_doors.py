"""Rules come in as Python, words, mappings and files; whatever cannot be meant is refused in one sentence."""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hostile import ruled
from rules.drawn import RARE, draw_rule, workload

import keyshift as ks
from keyshift import rules
from keyshift.cli import main
from keyshift.models.rules import RULES, read_rule

CONTENT = {
    "load": [6, 3, 2, 1, 4, 4], "state": [9, 2, 2, 1, 1, 1], "current": [0, 0, 0, 1, 1, 2], "nodes": 3,
    "groups": {"topic": ["a", "a", "b", "b", "a", "b"], "partition": [0, 1, 0, 1, 2, 2]},
    "domains": {"rack": ["r1", "r2", "r2"]},
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    (tmp_path / "w.json").write_text(json.dumps(CONTENT))
    return str(tmp_path / "w.json")


@pytest.mark.parametrize("name", ["rules.yaml", "rules.json"])
def test_rules_of_a_file_and_of_the_line_are_kept(path, tmp_path, capsys, name):
    listed = ["apart partition node", {"pinned": {"key_groups": [3]}}, {"rule": "count", "at_most": 3}]
    (tmp_path / name).write_text(json.dumps(listed))  # JSON is YAML
    line = ["--rules", str(tmp_path / name), "--rule", "use load 12 rack", "--rule=count at_least=1"]
    assert main(["solve", path, *line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    all_rules = [*listed, "use load 12 rack", "count at_least=1"]
    problem = ks.KeyGroupAllocation.from_path(path, rules=all_rules)
    assert problem.check(found["assignment"]).feasible
    assert found["objective"] == ks.solve(problem).objective > ks.solve(ks.KeyGroupAllocation.from_path(path)).objective


@pytest.mark.parametrize(
    ("command", "more", "code"),
    [
        ("compare", ["-m", "cp-sat", "-m", "milp"], 0),
        ("compare", ["-p", "mclb", "-t", "2"], 0),
        ("plan", [], 0),
        ("pareto", ["-p", "key-group-allocation", "--points", "2"], 0),
        ("explain", [], 0),
        ("remedies", [], 0),
        ("model", [], 0),
        ("certify", ["--out", "/dev/null"], 0),
    ],
)
def test_every_command_takes_rules(path, command, more, code):
    assert main([command, path, *more, "--rule", "pinned 3", "--rule", "apart partition"]) == code


def test_check_replay_and_study_take_rules(path, tmp_path, capsys):
    (tmp_path / "a.json").write_text(json.dumps(CONTENT["current"]))
    assert main(["check", path, "-a", str(tmp_path / "a.json"), "--rule", "apart partition"]) == 1
    assert "Apart(by='partition'): partition 0: 2 on node 0: 0, 2" in capsys.readouterr().out
    line = ["replay", path, "-p", "key-group-allocation", "-m", "milp", "--out", str(tmp_path / "r"), "--json"]
    for _ in range(2):  # the second time from the checkpoint
        assert main([*line, "--rule", "pinned topic=a"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"][0]["migrations"] <= 3
    assert main([*line, "--rule", "pinned topic=b"]) == 2
    assert (
        main(
            [
                "study",
                "madsen-allocation",
                "-m",
                "milp",
                "--rule",
                "moves 0",
                "--key-groups",
                "20",
                "--nodes",
                "4",
                "--json",
            ]
        )
        == 0
    )
    assert main(["study", "nasir-splitting", "--rule", "moves 0"]) == 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["--rule", "foo 3"], "--rule: no rule 'foo'; there are apart, count"),
        (["--rule", "apart colour"], "no column 'colour' of key groups; there is 'topic', 'partition'"),
        (["--rule", "apart partition zone"], "the workload has no domain 'zone'; it has 'node', 'rack'"),
        (["--rule", "pinned 17"], "key group '17' is not known; there is 0 to 5"),
        (["--rule"], '--rule: write it as --rule "pinned 3"'),
        (["--rules", "--rule=pinned 3"], "--rules: write it as --rules FILE"),
        (["--rules", "nowhere.yaml"], "nowhere.yaml does not exist"),
        (["-p", "key-splitting", "--rule", "pinned 3"], "the problem key-splitting takes no rules"),
    ],
)  # fmt: skip
def test_bad_rules_on_the_line_are_one_sentence(path, capsys, line, sentence):
    assert main(["solve", path, *line]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not said.out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pinned: 3", "there must be a list of rules"),
        ("- pinned: [3", "is not readable YAML"),
        ("- spread rack\n- pinned: 3\n bad", "line 3 is not readable YAML: "),
        ("- !!python/object/apply:os.system [id]", "is not readable YAML"),
        ("- foo 3", "rules[0]: no rule 'foo'"),
        ("- pinned 3\n- {rule: count}", "rules.yaml: count needs at_most or at_least"),
        ("- {rule: count, at_most: -1}", "count: at_most = -1 must be at least 0"),
        ("- {rule: count, at_mots: 1}", "count has no 'at_mots'; it has at_most, at_least, nodes"),
        ("- [pinned, 3]", "must be a rule, such as Pinned([3])"),
        ("[" * 100 + "]" * 100, "nested more than 50 deep"),
        ("- &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
            f"- &{chr(c + 1)} [{', '.join([f'*{chr(c)}'] * 9)}]" for c in range(ord("a"), ord("j"))), "stands for more than"),
        ("- pinned 3\n" * 100_000, "at most"),
    ],
)  # fmt: skip
def test_bad_files_of_rules_are_one_sentence(path, tmp_path, capsys, text, sentence):
    (tmp_path / "rules.yaml").write_text(text)
    assert main(["solve", path, "--rules", str(tmp_path / "rules.yaml")]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_help_shows_the_rules_of_a_problem_that_has_them(capsys):
    assert main(["solve", "-p", "mclb", "--help"]) == 0
    assert "apart partition rack" in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert main(["solve", "-p", "interval-migration", "--help"]) == 0
    assert "--rule" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "problem", ["interval-migration", "migration-sequence", "migration-policy", "key-splitting", "key-placement"]
)
def test_problems_that_take_no_rules_say_why(path, capsys, problem):
    reason = "hashes" if problem.startswith("key") else "interval of consecutive tasks"
    for given in (["--rule", "pinned 3"], ["--rule=apart partition rack"], ["--rules", "rules.yaml"]):
        assert main(["solve", path, "-p", problem, *given]) == 2
        said = capsys.readouterr().err
        assert "takes no rules" in said
        assert reason in said
        assert said.count("\n") == 1


def test_a_rule_comes_back_from_its_record_and_from_json():
    rng = np.random.default_rng(3)
    for _ in range(200):
        rule = draw_rule(rng, workload(rng))
        assert read_rule(rule.record()) == rule
        assert read_rule(json.loads(json.dumps(rule.record()))) == rule


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("never topic=orders rack=r1", rules.Never({"topic": "orders"}, {"rack": "r1"})),
        ("only topic=a,b,partition=3 b1,b2", rules.Only({"topic": ["a", "b"], "partition": "3"}, ["b1", "b2"])),
        ("only 3 nodes=rack=r1", rules.Only("3", {"rack": "r1"})),
        ("apart partition rack", rules.Apart(by="partition", domain="rack")),
        ("apart domain=rack key_groups=topic=a", rules.Apart({"topic": "a"}, "rack")),
        ("use load r1=30,r2=20.5 rack", rules.Use("load", {"r1": 30, "r2": 20.5}, "rack")),
        ("spread topic=a rack at_most=2", rules.Spread({"topic": "a"}, "rack", at_most=2)),
        ("moves 3 topic=a out_of=b1", rules.Moves(3, {"topic": "a"}, out_of="b1")),
        ("count 4000", rules.Count(4000)),
        ("near rack=r1 partition", rules.Near({"rack": "r1"}, "partition")),
        ("even topic rack 1", rules.Even("topic", "rack", 1)),
    ],
)
def test_words_say_a_rule(words, rule):
    assert read_rule(words) == rule


def test_some_of_no_key_groups_cannot_be_near():
    problem = ks.KeyGroupAllocation(ks.Workload(**CONTENT), rules=[rules.Near(0, key_groups=[])])
    (found,) = problem.check([0] * 6).violations
    assert found.where is None
    assert found.amount == 1
    assert ks.solve(problem).status == "infeasible"


def any_value(rng, depth=0):
    if depth > 2 or rng.random() < 0.5:
        return rng.choice(
            [None, True, 0, 1, -1, 3, 10**30, 1.5, np.inf, np.nan, "", "topic", "rack", "node", "a", "0", "é", [], {}]
        )
    if rng.random() < 0.5:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["topic", "rack", "r1", 3, None]): any_value(rng, depth + 1) for _ in range(rng.randrange(3))}


def test_whatever_a_rule_is_given_it_is_taken_or_refused():
    w, rng, taken = ks.Workload(**CONTENT), random.Random(1), 0
    for _ in range(3000):
        name = rng.choice(list(RULES))
        given = {f.name: any_value(rng) for f in fields(RULES[name]) if rng.random() < 0.7}
        try:
            problem = ks.KeyGroupAllocation(w, rules=[{"rule": name, **given}])
        except ks.InputError:
            continue
        problem.check([0] * 6)
        assert ks.KeyGroupAllocation(w, rules=[rule.record() for rule in problem.rules]).rules == problem.rules
        taken += 1
    assert taken > 100


PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.__module__.startswith("keyshift.")])
def test_every_rule_is_exported_drawn_and_in_the_docs(name):
    rule, rng = RULES[name], np.random.default_rng(1)
    assert getattr(rules, rule.__name__) is rule
    w = workload(rng)
    assert any(draw(rng, w).name == name for draw in (draw_rule, *RARE) for _ in range(500)), "tests/rules/drawn.py"
    hostile = ruled._draws(random.Random(1), list(range(4)), list(range(3)))
    assert any(given["rule"] == name for given in hostile), "tests/hostile/ruled.py"
    ((words,),) = [
        re.findall(r"`([^`]*)` \|$", line) for line in PAGE.splitlines() if line.startswith(f"| [`{rule.__name__}`]")
    ]
    assert type(read_rule(words)) is rule
    assert f"\n## {rule.__name__}\n" in PAGE
    assert f".. autoclass:: {rule.__name__}\n" in PAGE


def test_a_replay_that_scales_keeps_racks_in_step_with_nodes():
    from keyshift.replays.planner import Cluster

    w = ks.Workload(load=[1, 2, 3], state=[1, 1, 1], current=[0, 1, 2], nodes=3, domains={"rack": ["r1", "r2", "r3"]})
    cluster = Cluster.of(w)
    cluster.draining[1], cluster.place = True, [0, 0, 2]
    assert cluster.terminate_empty() == 1
    cluster.scale(ks.replays.Scaling(add=1))
    now = cluster.workload(w)
    assert now.domains == {"rack": ("r1", "r3", "new 3")}
    assert ks.KeyGroupAllocation(now, rules=["apart domain=rack key_groups=0,1"]).check([0, 2, 1]).feasible


def test_broken_rules_come_first_on_the_shell(path, capsys):
    line = [
        "--rule",
        "apart partition",
        "--max-migrations",
        "0",
        "--priorities",
        "broken_rules,load_distance",
        "--json",
    ]
    assert main(["solve", path, *line]) == 0
    first = json.loads(capsys.readouterr().out)["priorities"][0]
    problem = ks.KeyGroupAllocation.from_path(path, rules=["apart partition"])
    assert first["measure"] == "broken_rules"
    assert first["value"] == problem.lowered.excess(problem.workload.current)
    assert first["proven"]
    assert main(["solve", path, "--priorities", "load_distance,broken_rules"]) == 2
    assert "must come first" in capsys.readouterr().err
