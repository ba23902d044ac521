"""Bounds survive exact arithmetic; floats become integers without silent loss."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from keyshift.models.base.integers import scaled
from keyshift.solvers.safe_bounds import LinearProgram, dual_bound


def exact_dual_value(program: LinearProgram, y: np.ndarray) -> Fraction:
    """The same bound in fractions, straight from its definition."""
    total = Fraction(program.offset)
    dense = program.matrix.toarray()
    for r, multiplier in enumerate(y):
        limit = program.row_lower[r] if multiplier > 0 else program.row_upper[r]
        total += Fraction(multiplier) * Fraction(limit) if multiplier else 0
    for j, cost in enumerate(program.cost):
        reduced = Fraction(cost) - sum(Fraction(a) * Fraction(m) for a, m in zip(dense[:, j], y, strict=True))
        limit = program.column_lower[j] if reduced > 0 else program.column_upper[j]
        total += reduced * Fraction(limit) if reduced else 0
    return total


def random_program(rng: np.random.Generator) -> LinearProgram:
    rows, columns = rng.integers(1, 6, 2)
    matrix = rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-3, 4, (rows, 1))
    low = rng.normal(size=rows) * 10
    return LinearProgram(
        cost=rng.normal(size=columns),
        offset=float(rng.normal()),
        matrix=sp.csr_array(matrix),
        row_lower=low,
        row_upper=low + rng.random(rows),
        column_lower=-rng.random(columns) * 5,
        column_upper=rng.random(columns) * 1e6,
        integer=np.zeros(columns, dtype=bool),
    )


@pytest.mark.parametrize("seed", range(200))
def test_the_float_bound_never_exceeds_the_exact_one(seed):
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    y = rng.normal(size=program.row_lower.size) * 10.0 ** rng.integers(-6, 7)
    exact = exact_dual_value(program, y)
    safe = dual_bound(program, y)
    assert Fraction(safe) <= exact
    assert safe >= float(exact) - 1e-9 * (abs(float(exact)) + np.abs(y).sum() * 1e10)


@pytest.mark.parametrize("seed", range(50))
def test_a_column_without_an_upper_limit_has_a_bound(seed):
    """The largest of some loads that its rows keep from below: multipliers that sum to a hair above 1 would say nothing."""
    rng = np.random.default_rng(seed)
    loads = rng.random(5) * 10.0 ** rng.integers(-9, 10)
    matrix = sp.csr_array(np.column_stack([np.ones(5), -np.diag(loads)]))
    program = LinearProgram(
        cost=np.array([1.0, 0, 0, 0, 0, 0]), offset=0.0, matrix=matrix, row_lower=np.zeros(5), row_upper=np.full(5, np.inf),
        column_lower=np.array([0.0, 1, 1, 1, 1, 1]), column_upper=np.array([np.inf, 1, 1, 1, 1, 1]), integer=np.zeros(6, bool),
    )  # fmt: skip
    y = np.where(loads == loads.max(), 1 + 1e-12 * rng.random(), 0)
    assert loads.max() * (1 - 1e-11) <= dual_bound(program, y) <= loads.max()
    y = rng.random(5)  # of whatever sum
    assert loads @ y / max(y.sum(), 1.0) * (1 - 1e-11) <= dual_bound(program, y) <= loads.max()


def test_a_multiplier_on_a_missing_side_is_dropped():
    program = LinearProgram(
        cost=np.array([1.0]), offset=0.0, matrix=sp.csr_array([[1.0]]), row_lower=np.array([-np.inf]),
        row_upper=np.array([2.0]), column_lower=np.array([0.0]), column_upper=np.array([5.0]), integer=np.array([False]),
    )  # fmt: skip
    assert dual_bound(program, np.array([3.0])) == pytest.approx(0.0)  # not 3 * -inf
    free_above = LinearProgram(**{**vars(program), "row_lower": np.array([1.0]), "row_upper": np.array([np.inf])})
    assert dual_bound(free_above, np.array([1.0])) == pytest.approx(1.0)
    assert dual_bound(free_above, np.array([-1.0])) == pytest.approx(0.0)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_whole_numbers_and_dyadics_are_exact(values):
    numbers = np.array(values, dtype=float) / 8
    made = scaled(numbers)
    assert made.exact
    assert [Fraction(int(v)) / made.scale for v in made.values] == [Fraction(x) for x in numbers]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
@example([1.001])  # the quotient of 1001 and 1000 is rounded, too
def test_rounding_stays_within_the_stated_error(values):
    numbers = np.array(values)
    made = scaled(numbers)
    assert int(made.values.sum()) <= 2**36 + numbers.size
    for value, number in zip(made.values, numbers, strict=True):
        assert abs(Fraction(int(value)) / made.scale - Fraction(number)) <= Fraction(made.error)
    finer = made.finer()
    assert [Fraction(int(v)) / finer.scale for v in finer.values] == [
        Fraction(int(v)) / made.scale for v in made.values
    ]


def test_decimals_keep_their_digits():
    made = scaled(np.array([0.7, 1.1, 2.0]))
    assert made.values.tolist() == [7, 11, 20]
    assert 0 < made.error < 1e-15


def test_zeros_are_zeros():
    assert scaled(np.zeros(3)).values.tolist() == [0, 0, 0]
