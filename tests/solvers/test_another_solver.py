"""Another solver in HiGHS's place: the lesson's own class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers import highs

LESSON = Path(__file__).parents[2] / "docs" / "lessons" / "own-formulation.md"
_, cell, *_ = LESSON.read_text().split("## Replace HiGHS")[1].split("```{code-cell} ipython3\n")
SPACE: dict = {}
exec(cell.split("```")[0], SPACE)


def problems():
    rng = np.random.default_rng(3)
    for _ in range(2):
        w = ks.Workload(
            load=rng.integers(1, 20, 12) * 1e6,
            state=rng.integers(1, 9, 12),
            current=rng.integers(0, 3, 12),
            nodes=3,
        )
        mean = w.last_load.sum() / w.nodes
        yield ks.MovementWithinLimits(w, 0.9 * mean, 1.1 * mean)


@pytest.mark.parametrize("method", ["lp", "milp"])
def test_it_gives_the_same_answers(method):
    for problem in problems():
        expected, solver = ks.solve(problem, method), SPACE["ByMathOpt"]()
        with highs.solved_by(solver):
            found = ks.solve(problem, method)
        assert solver.runs
        assert (found.status, found.objective) == (expected.status, expected.objective)
        assert found.bound == pytest.approx(expected.bound, rel=1e-5)


def test_a_solver_that_gives_again_what_was_cut_off_is_not_asked_for_ever():
    class Careless(SPACE["ByMathOpt"]):
        def run(self, program, budget, **more):
            result = super().run(program, budget, **more)
            result.values = np.zeros(program.cost.size)
            return result

    (problem, *_), solver = problems(), Careless()
    expected = ks.solve(problem, "milp")
    with highs.solved_by(solver):
        found = ks.solve(problem, "milp")
    assert solver.runs == 2
    assert (found.status, found.objective) == ("optimal", expected.objective)


def test_highs_is_back_after_an_error():
    class Broken:
        def run(self, program, budget, **more):
            raise ks.InputError("no licence")

    (problem, *_) = problems()
    with highs.solved_by(Broken()), pytest.raises(ks.InputError, match="no licence"):
        ks.solve(problem, "lp")
    assert ks.solve(problem, "lp").bound is not None


def test_what_its_tolerances_may_have_cost_is_taken_off_the_bound():
    class Coarse(SPACE["ByMathOpt"]):
        def run(self, program, budget, **more):
            result = super().run(program, budget, **more)
            result.error_bound = 0.5 * result.bound  # what it solves is scaled
            return result

    from keyshift.models.movement.pyomo_model import MovementPyomo

    (problem, *_) = problems()
    program, _ = highs.compile_model(MovementPyomo(problem).model)
    exact = highs.minimise(program, Budget())
    with highs.solved_by(Coarse()):
        coarse = highs.minimise(program, Budget())
    assert exact.bound == exact.values @ program.cost + program.offset
    assert coarse.bound < exact.bound
