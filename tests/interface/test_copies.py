"""Everything public survives a pickle, a deep copy, another process and a file."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from instances import BATTERIES

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.models.files.problem import CLASSES as KNOWN
from keyshift.models.files.problem import problem_of, problem_record

CASES = [(name, label) for name in FORMULATIONS for label in BATTERIES[name]()]
SOLVED = [(name, label) for name in FORMULATIONS for label in list(BATTERIES[name]())[:3]]


def quick_answer(problem: ks.Problem) -> ks.Solution:
    """By the first heuristic, or the last method where there is none."""
    methods = ks.methods(problem)
    name = next((m.name for m in methods if m.kind == "heuristic"), methods[-1].name)
    return ks.solve(problem, name, time_limit=20)


def same_problem(one: ks.Problem, other: ks.Problem) -> None:
    assert type(one) is type(other)
    assert problem_record(one) == problem_record(other)


def same_solution(one: ks.Solution, other: ks.Solution) -> None:
    same_problem(one.problem, other.problem)
    for name in ("method", "status", "termination", "objective", "bound", "seconds", "metrics", "message"):
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_array_equal(one.assignment, other.assignment)
    if one.assignment is not None:
        assert not other.assignment.flags.writeable


@pytest.mark.parametrize(("name", "label"), CASES)
def test_problems_come_back(name, label):
    problem = BATTERIES[name]()[label]
    for again in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem), problem_of(problem_record(problem))):
        same_problem(problem, again)


@pytest.mark.parametrize(("name", "label"), SOLVED)
def test_solutions_come_back(name, label, tmp_path):
    solution = quick_answer(BATTERIES[name]()[label])
    for again in (pickle.loads(pickle.dumps(solution)), copy.deepcopy(solution)):
        same_solution(solution, again)
    solution.save(tmp_path / "s.json")
    same_solution(solution, ks.read_solution(tmp_path / "s.json"))


def test_files_know_the_problems_of_the_catalogue():
    assert set(KNOWN) == set(FORMULATIONS)
    for name, formulation in FORMULATIONS.items():
        assert formulation.problem_class.__name__ == KNOWN[name][1]


def test_a_workload_comes_back_read_only():
    w = ks.Workload(
        load=[[1, 2], [3, 4]], state=[1, 1], current=[0, 1], nodes=[1, 2], traffic=[[0, 3], [0, 0]], home=[0, 0],
        operator=[0, 1], resources={"memory": [1, 2]}, keys=["a", 7], node_names=["x", "y"], draining=[False, True],
    )  # fmt: skip
    for again in (pickle.loads(pickle.dumps(w)), copy.deepcopy(w)):
        assert again.arguments().keys() == w.arguments().keys()
        for name, value in w.arguments().items():
            found = again.arguments()[name]
            if name == "traffic":
                assert (found != value).nnz == 0
            elif name == "resources":
                np.testing.assert_array_equal(found["memory"], value["memory"])
            else:
                np.testing.assert_array_equal(found, value)
        with pytest.raises(ValueError, match="read-only"):
            again.load[0, 0] = 5
        with pytest.raises(TypeError):
            again.resources["disk"] = [1, 1]


def test_plans_and_comparisons_come_back():
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    comparison = ks.compare(ks.KeyGroupAllocation(w, max_migrations=1), ["flux", "potc"])
    plan = comparison.best.plan()
    for again in (pickle.loads(pickle.dumps(comparison)), copy.deepcopy(comparison)):
        assert again.best.objective == comparison.best.objective
        assert str(again) == str(comparison)
    for again in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert again.as_record() == plan.as_record()
        assert not again.start.flags.writeable


def test_notebooks_show_tables():
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2, keys=["<b>", "x", "y", "z"])
    comparison = ks.compare(ks.KeyGroupAllocation(w, max_migrations=1), ["flux", "potc"])
    for shown in (comparison, comparison.best, comparison.best.plan()):
        assert "<table" in shown._repr_html_()
        assert "<b>" not in shown._repr_html_()
    assert comparison.plot()._repr_png_().startswith(b"\x89PNG")


def test_solve_works_in_other_processes():
    from joblib import Parallel, delayed

    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2, resources={"m": [1, 1, 1, 1]})
    problems = [ks.KeyGroupAllocation(w, max_migrations=m, resource_capacity={"m": 4}) for m in (0, 1)]
    found = Parallel(n_jobs=2)(delayed(ks.solve)(problem, "flux") for problem in problems)
    assert [s.objective for s in found] == [ks.solve(p, "flux").objective for p in problems]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda r: r.update(objective=0.5), "objective = 0.5, the assignment has"),
        (lambda r: r.update(bound=99.0), "bound = 99 lies above the objective"),
        (lambda r: r.update(assignment=[1, 1, 1, 0]), "the assignment breaks a rule"),
        (lambda r: r["problem"].update(name="os.system"), "problem = 'os.system': there are"),
        (lambda r: r["problem"].update(data={"exec": "1"}), "'exec' must be one of"),
        (lambda r: r["problem"]["parameters"].update(max_moves=3), "do not suit key-group-allocation"),
        (lambda r: r.update(version=7), "another format"),
        (lambda r: r.update(assignment=None), "status = 'feasible' without an assignment"),
    ],
)
def test_a_damaged_solution_is_refused(tmp_path, change, sentence):
    import json

    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    ks.solve(ks.KeyGroupAllocation(w, max_migrations=1), "flux").save(tmp_path / "s.json")
    record = json.loads((tmp_path / "s.json").read_text())
    change(record)
    (tmp_path / "s.json").write_text(json.dumps(record))
    with pytest.raises(ks.InputError, match=sentence):
        ks.read_solution(tmp_path / "s.json")
