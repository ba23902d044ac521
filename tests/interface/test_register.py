"""A method of one's own: registered, known everywhere in the process and in a study's processes."""

import sys
from pathlib import Path

import pytest

import keyshift as ks
from keyshift.catalogue import FORMULATIONS, Method, register

STAYER = '''
from keyshift.models import Answer
def stay(problem, *, budget, seed=0):
    """Leave everything where it is."""
    return Answer(problem.workload.current)
def move_all(problem, *, budget, seed=0, start=None):
    """Break the limit on migrations."""
    return Answer(1 - problem.workload.current)
'''


@pytest.fixture
def stay(tmp_path, monkeypatch):
    (tmp_path / "staying.py").write_text(STAYER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("keyshift.catalogue._OWN", {})
    before = dict(FORMULATIONS)
    yield Method(name="stay", kind="heuristic", source="nobody", code="staying:stay", guarantee="none")
    from keyshift.catalogue import BY_NAME

    BY_NAME.update(before)
    sys.modules.pop("staying", None)


def problem():
    w = ks.Workload(load=[5, 3, 2], state=[1, 1, 1], current=[0, 0, 1], nodes=2)
    return ks.KeyGroupAllocation(w, max_migrations=1)


def test_a_registered_method_is_solved_compared_and_studied(stay, tmp_path):
    register("key-group-allocation", stay)
    register("key-group-allocation", stay)  # as a notebook's cell does that is run twice
    assert [m.name for m in ks.methods(problem())].count("stay") == 1
    assert ks.solve(problem(), "stay").assignment.tolist() == [0, 0, 1]
    assert "stay" in ks.compare(problem(), ["stay", "flux"]).to_frame()["method"].tolist()
    study = ks.study({"tiny": problem()}, methods=["stay", "milp"], out=tmp_path / "study")
    found = study.to_frame().set_index("method")
    assert found.loc["stay", "status"] == "feasible"
    assert found.loc["stay", "objective"] > found.loc["milp", "objective"]


def test_a_module_that_is_loaded_again_brings_its_method_anew(stay):
    import importlib

    register("key-group-allocation", stay)
    assert ks.solve(problem(), "stay").assignment.tolist() == [0, 0, 1]
    file = Path(sys.modules["staying"].__file__)
    file.write_text(STAYER.replace("return Answer(problem.workload.current)", "return Answer([0, 1, 1])") + "# longer")
    importlib.reload(sys.modules["staying"])
    assert ks.solve(problem(), "stay").assignment.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("problem_name", "change", "said"),
    [
        ("no-such", {}, "choose one of"),
        ("key-group-allocation", {"name": "milp"}, "another name"),
        ("key-group-allocation", {"code": "nowhere:stay"}, "cannot be imported"),
        ("key-group-allocation", {"code": "staying:go"}, "cannot be imported"),
    ],
)
def test_what_cannot_be_registered(stay, problem_name, change, said):
    from dataclasses import replace

    with pytest.raises(ks.InputError, match=said):
        register(problem_name, replace(stay, **change))
    assert "stay" not in [m.name for m in ks.methods(problem())]


@pytest.mark.parametrize("priorities", [(), ("load_distance", "state_moved")])
def test_a_start_stands_where_the_methods_own_assignment_breaks_a_rule(stay, priorities):
    from dataclasses import replace

    register("key-group-allocation", replace(stay, code="staying:move_all"))
    w = problem().workload
    posed = ks.KeyGroupAllocation(w, max_migrations=1, priorities=priorities)
    answer = ks.solve(posed, "stay", start=w.current)
    assert answer.status in ("feasible", "optimal")
    assert answer.assignment.tolist() == w.current.tolist()
    assert len(answer.priorities) == len(priorities)


def test_a_method_that_another_process_cannot_import_is_a_row(stay):
    from dataclasses import replace

    from keyshift.studies.tasks import SolveTask

    row = SolveTask("tiny", "", problem(), "", "stay", 0, own=replace(stay, code="nowhere:stay")).run()
    assert row["termination"] == "crash"
    assert "cannot be imported" in row["message"]
