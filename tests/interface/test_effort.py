"""A limit on effort counts work: the same answers on a clock that runs wild, again, and with any number of workers."""

from __future__ import annotations

import itertools
import json

import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.models import Budget, answer
from keyshift.models.answer import LOOK, STEP, LimitReached
from keyshift.solvers.threads import until_limit

LIMITED = ["hard-collocation", "hard-mclb", "ding-sequence"]
"""Families whose first instances are not proven within the effort of these tests."""


def drawn(name):
    return next(iter(ks.family(name)))


def said(solution):
    kept = None if solution.assignment is None else solution.assignment.tolist()
    return solution.objective, solution.bound, solution.status, kept


@pytest.mark.parametrize("name", LIMITED)
def test_no_clock_is_looked_at(name, monkeypatch):
    problem = drawn(name)[1]
    found = ks.solve(problem, effort=0.01, gap=0.0)
    assert found.status == "feasible"
    ticks = itertools.count(step=0.5)
    monkeypatch.setattr(answer.time, "monotonic", lambda: float(next(ticks)))
    assert said(ks.solve(problem, effort=0.01, gap=0.0, time_limit=1e-6)) == said(found)


def test_any_number_of_workers_gives_the_same_rows():
    instances = dict(map(drawn, LIMITED[:2]))
    frame = ks.study(instances, ["milp"], effort=0.01, gap=0.0, workers=2).to_frame()
    alone = {name: said(ks.solve(problem, "milp", effort=0.01, gap=0.0))[:3] for name, problem in instances.items()}
    assert (
        dict(zip(frame["instance"], zip(frame["objective"], frame["bound"], frame["status"], strict=True), strict=True))
        == alone
    )


def test_a_method_with_such_an_option_takes_it_as_that():
    problem = next(iter(ks.family("guo-mclb", nodes=4, key_groups=100, windows=10)))[1]
    found = [
        ks.solve(problem, "local-search", effort=0.02),
        ks.compare(problem, ["local-search"], effort=0.02)["local-search"],
    ]
    found.append(ks.solve(problem, "local-search"))
    assert found[0].termination == found[1].termination == "completed"
    assert said(found[0]) == said(found[1])
    assert found[0].objective > found[2].objective  # a fiftieth of its runs


def test_parts_share_one_count():
    whole = Budget(effort=1.0)
    part = whole.part(0.5)
    part.spend(0.2 / STEP)
    assert whole.elapsed == pytest.approx(0.2 + LOOK)
    assert part.remaining == pytest.approx(0.3, abs=5 * LOOK)
    part.spend(0.4 / STEP)
    assert part.expired
    assert not whole.expired
    assert not part.late  # who waits in another thread does not end it by his own clock
    whole.interrupt()
    assert part.late
    assert whole.anew(2.0).counts_work


@pytest.mark.parametrize(
    ("family", "method", "settings"),
    [
        ("madsen-scale-in", "prices", {"nodes": 5, "key_groups": 15, "drain": 2, "max_migrations": 6}),
        ("madsen-collocation", "milp-plain", {"nodes": 3, "key_groups": 12, "max_migrations": 4}),
    ],
)
def test_what_others_do_between_two_looks_counts_as_work(family, method, settings, monkeypatch):
    problem, spent, told = next(iter(ks.family(family, **settings)))[1], [], Budget.spend
    monkeypatch.setattr(Budget, "spend", lambda self, steps: (spent.append(STEP * steps), told(self, steps)))
    whole = ks.solve(problem, method, effort=10.0, gap=0.0)
    most = sum(spent)
    spent.clear()
    found = ks.solve(problem, method, effort=most / 4, gap=0.0)
    assert 0.05 < most < 5.0
    assert sum(spent) < most / 2
    assert whole.termination in ("completed", "optimal")
    assert found.termination == "time_limit"
    assert found.bound < whole.bound


def test_a_run_that_is_too_long_is_not_begun():
    with pytest.raises(LimitReached):
        until_limit(Budget(effort=0.01), lambda: pytest.fail("it was begun"), steps=1e9)


def test_shell(tmp_path, capsys):
    ks.write_workload(drawn("hard-collocation")[1].workload, tmp_path / "w")
    line = ["solve", str(tmp_path / "w"), "-p", "collocated-allocation", "--gap", "0", "--json", "--effort"]
    found = []
    for _ in range(2):
        assert main([*line, "0.05"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["bound"] == found[1]["bound"]
    assert found[0]["objective"] == found[1]["objective"]
    assert main([*line, "-1"]) == 2
