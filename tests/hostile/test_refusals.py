"""A sample of malformed files and command lines; `make hostile` runs them all."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hostile import refusals
from hostile.refusals import Case, judge

SAMPLE = 170


def test_malformed_inputs_end_in_exit_code_2_and_one_sentence():
    found = [judge(case, timed=False) for case in refusals.sample(SAMPLE, seed=0)]
    assert [(v.case.kind, v.case.name, v.wrong, v.said) for v in found if set(v.wrong) - {"memory"}] == []
    assert sum(v.outcome == "2" for v in found) > 120


def test_there_are_thousands_of_them():
    kinds = [case.expect for case in refusals.cases()]
    assert kinds.count("refused") >= 4000


@pytest.mark.parametrize(
    ("todo", "wrong"),
    [
        (lambda: 1 / 0, ["traceback"]),
        (lambda: None, ["accepted"]),
        (["methods"], ["accepted"]),
    ],
)
def test_the_judge_notices(todo, wrong):
    assert judge(Case("k", "n", lambda folder: todo), timed=False).wrong == wrong


def test_a_defect_is_one_sentence_and_exit_code_3(tmp_path):
    code = "import keyshift.commands.common as c, keyshift.cli as cli, sys; c.read_problem = None; sys.exit(cli.main(['solve', 'x']))"
    quiet = {k: v for k, v in os.environ.items() if k != "KEYSHIFT_TRACEBACK"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=quiet)
    assert run.returncode == 3
    assert run.stderr.startswith("keyshift: a defect of keyshift, not of your input: TypeError")
    assert len(run.stderr.splitlines()) == 1
    loud = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**quiet, "KEYSHIFT_TRACEBACK": "1"},
    )
    assert "Traceback" in loud.stderr
