"""The command line: answers, exit codes, JSON, and one clear sentence for every mistake."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import typer

import keyshift as ks
from keyshift.cli import application, main
from keyshift.commands.own import ProblemCommand


@pytest.fixture
def workload(tmp_path):
    w = ks.Workload(
        load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2, resources={"memory": [1, 1, 1, 1]}
    )
    ks.write_workload(w, tmp_path / "w.json")
    return tmp_path / "w.json"


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_solve_prints_json_that_check_accepts(capsys, workload, tmp_path):
    code, out, _ = run(capsys, "solve", workload, "--max-migrations", 1, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["objective"] == 1
    assert record["status"] == "optimal"
    assert record["metrics"]["migrations"] <= 1
    (tmp_path / "s.json").write_text(out)
    code, out, _ = run(capsys, "check", workload, "-a", tmp_path / "s.json", "--max-migrations=1", "--json")
    assert code == 0
    assert json.loads(out)["objective"] == record["objective"]


def test_only_the_last_windows_are_read(capsys, tmp_path):
    w = ks.Workload(load=[[9, 1, 0], [5, 2, 1], [0, 2, 6]], state=[1, 1, 1], current=[0, 1, 1], nodes=2)
    ks.write_workload(w, tmp_path / "w")
    objective = {}
    for last in ([], ["--last", 3], ["--last", 2], ["--last", 1]):
        code, out, _ = run(capsys, "solve", tmp_path / "w", "-p", "mclb", "--json", *last)
        objective[str(last)] = json.loads(out)["objective"]
        alone = ks.MCLB(ks.read_workload(tmp_path / "w", last=last[-1] if last else None))
        assert (code, objective[str(last)]) == (0, ks.solve(alone).objective)
    assert len(set(objective.values())) == 3


READERS = [
    name
    for name, command in typer.main.get_command(application()).commands.items()
    if isinstance(command, ProblemCommand) and name != "replay"
]


@pytest.mark.parametrize("line", [*READERS, "simulate --service-rate 1 --window-seconds 1", "plan --check {plan}"])
def test_every_command_that_reads_a_workload_takes_the_last_windows(capsys, workload, tmp_path, monkeypatch, line):
    from keyshift.files import workload as files

    plan = tmp_path / "plan.json"
    assert run(capsys, "plan", workload, "--max-migrations", 1, "--out", plan)[0] == 0
    (tmp_path / "a.json").write_text("[0, 0, 0, 1]")

    def asked(path, last=None):
        raise ks.InputError(f"the last {last}")

    monkeypatch.setattr(files, "read_workload", asked)
    command, *rest = line.format(plan=plan).split()
    rest += ["-a", tmp_path / "a.json"] if command == "check" else []
    code, _, err = run(capsys, command, workload, "--last", 2, *rest)
    assert (code, "the last 2" in err) == (2, True)


def test_solve_prints_a_table(capsys, workload):
    code, out, _ = run(capsys, "solve", workload, "--method", "flux", "--max-migrations", 1)
    assert code == 0
    assert "flux" in out
    assert "load distance" in out


def test_settings_and_flags_reach_method_and_problem(capsys, workload):
    code, out, _ = run(
        capsys,
        "solve",
        workload,
        "-m",
        "flux",
        "--set",
        "rounds=0",
        "--into-draining",
        "--resource-capacity",
        "{memory: 3}",
        "--json",
    )
    record = json.loads(out)
    assert code == 0
    assert record["metrics"]["migrations"] == 0


def test_the_log_says_who_found_what_and_only_when_asked(capsys, workload):
    line = ["solve", workload, "--max-migrations", 1, "--json"]
    quiet = run(capsys, *line)
    loud = run(capsys, "-vv", *line)
    assert quiet[2] == ""
    assert json.loads(loud[1])["objective"] == json.loads(quiet[1])["objective"]
    assert "solving: KeyGroupAllocation by milp" in loud[2]
    assert "objective and bound 1, 1" in loud[2]
    once = run(capsys, "-v", *line)[2].splitlines()
    assert [text.split(maxsplit=1)[1][:9] for text in once] == ["solving: ", "solving: "]
    assert run(capsys, *line)[2] == ""
    assert logging.getLogger("keyshift").level == logging.NOTSET


def test_infeasible_is_exit_code_1(capsys, workload):
    code, out, _ = run(capsys, "solve", workload, "--resource-capacity", "{memory: 1}")
    assert code == 1
    assert "all key groups use 4 of memory, all nodes together have 2" in " ".join(out.split())


def test_a_bound_alone_is_an_answer(capsys, workload):
    code, out, _ = run(capsys, "solve", workload, "-m", "lp", "--json")
    record = json.loads(out)
    assert code == 0
    assert record["assignment"] is None
    assert record["bound"] >= 0


def test_compare_shows_every_method_and_draws(capsys, workload, tmp_path):
    code, out, _ = run(capsys, "compare", workload, "--max-migrations", 1, "--plot", tmp_path / "c.png")
    assert code == 0
    for method in ks.methods(ks.KeyGroupAllocation(ks.read_workload(workload))):
        assert method.name in out
    assert (tmp_path / "c.png").stat().st_size > 10_000
    code, out, _ = run(capsys, "compare", workload, "-m", "flux", "-m", "lp", "--json")
    assert [r["method"] for r in json.loads(out)] == ["flux", "lp"]


def test_check_explains_what_is_broken(capsys, workload, tmp_path):
    (tmp_path / "a.json").write_text("[1, 1, 1, 1]")
    code, out, _ = run(capsys, "check", workload, "-a", tmp_path / "a.json", "--max-migrations", 1)
    assert code == 1
    assert "3 key groups move, the limit is 1" in out


def test_check_says_each_figure_once(capsys, workload, tmp_path):
    (tmp_path / "a.json").write_text("[0, 0, 0, 1]")
    for more in ((), ("-p", "mclb"), ("-p", "movement-within-limits", "--lower", 0, "--upper", 99)):
        _, out, _ = run(capsys, "check", workload, "-a", tmp_path / "a.json", *more)
        figures = [line.split(":")[0] for line in out.splitlines() if ":" in line]
        assert figures
        assert sorted(set(figures)) == sorted(figures)


def test_methods_lists_all(capsys):
    code, out, _ = run(capsys, "methods", "--json")
    assert code == 0
    assert {"flux", "milp", "cp-sat", "lp"} <= {r["method"] for r in json.loads(out)}
    code, out, _ = run(capsys, "methods", "-p", "key-group-allocation")
    assert code == 0
    assert "Madsen" in out


@pytest.mark.parametrize("name", ["g", "g.json"])
def test_generate_writes_a_workload(capsys, tmp_path, name):
    line = ("generate", "allocation", tmp_path / name, "--nodes", 3, "--key-groups=12", "--varies", 0.2)
    code, out, _ = run(capsys, *line)
    assert code == 0
    assert "12 key groups, 3 nodes" in out
    w = ks.read_workload(tmp_path / name)
    code, out, _ = run(capsys, *line, "--json")
    assert json.loads(out)["parameters"] == {"nodes": 3, "key_groups": 12, "varies": 0.2}
    np.testing.assert_array_equal(ks.read_workload(tmp_path / name).load, w.load)


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert (code, out.strip()) == (0, ks.__version__)


MISTAKES = {
    "no-such-file": (["solve", "nowhere.json"], "nowhere.json does not exist"),
    "no-workload": (["solve", "{tmp}"], "is not a workload: it has no workload.json"),
    "unknown-problem": (["solve", "{w}", "-p", "sudoku"], "--problem sudoku: choose one of key-group-allocation"),
    "unknown-method": (["solve", "{w}", "-m", "magic"], "no method 'magic' for key-group-allocation; choose one of"),
    "unknown-parameter": (["solve", "{w}", "--max-moves", "3"], "--max-moves: there is no such option; the problem key-group-allocation has the options --max"),
    "stray-word": (["solve", "{w}", "please"], "Got unexpected extra argument(s) (please)"),
    "negative-limit": (["solve", "{w}", "--max-migrations=-1"], "--max-migrations -1 must be at least 0"),
    "half-limit": (["solve", "{w}", "--max-migrations", "1.5"], "--max-migrations 1.5 must be a whole number"),
    "text-limit": (["solve", "{w}", "--max-migrations", "few"], "--max-migrations 'few' must be a whole number"),
    "nan-cost": (["solve", "{w}", "--max-migration-cost", ".nan"], "max_migration_cost = nan must be a finite number"),
    "bad-mean": (["solve", "{w}", "--mean", "median"], "--mean 'median' must be 'exact' or 'ceiling'"),
    "negative-alpha": (["solve", "{w}", "--alpha=-2"], "--alpha -2 must be at least 0"),
    "unknown-resource": (["solve", "{w}", "--resource-capacity", "{disk: 3}"], "resource_capacity names 'disk'; the workload has load, memory"),
    "short-capacity": (["solve", "{w}", "--resource-capacity", "{memory: [1, 2, 3]}"], "resource_capacity['memory'] has 3 entries, expected 2"),
    "negative-time": (["solve", "{w}", "-t", "-1"], "--time-limit -1 must be at least 0"),
    "negative-seed": (["solve", "{w}", "--seed", "-4"], "--seed -4 must be at least 0"),
    "text-time": (["solve", "{w}", "-t", "soon"], "Invalid value for '--time-limit'"),
    "unknown-option": (["solve", "{w}", "-m", "flux", "--set", "speed=9"], "method 'flux' has no option 'speed'; its options are rounds"),
    "no-options": (["solve", "{w}", "-m", "lp", "--set", "speed=9"], "method 'lp' has no option 'speed'; it has none"),
    "bad-setting": (["solve", "{w}", "--set", "speed"], "--set speed: write it as name=value"),
    "unreadable-value": (["solve", "{w}", "--alpha", "[1"], "--alpha [1: not a readable value"),
    "compare-unknown-method": (["compare", "{w}", "-m", "flux", "-m", "magic"], "no method 'magic'"),
    "check-without-assignment": (["check", "{w}"], "Missing option '--assignment'"),
    "check-no-file": (["check", "{w}", "-a", "nothing.json"], "nothing.json does not exist"),
    "check-no-json": (["check", "{w}", "-a", "{bad}"], "is not JSON"),
    "check-empty": (["check", "{w}", "-a", "{none}"], "holds no assignment"),
    "check-short": (["check", "{w}", "-a", "{short}"], "assignment has shape (2,), expected (4,)"),
    "check-unknown-node": (["check", "{w}", "-a", "{far}"], "assignment[3] = 9 is not a node: they are numbered 0 to 1"),
    "check-words": (["check", "{w}", "-a", "{words}"], "assignment must be an array of node numbers"),
    "methods-unknown": (["methods", "-p", "sudoku"], "--problem sudoku: choose one of"),
    "unknown-command": (["rebalance"], "No such command 'rebalance'"),
    "bad-plot": (["compare", "{w}", "-m", "flux", "--plot", "{tmp}/x.docx"], "x.docx: a figure is written as one of .png, .svg, .pdf"),
    "plot-nowhere": (["compare", "{w}", "--plot", "{tmp}/no/x.png"], "there is no folder"),
    "generate-unknown": (["generate", "chaos", "{tmp}/g"], "chaos: choose one of allocation"),
    "generate-missing": (["generate", "allocation", "{tmp}/g", "--nodes", "3"], "--key-groups is missing: the generator allocation needs it"),
    "generate-unknown-option": (["generate", "allocation", "{tmp}/g", "--size", "3"], "--size: there is no such option; the generator allocation has the options --nodes"),
    "generate-too-few": (["generate", "allocation", "{tmp}/g", "--nodes", "3", "--key-groups", "2"], "every node needs at least one key group"),
    "no-window": (["solve", "{w}", "--last", "0"], "Invalid value for '--last'"),
    "last-of-a-stream": (["solve", "{tmp}/s.parquet", "-p", "key-splitting", "--last", "3"], "last = 3: key-splitting is about a stream"),
    "negative-load": (["solve", "{negative}"], "load[0, 1] = -3 must not be negative"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_ends_in_one_clear_sentence_and_exit_code_2(capsys, workload, tmp_path, arguments, message):
    files = {"bad": "{", "none": "{}", "short": "[0, 1]", "far": "[0, 0, 0, 9]", "words": '["a"]'}
    for name, text in files.items():
        (tmp_path / f"{name}.json").write_text(text)
    negative = {"load": [1, -3], "state": [1, 1], "current": [0, 0], "nodes": 1}
    (tmp_path / "negative.json").write_text(json.dumps(negative))
    places = {"{w}": workload, "{tmp}": tmp_path} | {f"{{{n}}}": tmp_path / f"{n}.json" for n in (*files, "negative")}
    line = []
    for argument in arguments:
        for place, path in places.items():
            argument = argument.replace(place, str(path))
        line.append(argument)
    code, _, err = run(capsys, *line)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_there_are_enough_mistakes():
    assert len(MISTAKES) >= 25


def test_json_has_no_nan(capsys):
    from keyshift.commands.common import print_json

    print_json({"a": np.array([1.0, np.nan]), "b": np.float64("inf"), "c": (np.int64(3), None), "d": np.bool_(True)})
    assert json.loads(capsys.readouterr().out) == {"a": [1.0, None], "b": None, "c": [3, None], "d": True}
