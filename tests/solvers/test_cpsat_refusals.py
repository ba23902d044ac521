"""What CP-SAT cannot take is said, and the start handed back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models import Budget
from keyshift.solvers import cpsat


def test_numbers_too_large_for_it_end_with_the_start():
    """Other methods may take them: a comparison of all goes on."""
    model = cp_model.CpModel()
    model.minimize(sum(2**40 * model.new_int_var(0, 2**40, f"x{i}") for i in range(2)))
    statement = SimpleNamespace(model=model, set_start=lambda start: None, bound=float)
    start = np.array([0, 1])
    answer = cpsat.solve(statement, Budget(5), start)
    assert (answer.assignment is start, answer.bound, answer.termination) == (True, 0.0, "gap")
    assert (
        answer.message
        == "CP-SAT refuses the model, whose numbers must fit 64 bits: Possible integer overflow in objective"
    )


def test_an_optimum_is_its_own_bound():
    """A bound near 1e16 is a float, several units off; the solution's own value is not."""
    model = cp_model.CpModel()
    x = model.new_int_var(0, 10**8, "x")
    square = model.new_int_var(0, 10**16, "square")
    model.add(x >= 99_999_989)
    model.add_multiplication_equality(square, [x, x])
    model.minimize(square + 7)
    outcome = cpsat.minimise(model, Budget())
    assert (outcome.termination, outcome.bound) == ("optimal", 99_999_989**2 + 7)
