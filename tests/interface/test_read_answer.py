"""Solution files of other solvers, brought back by name."""

from __future__ import annotations

import highspy
import pytest
from instances import allocation, mclb
from ortools.linear_solver.python import model_builder

import keyshift as ks

PROBLEM = allocation.battery()["unequal nodes"]


@pytest.fixture(scope="module")
def best() -> float:
    return ks.solve(PROBLEM).objective


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_highs_reads_the_file_and_its_answer_comes_back(tmp_path, best, suffix):
    path = ks.model(PROBLEM).write(tmp_path / f"m{suffix}")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(path))
    highs.run()
    highs.writeSolution(str(tmp_path / "m.sol"), 0)
    solution = ks.model(PROBLEM).read(tmp_path / "m.sol")
    assert solution.objective == pytest.approx(best, abs=PROBLEM.tolerance)
    assert solution.method == "model:pyomo/HiGHS file"
    assert solution.bound is None
    assert solution.status == "feasible"


def values_by_scip(path) -> dict[str, float]:
    builder = model_builder.Model()
    assert builder.import_from_mps_file(str(path))
    solver = model_builder.Solver("scip")
    assert solver.solve(builder) == model_builder.SolveStatus.OPTIMAL
    return {v.name: solver.value(v) for v in builder.get_variables()}


def written(style: str, values: dict[str, float]) -> str:
    """A solution as each solver writes it; the wheel of OR-Tools has no SCIP that writes files itself."""
    if style == "SCIP":
        rows = [f"{n:<40} {v:>20.15g} \t(obj:0)" for n, v in values.items() if v != 0]
        return "\n".join(["solution status: optimal solution found", "objective value:          1.5", *rows, ""])
    if style == "CBC":
        rows = [f"{j:>7} {n} {v:>20.15g} 0" for j, (n, v) in enumerate(values.items()) if v != 0]
        return "\n".join(["Optimal - objective value 1.5", *rows, ""])
    return "\n".join(["# Objective value = 1.5", *(f"{n} {v!r}" for n, v in values.items()), ""])


@pytest.mark.parametrize("style", ["SCIP", "CBC", "Gurobi"])
def test_other_solvers_files_come_back(tmp_path, best, style):
    values = values_by_scip(ks.model(PROBLEM).write(tmp_path / "m.mps"))
    (tmp_path / "m.sol").write_text(written(style, values))
    solution = ks.model(PROBLEM).read(tmp_path / "m.sol")
    assert solution.objective == pytest.approx(best, abs=PROBLEM.tolerance)
    assert style in solution.method


def test_a_mathopt_model_comes_back_too(tmp_path):
    problem = mclb.battery()["ties"]
    solution = ks.model(problem, "mathopt").solve()
    model = ks.model(problem, "mathopt")
    values = {
        v.name: float(model.statement.hint(solution.assignment).variable_values.get(v, 0))
        for v in model.native.variables()
    }
    (tmp_path / "m.sol").write_text(written("SCIP", values))
    assert ks.model(problem, "mathopt").read(tmp_path / "m.sol").objective == solution.objective


def test_an_answer_that_breaks_the_rules_is_offered_only(tmp_path):
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    (tmp_path / "m.sol").write_text(written("SCIP", {f"x[k{k},n1]": 1.0 for k in range(4)}))
    solution = ks.model(ks.KeyGroupAllocation(w, max_migrations=1)).read(tmp_path / "m.sol")
    assert solution.assignment is None
    assert solution.offered.tolist() == [1, 1, 1, 1]
    assert solution.violations


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a solution file"),
        ("hello\n", "is not a solution file"),
        ("solution status: optimal solution found\nobjective value: 3\ny[7] 1 (obj:0)\n", "another model"),
        ("solution status: optimal solution found\nobjective value: 3\nd\n", "names no value"),
        ("solution status: infeasible\nno solution available\n", "found no solution"),
        ("Model status\nInfeasible\n\n# Primal solution values\nNone\n", "found no solution"),
        ("# Objective value = 1\nd nan\n", "not a finite value"),
    ],
)
def test_foreign_files_are_refused_in_one_sentence(tmp_path, text, sentence):
    (tmp_path / "m.sol").write_text(text)
    with pytest.raises(ks.InputError, match=sentence):
        ks.model(PROBLEM).read(tmp_path / "m.sol")


def test_no_file_and_no_text_are_refused(tmp_path):
    with pytest.raises(ks.InputError, match="does not exist"):
        ks.model(PROBLEM).read(tmp_path / "none.sol")
    (tmp_path / "m.sol").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ks.InputError, match="not text"):
        ks.model(PROBLEM).read(tmp_path / "m.sol")
