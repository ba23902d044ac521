"""Numbers of any size, at the seam to HiGHS, CP-SAT and the maximum flow: the same answer in other units."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import keyshift as ks
from keyshift.models import Answer, Budget, Solution
from keyshift.models.answer import LimitReached
from keyshift.models.base.integers import capped, scaled
from keyshift.solvers import cpsat, highs
from keyshift.solvers.safe_bounds import LinearProgram, in_units, without_small
from keyshift.solvers.threads import until_limit

EXACT = ("ssm", "milp", "cp-sat", "ssm-repaired", "simple-ssm")
STEPS = ("oms", "milp", "cp-sat")


def migration(unit: float = 1.0, load_unit: float = 1.0) -> ks.Workload:
    return ks.Workload(
        load=np.array([4.0, 5, 5, 7, 1, 3]) * load_unit,
        state=np.array([3.0, 3, 8, 7, 3, 1]) * unit,
        current=[2, 2, 2, 2, 1, 1],
        nodes=3,
    )


@pytest.mark.parametrize("method", EXACT)
def test_state_in_bytes(method):
    w = ks.Workload(load=[0.4, 0.5, 0.5, 0.7, 0.1], state=[3e9, 3e9, 8e9, 7e9, 3e9], current=[2, 2, 2, 2, 1], nodes=3)
    solution = ks.solve(ks.IntervalMigration(w, 1, 0.5), method)
    assert (solution.status, solution.objective, solution.bound) == ("optimal", 3e9, 3e9)


@pytest.mark.parametrize("unit", [2.0**-30, 1e-9, 1e9, 1e12, 1 / 3])
def test_units_change_nothing(unit):
    for problem, plain, methods in (
        (ks.IntervalMigration(migration(unit, unit), 2, 0.3), ks.IntervalMigration(migration(), 2, 0.3), EXACT),
        (ks.MigrationSequence(migration(unit), [2, 3], 0.4), ks.MigrationSequence(migration(), [2, 3], 0.4), STEPS),
    ):
        best = ks.solve(plain).objective
        for method in methods:
            solution = ks.solve(problem, method)
            assert solution.status == solution.termination == "optimal", solution
            assert solution.objective == pytest.approx(best * unit, rel=1e-12), solution
            assert solution.objective - solution.bound <= 1e-6 * solution.objective


@pytest.mark.parametrize("method", EXACT)
def test_what_hardly_moves_is_found_beside_what_weighs_a_trillion(method):
    """Within a millionth of all the state everything is optimal; the answer's own size says which is."""
    w = ks.Workload(load=np.ones(6), state=[1e12, 5, 4e-9, 1e-9, 1e-9, 7e9], current=[0, 0, 0, 0, 1, 1], nodes=2)
    solution = ks.solve(ks.IntervalMigration(w, 2, 0), method)
    assert (solution.status, solution.objective) == ("optimal", 1e-9)
    assert solution.tolerance == 1e-15
    assert 1e-9 - 1e-15 <= solution.bound <= 1e-9


@pytest.mark.parametrize("method", STEPS)
def test_a_sequence_counts_in_units_of_its_answer(method):
    w = ks.Workload(load=np.ones(6), state=[1e12, 5, 4e-9, 1e-9, 1e-9, 7e9], current=[0, 0, 0, 0, 1, 1], nodes=2)
    solution = ks.solve(ks.MigrationSequence(w, [2, 2], 0), method)
    assert (solution.status, solution.objective) == ("optimal", 1e-9)


def test_a_coarse_bound_proves_nothing_fine():
    problem = ks.IntervalMigration(migration(), 2, 0.3)
    found = ks.solve(problem)
    close = Solution.of(problem, "x", Answer(found.assignment, found.objective * (1 - 1e-7)), 0.0)
    coarse = Solution.of(problem, "x", Answer(found.assignment, found.objective * (1 - 1e-5)), 0.0)
    assert (close.status, coarse.status) == ("optimal", "feasible")
    assert coarse.tolerance == 1e-6 * found.objective


@pytest.mark.parametrize("method", STEPS)
def test_draining_nodes_may_hold_nearly_all_state(method):
    w = ks.Workload(load=[0] * 3, state=[1e-4, 1, 1], current=[1, 0, 0], nodes=2, draining=[True, False])
    solution = ks.solve(ks.MigrationSequence(w, [1, 2], 2), method)
    assert (solution.status, solution.objective) == ("optimal", 2.0)


@pytest.mark.parametrize("method", ["mtm", "value-iteration", "lp", "potentials", "mtm-restricted", "ssm"])
def test_counts_that_cannot_come_bind_nobody(method):
    w = ks.Workload(load=[3, 2, 1, 1, 2], state=[1] * 5, current=[0, 0, 1, 1, 1], nodes=2)
    matrix = {2: {2: 0.5, 3: 0.5}, 3: {2: 1}, 4: {2: 1, 4: 0.0}}  # four nodes could not carry the tasks
    solution = ks.solve(ks.MigrationPolicy(w, matrix, 0.2, 0.9), method)
    assert solution.objective == pytest.approx(13.1034, abs=1e-4)
    revealed = ks.MigrationPolicy(w, matrix, 0.2, 0.9, nodes_after=4)
    assert ks.solve(revealed, method).status == "infeasible"


@pytest.mark.parametrize("unit", [1e-9, 1e12])
def test_a_policy_in_other_units(unit):
    matrix = {3: {2: 0.5, 3: 0.5}, 2: {3: 1.0}}
    best = ks.solve(ks.MigrationPolicy(migration(), matrix, 0.5, 0.9)).objective
    for method in ("mtm", "value-iteration", "lp"):
        solution = ks.solve(ks.MigrationPolicy(migration(unit), matrix, 0.5, 0.9), method)
        assert solution.status == "optimal", solution
        assert solution.objective == pytest.approx(unit * best, rel=1e-6)


@pytest.mark.parametrize("method", ["flow", "milp"])
@pytest.mark.parametrize("unit", [1e-17, 1.0, 1e4])
def test_weights_of_any_size(method, unit):
    problem = ks.KeySplitting(
        ["日本"] * 4, workers=[1, 3, 2, 2], choices=2, hash_seed=8, weights=np.array([8e8, 9e8, 9e8, 1e8]) * unit
    )
    solution = ks.solve(problem, method)
    assert solution.status == solution.termination == "optimal"
    assert solution.objective == pytest.approx(1.7e9 / 3 * unit, rel=1e-12)


@pytest.mark.parametrize("method", ["milp", "flow"])
def test_weights_nearly_equal_are_told_apart(method):
    """With its rule for equations of two columns HiGHS's presolve proves 3000020000000 here."""
    weights = [1000010000000.0001, 1e12, 1000000000001.0001, 1e12, 1e12, 1000010000000.0001]
    problem = ks.KeySplitting([5, 5, 5, -(2**63), 5, -1], workers=2, choices=2, hash_seed=41, weights=weights)
    solution = ks.solve(problem, method)
    assert solution.objective == pytest.approx(3000010000001, rel=1e-9)
    assert solution.bound <= solution.objective


@pytest.mark.parametrize("method", ["milp", "cp-sat"])
def test_a_limit_beyond_all_load_binds_nobody(method):
    w = ks.Workload(load=[3e-9, 1e9, 5], state=[1, 1, 1], current=[0, 0, 1], nodes=2, home=[0, 0, 1])
    assert ks.solve(ks.MixedRouting(w, 1e6), method).objective == 0


@pytest.mark.parametrize("method", ["flow", "milp"])
def test_a_weight_of_trillions_beside_none(method):
    """HiGHS looped for ever on it in the numbers as they are."""
    problem = ks.KeySplitting(["a", "a"], workers=2, hash_seed=41, weights=[0, 2e12])
    assert ks.solve(problem, method, time_limit=10.0).objective == 2e12


def test_a_billionth_beside_a_million():
    """HiGHS's presolve called it infeasible."""
    stream = [0, 9223372036854775807, -9223372036854775808, 5]
    problem = ks.KeyPlacement(stream, workers=4, hash_seed=0, weights=[1e-9, 0.0001, 1000000.0, 1e-6])
    assert ks.solve(problem).status == "optimal"


def test_speeds_far_apart():
    problem = ks.KeySplitting(np.arange(40) % 7, workers=[1e6, 1e-3, 3.0], choices=None)
    flow, milp = ks.solve(problem, "flow"), ks.solve(problem, "milp")
    assert flow.status == milp.status == "optimal"
    assert flow.objective == milp.objective == pytest.approx(40 / 1e6)


# The layer itself ---------------------------------------------------------------------------------------------


def knapsack(cost_unit: float, row_unit: float) -> LinearProgram:
    """Take at least 10 of weights 3, 4, 5, 6 at costs 4, 5, 6, 8, and a continuous rest at 3 a unit."""
    return LinearProgram(
        cost=np.array([4.0, 5, 6, 8, 3]) * cost_unit, offset=0.0,
        matrix=sp.csr_array(np.array([[3.0, 4, 5, 6, 1]]) * row_unit), row_lower=np.array([10.0]) * row_unit,
        row_upper=np.array([np.inf]), column_lower=np.zeros(5), column_upper=np.array([1.0, 1, 1, 1, 10]),
        integer=np.array([True, True, True, True, False]),
    )  # fmt: skip


@pytest.mark.parametrize("cost_unit", [2.0**-40, 1.0, 1e13])
@pytest.mark.parametrize("row_unit", [1e-11, 1.0, 1e12])
def test_highs_sees_numbers_near_one(cost_unit, row_unit):
    program = knapsack(cost_unit, row_unit)
    made, units = in_units(program)
    assert 2**-7 <= abs(made.matrix).max() <= 2**7
    assert 2**-7 <= np.abs(made.cost).max() <= 2**7
    back = sp.diags_array(1 / units.rows) @ made.matrix @ sp.diags_array(1 / units.columns)
    np.testing.assert_array_equal(back.toarray(), program.matrix.toarray())  # powers of two: not a digit changed
    result = highs.minimise(program, Budget())
    assert result.termination == "optimal"
    assert program.cost @ result.values == pytest.approx(13 * cost_unit, rel=1e-7)
    assert (13 - 1e-5) * cost_unit <= result.bound <= 13 * cost_unit


def test_a_sum_of_continuous_columns_takes_its_unit_from_its_parts():
    """Maximise t <= 6e9 (z1 + z2), z <= x, x1 + x2 <= 1: with t in units of 1, HiGHS drops it from its row as too small."""
    program = LinearProgram(
        cost=np.array([-1.0, 0, 0, 0, 0]), offset=6e9,
        matrix=sp.csr_array(np.array([
            [1.0, -6e9, -6e9, 0, 0], [0, 1, 0, -1, 0], [0, 0, 1, 0, -1], [0, 0, 0, 1, 1], [0, 0, 0, 5, 7],
        ])),
        row_lower=np.full(5, -np.inf), row_upper=np.array([0.0, 0, 0, 1, 4]), column_lower=np.zeros(5),
        column_upper=np.array([6e9, 1, 1, 1, 1]), integer=np.array([False, False, False, True, True]),
    )  # fmt: skip
    made, _ = in_units(program)
    assert np.abs(made.matrix.data).min() > 0.01
    result = highs.minimise(program, Budget())
    assert result.bound == pytest.approx(6e9, rel=1e-6)
    np.testing.assert_allclose(result.values, 0, atol=1e-3)


def test_a_whole_objective_is_bounded_by_whole_numbers():
    program = knapsack(3e9, 1.0)
    whole = LinearProgram(**{**vars(program), "column_upper": np.array([1.0, 1, 1, 1, 0])})
    assert highs.minimise(whole, Budget()).bound == 13 * 3e9


def test_highs_takes_the_whole_columns_of_a_row_for_whole():
    """Of both, the presolve of HiGHS 1.14 makes a wrong optimum: a column of one row takes a whole column's part of it."""
    one_row = LinearProgram(
        cost=np.array([2.0, 3.0]), offset=0.0, matrix=sp.csr_array([[1.0, 1.0]]),
        row_lower=np.array([4.5]), row_upper=np.array([np.inf]),
        column_lower=np.zeros(2), column_upper=np.full(2, 10.0), integer=np.array([False, True]),
    )  # fmt: skip
    assert highs.minimise(one_row, Budget()).bound == pytest.approx(9, rel=1e-5)
    traffic = np.zeros((5, 5))
    traffic[[0, 0, 0, 2, 3, 3], [0, 2, 4, 1, 0, 1]] = np.array([3, 35, 15, 35, 56, 28]) / 21
    w = ks.Workload(
        load=[7.0, 7, 0, 0, 0], state=[7e10, 0.5, 1.3, 1.1, 2e8], current=[1, 1, 1, 1, 0], nodes=2, traffic=traffic
    )
    problem = ks.CollocatedAllocation(w, 0, alpha=1e-6, max_migration_cost=2e-4, distance_unit="load")
    assert ks.solve(problem, "milp-plain").objective == pytest.approx(78 / 21)


def test_highs_is_asked_again_without_presolve_where_coefficients_lie_far_apart():
    """With its presolve, all rules or few, HiGHS 1.13 overlooks a placement that attains a limit but for rounding."""
    traffic = np.zeros((3, 3))
    traffic[[0, 1, 1, 2, 2, 2], [1, 0, 2, 0, 1, 2]] = 0.96, 3.8e11, 3e4, 9e-7, 1e-9, 2.6e4
    w = ks.Workload(load=[1.0] * 3, state=[0.0] * 3, current=[1, 0, 2], nodes=[2.0, 1.1, 0.7],
                    draining=[False, False, True], traffic=traffic)  # fmt: skip
    problem = ks.CollocatedAllocation(w, serialisation=0.1, deserialisation=1e3, max_load_distance=99.9999777)
    assert ks.solve(problem, "milp-plain").assignment.tolist() == [1, 1, 0]


def test_a_float_off_by_its_last_place_is_no_proof_of_one_more():
    assert cpsat.whole_bound(225000000000.00006) == 225000000000
    assert cpsat.whole_bound(12.0000001) == 12
    assert cpsat.whole_bound(4165601.000021858, 320690891434 + 4165601) == 4165601
    assert cpsat.whole_bound(12.1) == 13


def test_a_start_below_the_bound_of_highs_disproves_it():
    """HiGHS 1.13 proves 4.2 with its presolve, whatever it starts from."""
    w = ks.Workload(load=[1e-6, 2.8, 0, 2.5, 1e-6], state=[1.0, 2.3, 0.6, 2.8, 1.6], current=[1, 0, 1, 1, 0], nodes=2)
    solution = ks.solve(ks.MovementWithinLimits(w, 0.0, 2.8, nodes_after=2), "milp")
    assert (solution.status, solution.objective) == ("optimal", 1.6)


def test_a_small_state_beside_a_large_one_that_stays_is_bounded_by_itself():
    w = ks.Workload(load=[0.0] * 2, state=[7 / 3, 3.0308737151598733e-05], current=[1, 0], nodes=3,
                    draining=[True, False, False])  # fmt: skip
    assert ks.solve(ks.IntervalMigration(w, 2, 0), "free").bound <= w.state[1]


def test_what_does_not_come_back_is_left_behind():
    never = threading.Event()
    budget = Budget()
    budget.interrupt()
    with pytest.raises(LimitReached):
        until_limit(budget, never.wait)  # not even begun
    with pytest.raises(LimitReached):
        until_limit(Budget(0.05), never.wait, grace=0.05)
    never.set()
    assert until_limit(Budget(), max, 3, 4) == 4
    with pytest.raises(ZeroDivisionError):
        until_limit(Budget(), lambda: 1 / 0)


def test_a_run_of_highs_that_is_left_keeps_what_its_callbacks_heard(monkeypatch):
    def deaf(budget, function, *arguments, **more):
        function(*arguments)
        raise LimitReached

    monkeypatch.setattr(highs, "until_limit", deaf)
    result = highs.minimise(knapsack(1.0, 1.0), Budget(1e-9 + 60))
    assert result.termination in ("time_limit", "completed")
    assert result.values is not None
    assert knapsack(1.0, 1.0).cost @ result.values >= 13 - 1e-6
    assert result.bound <= 13


def test_no_limit_no_time_limit():
    assert Budget().why == Budget(60.0).why == "completed"
    assert Budget(0.0).why == "time_limit"


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=12), st.sampled_from(["down", "up"]), st.integers(20, 52))
@settings(max_examples=200)
def test_rounding_in_a_stated_direction(values, direction, bits):
    numbers = np.array(values)
    made = scaled(numbers, bits, rounding=direction, decimals=False)
    for whole, number in zip(made.values.tolist(), values, strict=True):
        error = whole / made.scale - Fraction(number)
        assert abs(error) <= Fraction(made.error)
        assert error <= 0 if direction == "down" else error >= 0
    if direction == "down":
        assert Fraction(made.lower(made.total)) <= sum(map(Fraction, values)) * (1 + Fraction(1, 2**52))


def test_units_above_one_spare_the_digits():
    made = scaled(np.array([3e12, 5e12]), bits=36)
    assert made.exact
    assert made.scale < 1
    assert made.coarsest().values.tolist() == [3, 5]


@given(st.lists(st.floats(0, 1e15), min_size=2, max_size=8), st.data())
def test_capping_keeps_every_sum_that_matters(values, data):
    numbers = np.array(values)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    most = float(data.draw(st.floats(1e-9, 1e15)))
    less = capped(numbers, most)
    assert (less <= numbers).all()
    assert (less[chosen].sum() <= most) == (numbers[chosen].sum() <= most)
    if numbers[chosen].sum() <= most:
        assert less[chosen].sum() == numbers[chosen].sum()


def test_costs_far_apart_do_not_mislead_the_presolve():
    w = ks.Workload(
        load=[0.2493620178750665, 0.9236695614864057, 0.9522517865747573, 0.3249229296838352, 0.3683670819820527],
        state=[1e12, 1.8, 1e9, 1e-4, 1e6], current=[1] * 5, nodes=3,
    )  # fmt: skip
    problem = ks.MigrationSequence(w, [3, 2], 0.5)
    s = ks.solve(problem, "milp", seed=3)  # HiGHS's aggregator had proven 2.0e9
    assert s.objective == ks.solve(problem, "oms").objective == pytest.approx(1.002e9, rel=1e-9)


def test_what_a_solver_drops_cuts_nothing_off():
    """One level above a window of 1e11 and one of 1e-9, as over windows: in the smaller's unit the larger row would lose it."""
    matrix = np.array([[1e11, 0, -1, 0], [0, 1e-9, 0, -1], [0, 0, 1, -0.0], [0, 0, 0, 1]])
    level = np.array([[0.0], [0.0], [-1.0], [-1.0]])
    program = LinearProgram(
        cost=np.array([0.0, 0, 0, 0, 1]), offset=0.0, matrix=sp.csr_array(np.hstack([matrix, level])),
        row_lower=np.full(4, -np.inf), row_upper=np.zeros(4), column_lower=np.zeros(5),
        column_upper=np.array([1, 1, 1e11, 1e-9, np.inf]), integer=np.array([True, True, False, False, False]),
    )  # fmt: skip
    scaled, units = in_units(program)
    assert abs(scaled.matrix.toarray()[2, 4]) > 1e-3  # the level counts where the larger window is below it
    kept = without_small(scaled)
    assert np.abs(kept.matrix.data).min() > 1e-9
    for x in ([1, 1, 1e11, 1e-9, 1e11], [0, 1, 0, 1e-9, 1e-9], [0, 0, 0, 0, 0]):
        assert (kept.matrix @ units.start(np.array(x, dtype=float)) <= kept.row_upper).all()


def test_no_unit_is_larger_than_what_a_column_can_be():
    """z <= x, and z hardly counts beside a limit of millions: in the unit of that row, z and x together would be rounding error."""
    program = LinearProgram(
        cost=np.array([0.0, -1, 0]), offset=0.0, matrix=sp.csr_array([[1e6, 1.7, 2], [0, 1, -1]]),
        row_lower=np.full(2, -np.inf), row_upper=np.array([1e6, 0.0]), column_lower=np.zeros(3), column_upper=np.ones(3),
        integer=np.array([False, False, True]),
    )  # fmt: skip
    made, _ = in_units(program)
    assert made.column_upper[1] > 0.1
    assert np.abs(made.matrix.toarray()[1, 1:]).min() > 0.1


@pytest.mark.parametrize("start", [None, (1, 0, 0), (1, 1, 1)])
def test_a_limit_that_nothing_reaches_leaves_traffic_in_units_of_its_own(start):
    """HiGHS had proven 1e9, the traffic that two key groups save together: their row was in units of the load limit."""
    w = ks.Workload(
        load=[1.1, 6e-9, 2.3], state=np.zeros(3), current=[1, 0, 1], nodes=2,
        traffic=[[1e-4, 0, 0], [0, 1.54e11, 0], [6449243970.205284, 1e9, 0.04]],
    )  # fmt: skip
    problem = ks.CollocatedAllocation(
        w, max_migrations=1, serialisation=1.0, max_load_distance=1e8,
        rules=[ks.rules.Moves(at_most=0, key_groups=[0], out_of=[0, 1])],
    )  # fmt: skip
    s = ks.solve(problem, "milp-plain", start=start, seed=2)
    assert (s.status, s.objective) == ("optimal", 0)


def test_a_small_coefficient_widens_its_row_by_what_it_could_help():
    program = LinearProgram(
        cost=np.zeros(3), offset=0.0, matrix=sp.csr_array([[1.0, 1e-10, -2e-10]]), row_lower=np.array([-1.0]),
        row_upper=np.array([1.0]), column_lower=np.array([0.0, -1, 0]), column_upper=np.array([9.0, 2, 3]),
        integer=np.zeros(3, dtype=bool),
    )  # fmt: skip
    kept = without_small(program)
    assert kept.matrix.toarray().tolist() == [[1.0, 0.0, 0.0]]
    assert (kept.row_lower[0], kept.row_upper[0]) == pytest.approx((-1 - 2e-10, 1 + 7e-10), rel=1e-15)
    assert program.matrix.nnz == 3
