"""A formulation of one's own, the lesson's file: every verb, the files and the shell know it."""

from __future__ import annotations

import copy
import importlib
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift.catalogue import BY_NAME, FORMULATIONS, register_problem
from keyshift.rules import Apart, Moves, Only, Together

LESSON = Path(__file__).parents[2] / "docs" / "lessons" / "own-formulation.md"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The lesson's file, in a folder that is on the path as long as these tests run."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "consolidation.py").write_text(
        LESSON.read_text().split("%%writefile consolidation.py\n")[1].split("```")[0]
    )
    sys.path.insert(0, str(folder))
    yield importlib.import_module("consolidation")
    BY_NAME.pop("consolidation", None)
    sys.path.remove(str(folder))
    sys.modules.pop("consolidation", None)


def night(own, **more):
    w = ks.Workload(load=[3, 2, 2, 1], state=[9, 1, 1, 1], current=[0, 1, 2, 3], nodes=4)
    return own.Consolidation(w, 4, **more)


def test_it_is_solved_as_brute_force_says(own):
    rng = np.random.default_rng(1)
    for _ in range(12):
        w = ks.Workload(
            load=rng.integers(1, 9, 4),
            state=rng.integers(1, 5, 4),
            current=rng.integers(0, 3, 4),
            nodes=rng.uniform(1, 2, 3),
        )
        problem = own.Consolidation(w, float(rng.uniform(4, 12)), float(rng.integers(0, 8)))
        reports = [ks.check(problem, a) for a in product(range(3), repeat=4)]
        best = min((r.objective for r in reports if r.feasible), default=None)
        found = ks.solve(problem)
        assert found.objective == best
        assert found.status == ("infeasible" if best is None else "optimal")


def test_every_verb_knows_it(own, tmp_path):
    problem, short = night(own), night(own, max_state_moved=1)
    answer = ks.solve(problem)
    assert [m.name for m in ks.methods(problem)] == ["milp", "empty-lightest"]
    assert set(ks.compare(problem).to_frame()["method"]) == {"milp", "empty-lightest"}
    told = ks.explain(short)
    assert "max_state_moved = 1 is used up" in told.binding
    needed = {r.limit: r.value for r in ks.remedies(short, target=2)}
    assert needed["max_state_moved"] == pytest.approx(2)
    assert [(s.metrics["state_moved"], s.objective) for s in ks.pareto(problem).solutions] == [(0, 4), (1, 3), (2, 2)]
    plan = ks.plan(problem, answer)
    assert plan.check(problem.workload).feasible
    plan.save(tmp_path / "plan.json")
    assert ks.read_plan(tmp_path / "plan.json").problem == "consolidation"
    opened = ks.model(short)
    opened.write(str(tmp_path / "short.mps"))
    assert opened.solve().objective == 3
    windows = [problem.workload.replace(load=[[3 * f, 2 * f, 2 * f, f]]) for f in (1.0, 0.5)]
    assert [row["objective"] for row in ks.replay(windows, ["milp"], problem="consolidation", most_load=4).rows] == [
        2,
        1,
    ]
    study = ks.study({"night": problem}, methods=["milp", "empty-lightest"])
    assert study.to_frame()["objective"].tolist()[0] == 2
    with pytest.raises(ks.InputError, match="no certificates for consolidation"):
        ks.certify(answer)
    repaired = ks.repair(own.Consolidation(problem.workload, 2))  # a key group of load 3 stays too heavy
    assert repaired.details["excess_left"] == pytest.approx(1)
    assert repaired.problem.most_load == pytest.approx(3)


def test_files_and_copies_know_it(own, tmp_path):
    answer = ks.solve(night(own, max_state_moved=1))
    answer.save(tmp_path / "answer.json")
    assert ks.read_solution(tmp_path / "answer.json").problem.max_state_moved == 1
    for again in (pickle.loads(pickle.dumps(answer.problem)), copy.deepcopy(answer.problem)):
        assert again.arguments().keys() == answer.problem.arguments().keys()
    then = answer.problem.after(answer, answer.problem.workload)
    assert then.workload.current.tolist() == answer.assignment.tolist()


def test_the_shell_knows_it_where_the_user_names_the_file(own, tmp_path):
    ks.write_workload(night(own).workload, tmp_path / "w.json")
    line = [sys.executable, "-m", "keyshift", "solve", "w.json", "-p", "consolidation", "--most-load", "4", "--json"]
    clean = {k: v for k, v in os.environ.items() if k != "KEYSHIFT_PLUGINS"}
    unknown = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env=clean)
    assert unknown.returncode == 2
    assert "choose one of" in " ".join(unknown.stderr.split())
    named = subprocess.run(
        line, cwd=tmp_path, capture_output=True, text=True, env={**clean, "KEYSHIFT_PLUGINS": own.__file__}
    )
    assert json.loads(named.stdout)["objective"] == 2
    plugged = [*line[:3], "--plugin", own.__file__, *line[3:]]
    found = subprocess.run(plugged, cwd=tmp_path, capture_output=True, text=True, env=clean)
    assert json.loads(found.stdout)["objective"] == 2


def test_a_plugin_must_be_a_file_of_a_name_of_its_own(tmp_path):
    from keyshift.catalogue import plug_in

    with pytest.raises(ks.InputError, match="there is no such Python file"):
        plug_in(str(tmp_path / "nothing.py"))
    (tmp_path / "json.py").write_text("raise SystemExit\n")
    with pytest.raises(ks.InputError, match="the name of another module"):
        plug_in(str(tmp_path / "json.py"))
    sys.path.remove(str(tmp_path))


def test_what_cannot_be_registered(own):
    known = FORMULATIONS["consolidation"]

    def again(problem=own.Consolidation, methods=known.methods):
        return register_problem(problem, summary=known.summary, methods=methods)

    with pytest.raises(ks.InputError, match="name of its own"):
        again(ks.MCLB)
    with pytest.raises(ks.InputError, match="not a dataclass under Problem"):
        again(dict)
    with pytest.raises(ks.InputError, match="needs methods"):
        again(methods=())
    with pytest.raises(ks.InputError, match="cannot be imported"):
        again(methods=[replace(known.methods[0], code="nowhere:milp")])
    again(methods=known.methods)  # as a notebook's cell does that is run twice
    register_problem(
        own.Consolidation,
        summary=known.summary,
        methods=known.methods,
        statements=known.statements,
        trades=known.trades,
    )


def test_a_problem_under_rules_with_a_quadratic_objective_is_solved_as_brute_force_says(tmp_path, monkeypatch):
    """The file of the page that says what an own problem must have."""
    page = (LESSON.parents[1] / "own-problem.md").read_text()
    (tmp_path / "squared_loads.py").write_text(page.split("```python\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("squared_loads")
    rng = np.random.default_rng(0)
    for rules in (
        [],
        [Moves(2), Apart([0, 1])],
        [Together([0, 1, 2])],
        [Only([0], [1]), Apart([0, 1]), Together([0, 1])],
    ):
        w = ks.Workload(load=rng.integers(1, 9, 5), state=np.ones(5), current=rng.integers(0, 3, 5), nodes=3)
        problem = own.SquaredLoads(w, rules)
        reports = [problem.check(a) for a in product(range(3), repeat=5)]
        best = min((r.objective for r in reports if r.feasible), default=None)
        found = ks.solve(problem)
        assert found.objective == best
        assert found.status == ("infeasible" if best is None else "optimal")
        assert best is None or ks.model(problem, "mathopt").solve().objective == pytest.approx(best)
    BY_NAME.pop("squared-loads")
