"""A sample of malformed files and command lines; `make hostile` runs them all."""

from __future__ import annotations

import pytest

from hostile import refusals
from hostile.refusals import Case, judge
from keyshift import cli
from keyshift.commands import own

SAMPLE = 145


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
    found = judge(Case("k", "n", lambda folder: todo), timed=False).wrong
    assert [kind for kind in found if kind != "memory"] == wrong  # which is that of all tests in this process


def test_a_defect_is_one_sentence_and_exit_code_3(monkeypatch, capsys):
    monkeypatch.setattr(own.Request, "read", None)
    monkeypatch.delenv("KEYSHIFT_TRACEBACK")
    assert cli.main(["solve", "x"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("keyshift: a defect of keyshift, not of your input: TypeError")
    assert len(said.splitlines()) == 1
    monkeypatch.setenv("KEYSHIFT_TRACEBACK", "1")
    with pytest.raises(TypeError):
        cli.main(["solve", "x"])
