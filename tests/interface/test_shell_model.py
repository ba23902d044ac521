"""keyshift model: what it prints, what it writes, and what it refuses in one sentence."""

from __future__ import annotations

import json
import shlex

import highspy
import pytest

import keyshift as ks
from keyshift.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    ks.write_workload(w, tmp_path / "w.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(capsys, line: str, expected: int = 0) -> str:
    code = main(shlex.split(line))
    out, err = capsys.readouterr()
    assert code == expected, out + err
    return out + err


def test_a_model_is_printed_as_algebra_in_80_columns(folder, capsys):
    for kind in ("pyomo", "cp-sat"):
        said = shell(capsys, f"model w.json --max-migrations 1 --kind {kind} --print")
        assert said.startswith("minimise\n")
        assert "upper_load[n1]" in said
        assert max(map(len, said.splitlines())) <= 80
    assert max(map(len, shell(capsys, "model --help").splitlines())) <= 80


def test_out_to_a_file_and_the_answer_back(folder, capsys):
    said = shell(capsys, "model w.json --max-migrations 1 --write w.mps")
    assert "written to" in said
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel("w.mps")
    highs.run()
    highs.writeSolution("w.sol", 0)
    record = json.loads(shell(capsys, "model w.json --max-migrations 1 --read w.sol --json"))
    assert record["objective"] == 1.0
    assert record["status"] == "feasible"
    assert record["bound"] is None


def test_solving_and_relaxing(folder, capsys):
    assert json.loads(shell(capsys, "model w.json --max-migrations 1 --solve --json"))["objective"] == 1.0
    relaxed = json.loads(shell(capsys, "model w.json --max-migrations 1 --relax --solve --solver glop --json"))
    assert 0 <= relaxed["bound"] <= 1.0
    assert relaxed["assignment"] is None
    assert "pyomo" in shell(capsys, "model w.json --list")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("model w.json --kind gams", "no model of kind 'gams'"),
        ("model w.json --write w.xlsx", "is written as .mps, .lp, .nl"),
        ("model w.json --write none/w.mps", "there is no folder none"),
        ("model w.json --solve --solver gurobi", "'gurobi' is not on this machine; there are highs"),
        ("model w.json --solver highs", "add --solve"),
        ("model w.json --read w.json", "is not a solution file of HiGHS, SCIP, CBC or Gurobi"),
        ("model w.json --read w.sol --relax", "checks that answer and does nothing else"),
        ("model w.json --kind cp-sat --relax", "CP-SAT only has whole numbers"),
        ("model w.json --max-migration 3", "has the options"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(folder, capsys, line, sentence):
    said = shell(capsys, line, expected=2)
    assert sentence in said
    assert len(said.splitlines()) == 1
