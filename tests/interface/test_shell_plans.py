"""Plans in the shell: what is printed, what is written, and that nothing is cut in a terminal of 80 columns."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import keyshift as ks
from keyshift.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    w = ks.Workload(
        load=rng.uniform(1, 5, 60), state=rng.uniform(90, 110, 60), current=rng.integers(0, 6, 60), nodes=6,
        home=rng.integers(0, 6, 60), traffic=rng.integers(0, 3, (60, 60)),
    )  # fmt: skip
    ks.write_workload(w, tmp_path / "w")
    few = {name: getattr(w, name)[..., :12] for name in ("load", "state", "current", "home")}
    ks.write_workload(ks.Workload(**few, nodes=6), tmp_path / "few")  # for limits that are relaxed until none is left
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(capsys, line: str, expected: int = 0) -> str:
    code = main(shlex.split(line))
    out, err = capsys.readouterr()
    assert code == expected, out + err
    return out + err


def test_solve_prints_figures_and_moves(folder, capsys):
    said = shell(capsys, "solve w --method flux --max-migrations 25")
    assert re.search(r"load distance +[\d.]+ \([\d.]+ % of the mean\)", said)
    assert re.search(r"before +[\d.]+ \([\d.]+ % of the mean\)", said)
    moves = json.loads(shell(capsys, "solve w --method flux --max-migrations 25 --json"))["metrics"]["migrations"]
    rows = [line for line in said.splitlines() if re.match(r"\d+ +\d+ +\d+ +[\d.]+", line)]
    assert len(rows) == min(moves, 20)
    everything = shell(capsys, "solve w --method flux --max-migrations 25 --all")
    assert len([line for line in everything.splitlines() if re.match(r"\d+ +\d+ +\d+ +[\d.]+", line)]) == moves


def test_zero_is_printed_as_0(folder, capsys):
    ks.write_workload(ks.Workload(load=[0.1, 0.2, 0.3], state=[1, 1, 1], current=[0, 0, 1], nodes=2), folder / "level")
    said = shell(capsys, "solve level")
    assert re.search(r"load distance +0 \(0 % of the mean\)", said)
    assert "e-1" not in said


def test_a_plan_from_the_shell(folder, capsys):
    shell(
        capsys,
        "plan w --method flux --max-migrations 10 --bandwidth 5 --phase-moves 4 --out plan.json --report plan.html",
    )
    plan = ks.read_plan("plan.json")
    assert plan.violations() == []
    assert max(len(p.moves) for p in plan.phases) <= 10
    assert "Schedule" in (folder / "plan.html").read_text()
    assert "was made for this workload" in shell(capsys, "plan w --check plan.json")
    w = ks.read_workload("w")
    ks.write_workload(w.replace(state=w.state * 2), folder / "later")
    assert "the plan was made for another workload: the state of key group" in shell(
        capsys, "plan later --check plan.json", 2
    )
    shown = json.loads(shell(capsys, "plan w --method flux --max-migrations 10 --bandwidth 5 --phase-moves 4 --json"))
    assert shown == plan.as_record()
    shell(
        capsys,
        "plan w --method potc --max-migrations 6 --out other.json --min-gain 0.001 --parallel 2 --max-on-the-way 40",
    )
    said = shell(capsys, "diff plan.json other.json --report both.html")
    assert "state moved" in said
    assert "Two plans side by side" in (folder / "both.html").read_text()
    assert json.loads(shell(capsys, "diff plan.json other.json --json"))["counts"]["same"] >= 0
    shell(capsys, "solve w --method flux --max-migrations 3 --out three.json")
    assert len(ks.read_plan("three.json")) <= 3


def test_a_saved_solution_is_planned(folder, capsys):
    ks.solve(ks.KeyGroupAllocation(ks.read_workload("w"), max_migrations=4), "flux").save("s.json")
    assert "4 in 1 phase" in shell(capsys, "plan w --solution s.json --max-migrations 4")
    assert "the assignment breaks a rule here" in shell(capsys, "plan w --solution s.json --max-migrations 2", 2)


def test_explain_and_remedies(folder, capsys):
    said = shell(capsys, "explain few --max-migrations 2 --time-limit 1 --min-gain 100")
    assert "Doing nothing leaves" in said
    assert "max_migrations" in said
    assert "moves dropped" in said
    assert "no limit has to be relaxed" in shell(capsys, "remedies few --max-migrations 2 -t 1")
    found = json.loads(shell(capsys, "remedies few -p mixed-routing --theta-max 0.05 --max-table-size 1 -t 2 --json"))
    assert {r["limit"] for r in found} == {"theta_max", "max_table_size", "nodes"}
    assert "enough" in shell(capsys, "remedies few -p mixed-routing --theta-max 0.05 --max-table-size 1 -t 2")


def test_no_plan_is_said_and_no_file_left(folder, capsys):
    # A bound alone holds nothing to carry out.
    assert "`keyshift remedies` says what" in shell(capsys, "plan w --method lp --out p.json", 1)
    assert not (folder / "p.json").exists()
    assert "breaks" not in shell(
        capsys, "solve few --repair -p mixed-routing --theta-max 0.0001 --max-table-size 1 -t 2"
    )


@pytest.mark.parametrize(
    "problem", ["mixed-routing", "mclb", "collocated-allocation", "migration-policy", "key-splitting"]
)
def test_help_lists_the_options_of_a_problem(capsys, problem):
    from dataclasses import fields

    from keyshift.catalogue import FORMULATIONS

    for line in (f"solve -p {problem} --help", f"plan --help --problem={problem}"):
        said = shell(capsys, line)
        assert f"Options of {problem}" in said
        for item in [f for f in fields(FORMULATIONS[problem].problem_class) if f.init][1:]:
            assert f"--{item.name.replace('_', '-')}" in said
    assert "Options of key-group-allocation" in shell(capsys, "solve --help")


COMMANDS = """
import json, sys
from keyshift.cli import main
for line in json.loads(sys.argv[1]):
    assert main(line) == 0
    print("END OF A COMMAND", flush=True)
"""


def terminal(folder, lines: list[str], columns: int = 80) -> list[list[str]]:
    """The lines that a terminal of this many columns shows, of one command after the other."""
    here, there = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "50", "TERM": "xterm"}
    run = subprocess.Popen(
        [sys.executable, "-c", COMMANDS, json.dumps([shlex.split(line) for line in lines])],
        stdout=there,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
    )
    os.close(there)
    read = b""
    while True:
        try:
            part = os.read(here, 4096)
        except OSError:  # the other end has closed
            break
        if not part:
            break
        read += part
    os.close(here)
    assert run.wait() == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read.decode()).replace("\r", "")
    return [said.splitlines() for said in shown.split("END OF A COMMAND\n")[:-1]]


def test_nothing_is_cut_in_a_terminal_of_80_columns(folder):
    lines = [
        "solve w --method flux --max-migrations 25",
        "compare w --method flux --method potc --method lp --max-migrations 10",
        "compare w -p mclb --method elb --method clb-moment --method combinatorial",
        "compare w -p mixed-routing --method mixed-bf --method llfd --theta-max 0.5",
        "plan w --method flux --max-migrations 10 --bandwidth 5 --out p.json",
        "plan w --method potc --max-migrations 12 --bandwidth 5 --out q.json",
        "diff p.json q.json",
        "explain w --method flux --max-migrations 3 --no-marginals",
    ]
    for line, shown in zip(lines, terminal(folder, lines), strict=True):
        assert shown, line
        assert max(map(len, shown)) <= 80, line
        assert not any("…" in row for row in shown), line
        rows = [row for row in shown if re.match(r"(flux|potc|lp|elb|clb-moment|combinatorial|mixed-bf|llfd)\s", row)]
        assert len(rows) == (line.count("--method") if line.startswith("compare") else 0), line  # no row is folded


def test_a_simulation_from_the_shell(folder, capsys):
    shell(capsys, "plan w --method flux --max-migrations 10 --bandwidth 50 --out plan.json")
    line = "simulate w --service-rate 60 --window-seconds 3 --arrivals even"
    still, moving = (json.loads(shell(capsys, f"{line} {more} --json")) for more in ("", "--plan plan.json --at 1"))
    assert still["paused"] == 0 < moving["paused"]
    assert moving["latency_max"] > still["latency_max"]
    assert shell(capsys, f"{line} --plan plan.json --pause all").startswith("simulated (events), not measured: ")
    said = shell(capsys, f"{line} --pause some", 2)
    assert "--pause 'some' must be one of 'keys', 'nodes', 'all'" in said
