"""Every problem's every declarative model: stated, solved, relaxed, written to files that other tools read."""

from __future__ import annotations

import functools
import re

import highspy
import numpy as np
import pytest
from draws import draws
from instances import MODULES
from least import candidates, least
from ortools.linear_solver.python import model_builder
from ortools.sat.python import cp_model

import keyshift as ks
from keyshift.catalogue import FORMULATIONS

BY_NAME = {module.NAME: module for module in MODULES}
CASES = [
    pytest.param(name, entry, id=f"{name}-{entry.kind}")
    for name, formulation in FORMULATIONS.items()
    for entry in formulation.statements
]
LINEAR = [case for case in CASES if case.values[1].language != "cp-sat"]


@functools.cache
def instances(name: str, count: int, seed: int = 5) -> list[tuple[ks.Problem, float | None]]:
    """Tiny random instances, this many of them with an answer, and their least objectives: the same for every statement."""
    return list(drawn(name, count, seed))


def drawn(name: str, count: int, seed: int):
    rng = np.random.default_rng(seed)
    found = 0
    while found < count:
        problem = BY_NAME[name].random_problem(rng, 5, 3)
        if problem.conflicts():
            continue
        best = least(problem)
        found += best is not None
        yield problem, best


def same(problem: ks.Problem, value: float, best: float) -> bool:
    return abs(value - best) <= max(problem.tolerance, problem.tolerance_of(best))


def test_every_problem_has_a_model_in_pyomo_and_in_or_tools():
    for name, formulation in FORMULATIONS.items():
        languages = {entry.language for entry in formulation.statements}
        assert "pyomo" in languages, name
        assert ks.statements(formulation.problem_class) == tuple(entry.kind for entry in formulation.statements)
        kinds = [entry.kind for entry in formulation.statements]
        assert len(set(kinds)) == len(kinds)
        assert all(
            kind == e.language or kind.startswith(f"{e.language}-")
            for kind, e in zip(kinds, formulation.statements, strict=True)
        )


@pytest.mark.parametrize(("name", "entry"), CASES)
@draws(2, 4)
def test_a_model_has_the_optimum_that_brute_force_has(name, entry, count):
    for problem, best in instances(name, count):
        model = ks.model(problem, entry.kind)
        solution = model.solve(time_limit=60)
        assert solution.method.startswith(f"model:{entry.kind}/")
        if best is None:
            assert solution.status in ("infeasible", "none"), (problem, solution)
            continue
        if solution.bound is not None:
            assert solution.bound <= best + max(problem.tolerance, problem.tolerance_of(best))
        if entry.exact:
            assert solution.objective is not None, (problem.arguments(), solution)
            assert same(problem, solution.objective, best)
            assert solution.details["bound_from"]
        else:
            assert solution.status == "none"
            assert solution.bound is not None


@pytest.mark.parametrize(("name", "entry"), LINEAR)
@draws(2, 6)
def test_a_relaxation_is_never_above(name, entry, count):
    bounded = 0
    for problem, best in instances(name, count, seed=8):
        relaxed = ks.model(problem, entry.kind).relax()
        solution = relaxed.solve(time_limit=60)
        assert solution.assignment is None
        if best is not None:
            assert solution.status == "none"
            if solution.bound is not None:
                assert solution.bound <= best + max(problem.tolerance, problem.tolerance_of(best))
                bounded += 1
    assert (
        bounded >= count / 2
        or entry.reader is not None
        or not hasattr(ks.model(problem, entry.kind).statement, "bound")
    )


@pytest.mark.parametrize("name", FORMULATIONS)
def test_cp_sat_has_no_relaxation(name):
    problem, _ = next(drawn(name, 1, 5))
    for entry in FORMULATIONS[name].statements:
        if entry.language == "cp-sat":
            with pytest.raises(ks.InputError, match="CP-SAT only has whole numbers"):
                ks.model(problem, entry.kind).relax()


def native_optimum(model: ks.modelling.Model) -> float | None:
    """The optimum of the model's own objective, by SCIP or GLOP through OR-Tools."""
    from keyshift.modelling import running
    from keyshift.models import Budget
    from keyshift.solvers import mathopt

    program = model.program()
    if not program.columns:
        return None
    result = mathopt.run(running.to_mathopt(program)[0], "scip", Budget(60))
    return result.objective_value() if result.has_primal_feasible_solution() else None


def by_highs(path) -> float | None:
    """HiGHS's own optimum of a file; its solution is written beside it."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("mip_rel_gap", 0.0)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    highs.writeSolution(str(path.with_suffix(".sol")), 0)
    optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return highs.getInfo().objective_function_value if optimal else None


def by_scip(path) -> float | None:
    builder = model_builder.Model()
    assert builder.import_from_mps_file(str(path))
    solver = model_builder.Solver("scip")
    optimal = solver.solve(builder) == model_builder.SolveStatus.OPTIMAL
    return solver.objective_value if optimal else None


@pytest.mark.parametrize(("name", "entry"), LINEAR)
@draws(1, 3)
def test_files_are_solved_by_other_tools_and_the_optimum_comes_back(name, entry, count, tmp_path):
    compared = 0
    for problem, best in instances(name, count, seed=11):
        model = ks.model(problem, entry.kind)
        value = native_optimum(model)
        if value is None:
            continue
        program = model.program()
        assert all(not re.search(r"\s", name) for name in [*program.columns, *program.rows])
        assert len(set(program.columns)) == len(program.columns)
        mps, lp = model.write(tmp_path / "m.mps"), model.write(tmp_path / "m.lp")
        near = pytest.approx(value, rel=1e-6, abs=1e-6)
        if program.squares:  # HiGHS reads it, and takes its relaxation only
            assert highspy.Highs().readModel(str(mps)) == highspy.HighsStatus.kOk
            assert highspy.Highs().readModel(str(lp)) == highspy.HighsStatus.kOk
        else:
            for path in (mps, lp):
                assert by_highs(path) == near
                back = ks.model(problem, entry.kind).read(path.with_suffix(".sol"))
                assert same(problem, back.objective, best), (problem.arguments(), back, best)
            assert by_scip(mps) == near
        nl = model.write(tmp_path / "m.nl")
        assert nl.read_text().startswith("g3")
        assert len((tmp_path / "m.col").read_text().split()) <= len(program.columns)
        compared += 1
    assert compared >= max(1, count - 1)


@pytest.mark.parametrize(("name", "entry"), [case for case in CASES if case.values[1].language == "cp-sat"])
def test_cp_sat_protos_are_read_back_with_the_same_optimum(name, entry, tmp_path):
    for problem, _ in instances(name, 2, seed=12):
        model = ks.model(problem, entry.kind)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(model.native)
        text = model.write(tmp_path / "m.txt").read_text()
        again = cp_model.CpModel()
        assert again.proto.parse_text_format(text)
        other = cp_model.CpSolver()
        other.parameters.num_workers = 1
        assert other.solve(again) == status
        if status == cp_model.OPTIMAL:
            assert other.objective_value == solver.objective_value
            assert entry.exact is False or model.assignment(solver) is not None
        assert model.write(tmp_path / "m.pb").stat().st_size > 0


@pytest.mark.parametrize(("name", "entry"), CASES)
def test_a_model_shows_itself(name, entry):
    problem, _ = next(drawn(name, 1, 5))
    model = ks.model(problem, entry.kind)
    assert repr(model).startswith(f"Model({name} in {entry.kind}")
    said = model.algebra()
    assert said.startswith("minimise")
    assert max(map(len, said.splitlines())) <= 80
    assert len(model.algebra(every=True)) >= len(said)
    with pytest.raises(ks.InputError, match="is written as"):
        model.write("model.xlsx")


def test_weights_as_printed_trade_the_one_sided_deviations(tmp_path):
    """Against every assignment under w1 d - w2 (d_u + d_l), with weights so near that a worse d is worth it."""
    rng, differs, weights = np.random.default_rng(31), 0, (2.2, 1.0)
    for _ in range(12):
        problem = BY_NAME["key-group-allocation"].random_problem(rng, 5, 3)
        if problem.several or problem.conflicts() or (best := least(problem)) is None:
            continue

        def printed(a: np.ndarray) -> float:
            m = problem.metrics(a)  # noqa: B023
            return weights[0] * m["load_distance"] - weights[1] * (2 * m["load_distance"] - m["deviation_sum"])

        kept = [a for a in candidates(problem) if not problem.violations(a)]
        model = ks.model(problem, "pyomo", weights=weights)
        found = model.solve()
        as_printed = pytest.approx(min(map(printed, kept)), abs=10 * problem.tolerance)
        assert printed(found.assignment) == as_printed
        assert by_highs(model.write(tmp_path / "m.mps")) == as_printed
        assert found.bound <= best + problem.tolerance
        differs += found.objective > best + problem.tolerance
        assert model.as_stated()
    assert differs
    with pytest.raises(ks.InputError, match="has no option 'weights'"):
        ks.model(problem, "cp-sat", weights=weights)
