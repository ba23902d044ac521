"""solve: limits, interruptions, starts, checks of what methods claim."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import keyshift as ks
from keyshift.catalogue import FORMULATIONS, find_method, formulation_of
from keyshift.comparison import Comparison
from keyshift.models import Answer, Budget, Solution, Workload
from keyshift.models.base.figures import figure
from keyshift.solving import best_start


def small(**options):
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    return ks.KeyGroupAllocation(w, **options)


def large(p=200, n=20, seed=0):
    rng = np.random.default_rng(seed)
    w = ks.Workload(load=rng.random(p), state=np.ones(p), current=rng.integers(0, n, p), nodes=n)
    return ks.KeyGroupAllocation(w, max_migrations=15)


# What Solution makes of an answer ---------------------------------------------------------------------------------


def test_a_bound_above_a_checked_objective_is_refused():
    with pytest.raises(ks.models.BoundError, match="claims the bound 2, but a checked assignment has objective 0"):
        Solution.of(small(), "liar", Answer(np.array([0, 1, 1, 1]), bound=2.0), 0.0)


def test_a_bound_a_hair_above_is_pulled_down():
    solution = Solution.of(small(), "m", Answer(np.array([0, 1, 1, 1]), bound=1e-8), 0.0)
    assert solution.bound == solution.objective == 0
    assert solution.status == "optimal"
    assert solution.gap_abs == 0
    assert solution.gap is None  # undefined at an objective of 0


def test_an_assignment_that_breaks_a_rule_does_not_leave():
    solution = Solution.of(small(max_migrations=1), "m", Answer(np.array([0, 1, 1, 1]), bound=0.0), 0.0)
    assert (solution.status, solution.assignment, solution.objective) == ("none", None, None)
    assert solution.bound == 0
    assert solution.gap_abs is None
    assert "3 key groups move" not in solution.message
    assert "2 key groups move, the limit is 1" in solution.message
    assert solution.message in repr(solution)


def test_no_bound_is_none_and_not_infinity():
    solution = Solution.of(small(), "m", Answer(np.array([0, 0, 0, 1]), bound=-math.inf), 0.0)
    assert solution.bound is None
    assert solution.gap is None
    assert solution.status == "feasible"


def test_gap_is_relative_to_the_objective():
    solution = Solution.of(small(), "m", Answer(np.array([0, 0, 0, 1]), bound=4.0), 0.0)
    assert (solution.objective, solution.gap_abs, solution.gap) == (5, 1, 0.2)


# Starts -----------------------------------------------------------------------------------------------------------


def test_a_start_may_be_a_solution_or_an_array():
    first = ks.solve(small(max_migrations=1), "flux")
    for start in (first, first.assignment, first.assignment.tolist()):
        assert ks.solve(small(max_migrations=1), "cp-sat", start=start).status == "optimal"


def test_a_bad_start_is_refused():
    with pytest.raises(ks.InputError, match="the start is not feasible: 2 key groups move, the limit is 1"):
        ks.solve(small(max_migrations=1), start=[0, 1, 1, 1])
    with pytest.raises(ks.InputError, match="the start holds no assignment"):
        ks.solve(small(), start=ks.solve(small(), "lp"))
    with pytest.raises(ks.InputError, match=r"assignment has shape \(2,\)"):
        ks.solve(small(), start=[0, 1])


def test_a_false_infeasible_does_not_outweigh_a_checked_start(monkeypatch):
    import keyshift.solvers.allocation.statement as statements

    def mistaken(problem, *, budget, seed=0, start=None):
        return Answer(None, termination="infeasible", message="no")

    monkeypatch.setattr(statements, "solve_cpsat", mistaken)
    solution = ks.solve(small(max_migrations=1), "cp-sat")
    assert solution.status == "feasible"
    assert solution.bound is None
    assert "which its start disproves" in solution.message


def test_without_a_feasible_candidate_there_is_no_start():
    problem = small(resource_capacity={"load": 7})
    for asked, budget in ((find_method(problem, "flux"), Budget()), (find_method(problem, "milp"), Budget(0.0))):
        assert best_start(problem, asked, budget, 0) is None


def test_a_heuristic_begins_where_everything_runs_unless_that_breaks_a_limit():
    traffic, load = np.array([[0, 0, 9, 0], [0, 0, 0, 9], [0, 0, 0, 0], [0, 0, 0, 0]]), [3, 2, 3, 2]
    for current, kept in (([0, 0, 1, 1], True), ([0, 0, 0, 1], False)):
        w = Workload(load=load, state=np.ones(4), current=current, nodes=2, traffic=traffic)
        problem = ks.CollocatedAllocation(w, max_load_distance=40.0)
        start = best_start(problem, find_method(problem, "local-search"), Budget(), 0)
        assert start is not None
        assert not problem.violations(start)
        assert (start == w.current).all() == kept


# Limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [m.name for m in FORMULATIONS["key-group-allocation"].methods if m.kind == "exact"])
def test_a_limit_returns_the_best_so_far_with_its_bound(method):
    problem = large()
    solution = ks.solve(problem, method, time_limit=0.5)
    assert solution.termination in ("time_limit", "optimal")
    assert solution.objective <= ks.solve(problem, "flux").objective
    assert 0 <= solution.bound <= solution.objective


def test_no_time_at_all_still_returns_the_start():
    start = ks.solve(large(), "flux")
    for method in ("milp", "cp-sat"):
        solution = ks.solve(large(), method, time_limit=0, start=start)
        assert solution.objective <= start.objective


def test_parts_of_a_budget_end_with_the_whole():
    whole = Budget(100.0)
    part = whole.part(0.5)
    assert 49 < part.remaining <= 50
    assert math.isinf(Budget().part(0.5).remaining)
    seen = []
    watched = Budget(None, lambda now: seen.append((now.objective, now.bound, now.note)))
    watched.part(0.1).report(objective=3.0)
    watched.report(bound=1.0, note="descent")
    assert seen == [(3.0, None, ""), (3.0, 1.0, "descent")]
    whole.interrupt()
    assert part.expired
    assert part.why == whole.why == "interrupted"
    assert Budget(0.0).why == "time_limit"


@pytest.mark.parametrize("method", ["milp", "cp-sat"])
def test_ctrl_c_returns_the_incumbent(method):
    # In a process of its own: a timer sends the signal that the terminal would send.
    code = f"""
        import os, signal, threading
        import keyshift as ks
        from keyshift.generators.allocation import synthetic_workload
        problem = ks.KeyGroupAllocation(synthetic_workload(20, 400, varies=0.2, seed=1), max_migrations=20)
        ks.solve(ks.KeyGroupAllocation(ks.Workload(load=[1], state=[1], current=[0], nodes=1)), {method!r})
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        s = ks.solve(problem, {method!r}, time_limit=60)
        print(s.termination, s.assignment is not None, s.bound is not None, s.seconds < 30)
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["interrupted True True True", "True"]


def test_solve_works_outside_the_main_thread():
    found = []
    worker = threading.Thread(target=lambda: found.append(ks.solve(small(), "flux")))
    worker.start()
    worker.join()
    assert found[0].status == "feasible"


# The catalogue ------------------------------------------------------------------------------------------------------


def test_the_default_method_is_the_first_and_exact():
    assert find_method(small(), None).kind == "exact"
    for formulation in FORMULATIONS.values():
        assert formulation.methods[0].kind == "exact"
        assert len({m.name for m in formulation.methods}) == len(formulation.methods)
        for method in formulation.methods:
            assert method.source
            assert callable(method.function)
            assert set(method.starts) <= {m.name for m in formulation.methods}


def test_what_is_no_problem_is_refused():
    with pytest.raises(ks.InputError, match="int is not one of keyshift's problems"):
        ks.solve(3)
    with pytest.raises(ks.InputError, match="Workload is not one of keyshift's problems"):
        formulation_of(Workload(load=[1], state=[1], current=[0], nodes=1))


# compare ------------------------------------------------------------------------------------------------------------


def test_compare_holds_every_method_and_their_best(tmp_path):
    comparison = ks.compare(small(max_migrations=1), rounds=1)
    frame = comparison.to_frame()
    assert list(frame["method"]) == [m.name for m in ks.methods(comparison.problem)]
    assert comparison.best.objective == frame["objective"].min()
    assert comparison.best_bound == frame["bound"].max()
    assert comparison["flux"].details["rounds"] == 1
    with pytest.raises(KeyError):
        comparison["magic"]
    assert "load distance" in str(comparison)
    figure = comparison.plot(tmp_path / "c.svg")
    assert len(figure.axes) == 2
    assert all(axes.get_xlabel() for axes in figure.axes)
    with pytest.raises(ks.InputError, match="is written as one of"):
        comparison.plot(tmp_path / "c.doc")


def test_compare_without_any_assignment_still_draws():
    comparison = ks.compare(small(), ["lp"])
    assert comparison.best is None
    assert len(comparison.plot().axes) == 1


def test_nodes_that_come_with_an_answer_are_drawn():
    w = ks.Workload(load=[1] * 8, state=[1] * 8, current=[0] * 5 + [1] * 3, nodes=2)
    loads, _ = ks.compare(ks.IntervalMigration(w, nodes_after=3, tau=0.2), ["ssm"]).plot().axes
    assert sorted(bar.get_height() for bar in loads.patches) == [0, 3, 5]
    assert sorted(loads.lines[0].get_ydata()) == [2, 3, 3]


def test_numbers_are_short():
    assert [figure(v) for v in (None, 3.0, 1234567.0, 0.123456789)] == ["-", "3", "1,234,567", "0.123457"]


def test_the_gap_means_the_same_everywhere():
    w = ks.Workload(load=[5, 4, 3, 3], state=[1] * 4, current=[0] * 4, nodes=2)
    s = Solution.of(ks.KeyGroupAllocation(w), "own", Answer([0, 1, 1, 0], 0.25), 0.0)
    assert (s.objective, s.gap_abs, s.gap) == (0.5, 0.25, 0.5)
    assert "gap 50.0 %" in repr(s)
    assert "50.0 %" in str(Comparison(s.problem, (s,)))
    assert "% of" in str(Comparison(s.problem, (s,)))
