"""Everything public survives a pickle, a deep copy, another process and a file."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
import random

import numpy as np
import pytest
from hostile.solving import MODULES as HOSTILE
from rules.drawn import RACKS, draw_rule

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.files.problem import problem_of, problem_record
from keyshift.models.rules.ruled import Ruled


def quick_answer(problem: ks.Problem) -> ks.Solution:
    """By the first heuristic, or the last method where there is none."""
    methods = ks.methods(problem)
    name = next((m.name for m in methods if m.kind == "heuristic"), methods[-1].name)
    return ks.solve(problem, name, time_limit=1)


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


def test_a_workload_comes_back_read_only():
    w = ks.Workload(
        load=[[1, 2], [3, 4]], state=[1, 1], current=[0, 1], nodes=[1, 2], traffic=[[0, 3], [0, 0]], home=[0, 0],
        operator=[0, 1], resources={"memory": [1, 2]}, keys=["a", 7], node_names=["x", "y"], draining=[False, True],
        groups={"topic": ["s", "t"]}, domains={"rack": [1, 2]},
    )  # fmt: skip
    for again in (pickle.loads(pickle.dumps(w)), copy.deepcopy(w)):
        assert again.arguments().keys() == w.arguments().keys()
        for name, value in w.arguments().items():
            found = again.arguments()[name]
            if name == "traffic":
                assert (found != value).nnz == 0
            elif name == "resources":
                np.testing.assert_array_equal(found["memory"], value["memory"])
            elif name in ("groups", "domains"):
                assert found == value
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


def unusual(problem: ks.Problem) -> set[str]:
    """The parameters that are not as usual."""
    made = [f for f in dataclasses.fields(problem) if f.init and f.default is not dataclasses.MISSING]
    return {f.name for f in made if not np.array_equal(getattr(problem, f.name), f.default)}


def with_options(name: str, rng: random.Random) -> ks.Problem:
    """A hostile instance: windows, scenarios, probabilities, limits, and what hostile ones leave as it is."""
    while True:
        spec = HOSTILE[name].draw(rng)
        more: dict[str, object] = {}
        if rng.random() < 0.3 and name in ("key-splitting", "key-placement"):
            size = len(spec["options"]["stream"])
            more = {"sources": 2, "feed": "key", "source_keys": [rng.randrange(5) for _ in range(size)]}
        elif rng.random() < 0.3:
            more = dict([rng.choice([*MORE.get(name, {"": None}).items()])])
        try:
            problem = HOSTILE[name].build(
                {**spec, "options": {**spec["options"], **{k: v for k, v in more.items() if k}}}
            )
            problem = with_rules(problem, rng)
        except ks.InputError:  # two options that do not go together
            continue
        if not problem.conflicts() or rng.random() < 0.2:
            return problem


def with_rules(problem: ks.Problem, rng: random.Random) -> ks.Problem:
    """The same with labels, and a rule or two, now and then."""
    if not isinstance(problem, Ruled) or rng.random() < 0.6:
        return problem
    w = problem.workload
    labelled = w.replace(
        resources={**w.resources, "disk": [float(rng.randrange(5)) for _ in range(w.key_groups)]},
        groups={
            "topic": [rng.choice(["a", "b"]) for _ in range(w.key_groups)],
            "partition": [rng.randrange(3) for _ in range(w.key_groups)],
        },
        domains={"rack": [rng.choice(RACKS) for _ in range(w.nodes)]},
    )
    numbers = np.random.default_rng(rng.getrandbits(32))
    return dataclasses.replace(
        problem, workload=labelled, rules=[draw_rule(numbers, labelled) for _ in range(rng.choice([1, 2, 3]))]
    )


MORE = {
    "key-group-allocation": {"mean": "ceiling", "priorities": ("migrations", "deviation_sum")},
    "collocated-allocation": {"priorities": ("total_load", "migrations")},
    "mixed-routing": {"priorities": ("table_size", "state_moved")},
}


def every_trip(problem: ks.Problem, folder) -> ks.Solution:
    """A problem, an answer and its plan there and back, through pickles, deep copies and files."""
    for again in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem), problem_of(problem_record(problem))):
        same_problem(problem, again)
    solution = quick_answer(problem)
    solution.save(folder / "s.json")
    for again in (
        pickle.loads(pickle.dumps(solution)),
        copy.deepcopy(solution),
        ks.read_solution(folder / "s.json"),
    ):
        same_solution(solution, again)
    if solution.assignment is not None and problem.name in PLANNED:
        plan = ks.plan(problem, solution)
        plan.save(folder / "plan.json")
        for again in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan), ks.read_plan(folder / "plan.json")):
            assert again.as_record() == plan.as_record()
        assert plan.check(problem.workload).feasible
    return solution


NOT_PLANNED = (
    "key-splitting",
    "key-placement",
    "migration-policy",
    "replicated-allocation",
)  # the last: of another workload
PLANNED = [name for name in HOSTILE if name not in NOT_PLANNED]


def round_trips(name: str, count: int, seed: int, folder) -> set[str]:
    """That many problems with options at random; those that were not as usual."""
    rng, seen = random.Random(seed), set()
    for _ in range(count):
        problem = with_options(name, rng)
        seen |= unusual(problem)
        every_trip(problem, folder)
    return seen


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_the_options_everything_comes_back(name, tmp_path):
    round_trips(name, 8, 5, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_every_option_comes_back(name, tmp_path):
    problem = HOSTILE[name].build(HOSTILE[name].draw(random.Random(0)))
    optional = {f.name for f in dataclasses.fields(problem) if f.init and f.default is not dataclasses.MISSING}
    assert optional - round_trips(name, 300, 7, tmp_path) <= {"column"}  # which part of a file is the stream


@functools.cache
def two_with_options(name: str) -> tuple[ks.Problem, ks.Problem]:
    rng = random.Random(6)
    return with_options(name, rng), with_options(name, rng)


def with_probabilities() -> ks.Problem:
    w = ks.Workload(
        load=[[3, 1, 2, 1], [1, 2, 1, 3]], state=[1, 1, 1, 1], current=[0, 0, 1, 1], nodes=2, traffic=np.ones((4, 4))
    )
    return ks.CollocatedAllocation(w, 100.0, windows=2, probabilities=[0.5, 0.5])


def test_whatever_the_options_studies_take_them(tmp_path):
    problems = {name: two_with_options(name)[0] for name in HOSTILE} | {"probabilities": with_probabilities()}
    methods = {quick_answer(problem).method for problem in problems.values()}
    for _ in range(2):  # the second time from what the first has written
        frame = ks.study(problems, methods=sorted(methods), time_limit=1, out=tmp_path / "study").to_frame()
        assert set(frame["instance"]) == set(problems)
        assert frame["status"].ne("failed").all()


@pytest.mark.parametrize("name", [name for name in HOSTILE if FORMULATIONS[name].trades])
def test_whatever_the_options_fronts_take_them(name):
    assert ks.pareto(two_with_options(name)[0], 2, time_limit=0.5) is not None


def test_probabilities_of_windows_come_back(tmp_path):
    assert every_trip(with_probabilities(), tmp_path).assignment is not None
    assert ks.pareto(with_probabilities(), 2, time_limit=0.5) is not None
