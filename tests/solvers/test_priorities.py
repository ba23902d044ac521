"""Priorities: lexicographic answers against brute force, stages that give nothing up, bounds that say what they suppose."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from brute_force import lexicographic
from draws import draws, rest_slow
from instances import allocation, collocation, routing

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.cli import main
from keyshift.models import Answer, BoundError, Budget, answer
from keyshift.models.rules.ruled import BROKEN
from keyshift.models.solution import Solution
from keyshift.models.stages import Stage, StageBound
from keyshift.solvers.stages import by_cpsat, by_highs, by_search_and_solvers, improve_within
from keyshift.solvers.tuning import StageSettings

LISTED = [
    (allocation, ("load_distance", "deviation_sum"), ("milp", "highs", "cp-sat")),
    (allocation, ("draining_load", "load_distance"), ("milp", "highs", "cp-sat")),
    (collocation, ("remote_traffic", "load_distance", "migrations"), ("milp", "milp-plain", "cp-sat")),
    (routing, ("state_moved", "table_size"), ("milp", "cp-sat")),
    (routing, ("table_size", "state_moved"), ("milp", "cp-sat")),
    (allocation, ("draining_key_groups", "load_distance", "migrations"), ("milp", "highs", "cp-sat")),
]


def posed(kind, rng: np.random.Generator, order: tuple[str, ...]) -> ks.Problem:
    problem = kind.random_problem(rng, int(rng.integers(1, 6)), int(rng.integers(1, 4)))
    return dataclasses.replace(problem, priorities=order)


def agrees(problem: ks.Problem, method: str, best: list[float] | None) -> None:
    solution = ks.solve(problem, method, time_limit=60)
    if best is None:
        assert solution.status == "infeasible", (problem, method, solution)
        return
    assert solution.status == "optimal", (problem, method, solution.priorities, best)
    for stage, least in zip(solution.priorities, best, strict=True):
        assert abs(stage.value - least) <= 2 * problem.tie(stage.measure, least), (
            problem,
            method,
            solution.priorities,
            best,
        )
        assert stage.bound <= stage.value


@pytest.mark.parametrize(("kind", "order", "methods"), LISTED)
def test_every_listed_order_equals_brute_force(kind, order, methods):
    rng = np.random.default_rng(7)
    for _ in range(2):
        problem = posed(kind, rng, order)
        for method in methods:
            agrees(problem, method, lexicographic(problem))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
@pytest.mark.parametrize(("kind", "order", "methods"), LISTED)
def test_every_listed_order_equals_brute_force_on_hundreds(kind, order, methods, seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        problem = posed(kind, rng, order)
        for method in methods:
            agrees(problem, method, lexicographic(problem))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "methods"), [(kind, methods) for kind, _, methods in LISTED[1:4]])
def test_any_other_order_equals_brute_force_too(kind, methods):
    rng = np.random.default_rng(8)
    for _ in range(60):
        problem = posed(kind, rng, ())
        others = [measure for measure in problem.measures if measure != BROKEN]  # which only comes first
        order = tuple(rng.permutation(others)[: rng.integers(1, len(others) + 1)].tolist())
        problem = dataclasses.replace(problem, priorities=order)
        for method in methods:
            agrees(problem, method, lexicographic(problem))


@pytest.mark.parametrize("scale", [1e-6, 1e9])
def test_the_unit_of_loads_and_states_does_not_matter(scale):
    rng = np.random.default_rng(5)
    for kind, order, methods in LISTED:
        problem = posed(kind, rng, order)
        w = problem.workload
        made = {"load": w.load * scale, "state": w.state * scale}
        options = {
            name: getattr(problem, name, None) for name in ("max_migration_cost", "serialisation", "deserialisation")
        }
        options = {name: value * scale for name, value in options.items() if value is not None}
        if getattr(problem, "distance_unit", "") == "load" and problem.max_load_distance is not None:
            options["max_load_distance"] = problem.max_load_distance * scale
        if getattr(problem, "mean", "exact") == "ceiling":
            options["mean"] = "exact"
        scaled = dataclasses.replace(problem, workload=w.replace(**made), **options)
        for method in methods[:2]:
            agrees(scaled, method, lexicographic(scaled))


def test_what_is_a_tie_is_the_tolerance():
    # One key group of load 1 + 1e-9 and one of load 1: which of them moves makes no difference to the distance.
    w = ks.Workload(load=[1 + 1e-9, 1, 2], state=[9, 1, 1], current=[0, 0, 0], nodes=2)
    problem = ks.KeyGroupAllocation(w, priorities=("load_distance", "state_moved"))
    solution = ks.solve(problem)
    assert solution.status == "optimal"
    assert solution.metrics["state_moved"] == 1
    coarse = ks.solve(ks.KeyGroupAllocation(w.replace(load=[1.01, 1, 2]), priorities=("load_distance", "state_moved")))
    assert coarse.status == "optimal"
    assert coarse.metrics["state_moved"] == 1


@pytest.mark.parametrize("share", [0.17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "order", "methods"), rest_slow(3, LISTED[::2] + LISTED[1::2]))
def test_a_heuristic_gives_no_earlier_stage_up(kind, order, methods, share):
    rng = np.random.default_rng(3)
    heuristics = [m.name for m in ks.methods(posed(kind, rng, ())) if m.kind == "heuristic"]
    gained, brief = 0, [] if share == 1 else [StageSettings(rounds=2)]
    for _ in range(
        round(share * {routing: 13, collocation: 18}.get(kind, 6))
    ):  # the heuristics answer few collocations
        problem = dataclasses.replace(kind.random_problem(rng, 10, 3), priorities=order)
        for name in heuristics:
            before = ks.solve(problem.plain(), name, time_limit=5)
            after = ks.solve(problem, name, time_limit=5, settings=brief)
            assert (before.assignment is None) == (after.assignment is None)
            if after.assignment is not None:
                first = problem.measured(order[0], before.assignment)
                assert problem.measured(order[0], after.assignment) <= first + problem.tie(order[0], first)
                assert [stage.bound for stage in after.priorities[1:]] == [None] * (len(order) - 1)
                gained += problem.rank(after.assignment) < problem.rank(before.assignment)
    assert gained > 0


@draws(4, 15)
@pytest.mark.parametrize("kind", [allocation, collocation, routing])
def test_the_search_keeps_its_sums(kind, count):
    """What the loop believes of its best assignment is what the check says of it."""
    rng = np.random.default_rng(4)
    for _ in range(count):
        problem = kind.random_problem(rng, int(rng.integers(2, 9)), int(rng.integers(2, 4)))
        start = ks.solve(problem, time_limit=20).assignment
        if start is None:
            continue
        names = [str(name) for name in rng.permutation(problem.measures)]
        kept = {names[1]: problem.measured(names[1], start)}
        found = improve_within(Stage(problem, names[0], kept), start, Budget(), int(rng.integers(99)), 4)
        stage = Stage(problem, names[0], kept)
        assert not stage.violations(found)
        assert stage.objective(found) <= stage.objective(start)


@pytest.mark.parametrize("solver", [by_cpsat, by_highs, by_search_and_solvers])
def test_a_stage_without_any_answer_is_infeasible(solver):
    w = ks.Workload(
        load=[4, 2, 2], state=[1, 1, 1], current=[0, 0, 1], nodes=2, home=[0, 0, 1], traffic=np.ones((3, 3))
    )
    for problem, measure, kept in (
        (ks.KeyGroupAllocation(w, max_migrations=0), "deviation_sum", {"load_distance": 1.0}),
        (
            ks.CollocatedAllocation(w, max_migrations=0, max_load_distance=None),
            "load_distance",
            {"remote_traffic": 3.0},
        ),
        (ks.MixedRouting(w, theta_max=0.0, max_table_size=2), "table_size", {"state_moved": 0.0}),
    ):
        stage, known = Stage(problem, measure, kept), FORMULATIONS[problem.name]
        assert solver(stage, known, budget=Budget(20)).termination == "infeasible"


def test_the_second_bound_says_what_it_supposes():
    w = ks.Workload(load=[4, 2, 2, 0, 3], state=[6, 2, 2, 1, 5], current=[0, 0, 1, 1, 0], nodes=2)
    problem = ks.KeyGroupAllocation(w, priorities="load_distance, state_moved")
    solution = ks.solve(problem)
    first, second = solution.priorities
    assert (first.measure, second.measure) == ("load_distance", "state_moved")
    assert first.given == {}
    assert set(second.given) == {"load_distance"}
    assert first.value <= second.given["load_distance"] <= first.bound + problem.tolerance
    assert solution.status == "optimal"
    assert first.proven
    assert second.proven
    cut_short = ks.solve(problem, "flux")
    assert cut_short.status == "feasible"
    assert cut_short.priorities[1].given == {"load_distance": cut_short.objective}  # not proven: its own value is kept


def test_one_stage_unproven_is_not_optimal():
    w = ks.Workload(load=[4, 2, 2], state=[6, 2, 2], current=[0, 0, 0], nodes=2)
    problem = ks.KeyGroupAllocation(w, priorities=("load_distance", "migrations"))
    stages = (StageBound("load_distance", 0.0, {}), StageBound("migrations", None, {"load_distance": 0.0}))
    answer = Answer(np.array([0, 1, 1]), 0.0, "optimal", stages=stages)
    assert Solution.of(problem, "m", answer, 0.0).status == "feasible"
    answer.stages = (stages[0], StageBound("migrations", 2.0, {"load_distance": 0.0}))
    answer.assignment = np.array([1, 0, 0])
    with pytest.raises(BoundError, match="claims the bound 2"):
        Solution.of(problem, "m", answer, 0.0)
    answer.stages = (StageBound("load_distance", 0.0, {}), StageBound("migrations", 1.0, {"load_distance": -1.0}))
    with pytest.raises(BoundError, match="does not keep"):
        Solution.of(problem, "m", answer, 0.0)


def test_a_relaxation_bounds_only_its_own_measure():
    w = ks.Workload(load=[4, 2, 2], state=[6, 2, 2], current=[0, 0, 0], nodes=2, draining=[False, True])
    own = ks.solve(ks.KeyGroupAllocation(w, priorities=("load_distance", "migrations")), "lp")
    assert own.bound is not None
    assert own.status == "none"
    other = ks.solve(ks.KeyGroupAllocation(w, priorities=("migrations", "load_distance")), "lp")
    assert other.bound is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("load", "migrations"), "'load'.*has the measures load_distance"),
        (("migrations", "migrations"), "names 'migrations' twice"),
        ((1, 2), "must be names"),
        (3, "must be names"),
    ],
)
def test_priorities_are_read(given, said):
    w = ks.Workload(load=[4, 2], state=[1, 1], current=[0, 0], nodes=2)
    with pytest.raises(ks.InputError, match=said):
        ks.KeyGroupAllocation(w, priorities=given)


def test_a_solution_with_priorities_goes_to_a_file_and_back(tmp_path):
    w = ks.Workload(load=[4, 2, 2, 1], state=[6, 2, 2, 1], current=[0, 0, 1, 1], nodes=2)
    solution = ks.solve(ks.KeyGroupAllocation(w, priorities=["load_distance", "state_moved"]))
    solution.save(tmp_path / "s.json")
    back = ks.read_solution(tmp_path / "s.json")
    assert back.priorities == solution.priorities
    assert back.status == "optimal"
    assert back.problem.priorities == ("load_distance", "state_moved")
    text = (tmp_path / "s.json").read_text()
    (tmp_path / "s.json").write_text(
        text.replace('"measure": "state_moved", "bound": 0', '"measure": "state_moved", "bound": 9')
    )
    if '"measure": "state_moved", "bound": 0' in text:
        with pytest.raises(ks.InputError, match="priorities"):
            ks.read_solution(tmp_path / "s.json")


def test_the_shell_takes_priorities(tmp_path, capsys):
    w = ks.Workload(load=[4, 2, 2, 1, 3], state=[6, 2, 2, 1, 1], current=[0, 0, 1, 1, 0], nodes=2)
    ks.write_workload(w, tmp_path / "w.json")
    assert main(["solve", str(tmp_path / "w.json"), "--priorities", "load_distance,migrations"]) == 0
    assert "2. migrations          1, proven" in capsys.readouterr().out
    assert main(["solve", str(tmp_path / "w.json"), "--priorities", "load_distance,foo"]) == 2
    assert "--priorities 'foo'" in capsys.readouterr().err


def test_a_model_has_one_objective():
    w = ks.Workload(load=[4, 2, 2], state=[6, 2, 2], current=[0, 0, 0], nodes=2)
    with pytest.raises(ks.InputError, match="a model minimises load_distance alone"):
        ks.model(ks.KeyGroupAllocation(w, priorities=("load_distance", "migrations")))
    assert ks.model(ks.KeyGroupAllocation(w, priorities=("load_distance",))).solve().status == "optimal"


def test_a_replay_plans_by_priorities():
    traffic = np.zeros((6, 6))
    traffic[[0, 1, 2], [3, 4, 5]] = 10
    w = ks.Workload(load=[3, 2, 2, 3, 2, 2], state=np.ones(6), current=[0, 1, 0, 1, 0, 1], nodes=2, traffic=traffic)
    order = ("remote_traffic", "load_distance", "migrations")
    options = {"max_load_distance": 50.0, "max_migrations": 3, "priorities": order}
    result = ks.replay([w, w], [ks.replays.Planner("milp", options=options)], time_limit=10).to_frame()
    assert result["remote_traffic"].tolist() == [0, 0]
    tight = {**options, "max_load_distance": 0.0, "max_migrations": 0}
    heavy = w.replace(load=[30, 2, 2, 3, 2, 2])
    assert (
        ks.replay([heavy], [ks.replays.Planner("milp", options=tight)], time_limit=10).to_frame()["fallback"] != ""
    ).all()


def test_a_stage_ends_by_its_own_gap_alone(monkeypatch):
    """What closes the first stage says nothing about the second: it once had no time at all from two seconds on."""
    monkeypatch.setattr(answer, "PATIENCE", 0.0)
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, (2, 12)).astype(float)
    w = ks.Workload(load=sizes[0], state=sizes[1], current=rng.integers(0, 3, 12), nodes=3)
    problem = ks.KeyGroupAllocation(w, priorities=("load_distance", "state_moved"))
    early, late = ks.solve(problem, gap=1e-4), ks.solve(problem, gap=0.0)
    assert early.status == late.status == "optimal"
    assert [s.value for s in early.priorities] == pytest.approx([s.value for s in late.priorities], abs=1e-4)


def test_fewer_moves_are_found_by_the_method_itself():
    """Annealing alone moves 459 of these key groups: no single step gets back to few moves and keeps the balance."""
    rng = np.random.default_rng(0)
    w = ks.Workload(
        load=rng.gamma(0.5, 1, 2_000) + 0.01, state=np.ones(2_000), current=rng.integers(0, 12, 2_000), nodes=12
    )
    first, second = ks.solve(ks.KeyGroupAllocation(w, priorities=("load_distance", "migrations")), effort=2).priorities
    assert first.proven
    assert second.value < 400


def test_the_search_of_a_stage_counts_its_work():
    load = np.random.default_rng(0).random(40)
    w = ks.Workload(load=load, state=np.ones(40), current=np.arange(40) % 4, nodes=4)
    stage, budget = Stage(ks.KeyGroupAllocation(w), "load_distance"), Budget(effort=0.5)
    improve_within(stage, w.current, budget, rounds=3)
    assert budget.work > 3 * 10_000 * answer.STEP
