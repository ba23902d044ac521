"""Fronts of every pair of objectives, against all assignments of tiny instances."""

import json

import numpy as np
import pytest
from draws import rest_slow
from least import candidates

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.cli import main


def tiny(seed, traffic=False, home=False):
    rng = np.random.default_rng(seed)
    current = rng.integers(0, 3, 5)
    talk = rng.integers(0, 6, (5, 5)) * (1 - np.eye(5, dtype=int)) if traffic else None
    return ks.Workload(
        load=rng.integers(1, 9, 5), state=rng.integers(1, 5, 5), current=current, nodes=3,
        traffic=talk, home=rng.integers(0, 3, 5) if home else None,
    )  # fmt: skip


def few(seed):
    rng = np.random.default_rng(seed)
    return ks.Workload(load=rng.integers(1, 9, 4), state=[1, 1, 1, 1], current=rng.integers(0, 3, 4), nodes=3)


def tasks(seed):
    rng = np.random.default_rng(seed)
    return ks.Workload(load=rng.integers(1, 9, 6), state=rng.integers(1, 5, 6), current=[0, 0, 1, 1, 2, 2], nodes=3)


PAIRS = {
    ("key-group-allocation", "migrations"): lambda s: ks.KeyGroupAllocation(tiny(s)),
    ("key-group-allocation", "state-moved"): lambda s: ks.KeyGroupAllocation(tiny(s)),
    ("collocated-allocation", "migrations"): lambda s: ks.CollocatedAllocation(
        tiny(s, traffic=True), max_load_distance=80
    ),
    ("mixed-routing", "table-size"): lambda s: ks.MixedRouting(tiny(s, home=True), theta_max=0.6),
    ("mixed-routing", "theta"): lambda s: ks.MixedRouting(tiny(s, home=True), theta_max=1.0, max_table_size=4),
    ("interval-migration", "tau"): lambda s: ks.IntervalMigration(tasks(s), 4, 2),
    ("mclb", "state-moved"): lambda s: ks.MCLB(tiny(s)),
    ("replicated-allocation", "migrations"): lambda s: ks.ReplicatedAllocation(few(s), copies=6),
    ("replicated-allocation", "copies"): lambda s: ks.ReplicatedAllocation(few(s), copies=7),
}


def by_trying_everything(problem, trade):
    """All undominated pairs (second objective, objective) among all feasible assignments."""
    pairs = []
    for assignment in candidates(problem):
        report = problem.check(assignment)
        if report.feasible:
            pairs.append((report.metrics[trade.metric], report.objective))
    front = []
    for x, y in sorted(pairs):
        if not front or y < front[-1][1] - 1e-9:
            front.append((x, y))
    return front


@pytest.mark.parametrize(("name", "against"), PAIRS)
@pytest.mark.parametrize("seed", rest_slow(1, [1, 2]))
def test_the_whole_front_is_that_of_all_assignments(name, against, seed):
    problem = PAIRS[name, against](seed)
    trade = next(t for t in FORMULATIONS[name].trades if t.name == against)
    front = ks.pareto(problem, None, against=against)
    expected = by_trying_everything(problem, trade)
    assert front.trade == trade
    np.testing.assert_allclose(list(zip(front.second, front.objective, strict=True)), expected, atol=1e-6)
    for solution in front:
        assert solution.bound <= solution.objective
        assert solution.status == "optimal"


def test_every_trade_is_tried_here():
    traded = {(f.name, t.name) for f in FORMULATIONS.values() for t in f.trades}
    assert traded == {*PAIRS, ("key-splitting", "counters")}


def test_memory_against_the_largest_load_is_a_point_for_each_number_of_choices():
    stream = np.repeat(np.arange(6), [30, 9, 5, 4, 1, 1])
    front = ks.pareto(ks.KeySplitting(stream, workers=4, choices=None), None)
    every = [ks.solve(ks.KeySplitting(stream, workers=4, choices=d)) for d in (1, 2, 3, 4)]
    best = min(s.objective for s in every)
    assert front.objective[-1] == best
    assert (np.diff(front.second) > 0).all()
    assert (np.diff(front.objective) < 0).all()
    for point in front:
        assert any(point.objective == s.objective for s in every)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A problem, its whole front, and the file that keeps it."""
    ((_, problem),) = ks.family("madsen-allocation", nodes=3, key_groups=12, max_migrations=8)
    file = tmp_path_factory.mktemp("front") / "front.json"
    return problem, ks.pareto(problem, None, checkpoint=file), file


def test_a_few_points_lie_on_the_whole_front_and_a_start_adds_its_own(traced):
    problem, whole, _ = traced
    few = ks.pareto(problem, 3)
    for moved, value in zip(few.second, few.objective, strict=True):
        assert value == pytest.approx(whole.objective[whole.second <= moved].min(), abs=1e-9)
    flux = ks.solve(problem, "flux")
    front = ks.pareto(problem, 3, starts=[flux])
    assert front.distance(flux).objective >= -1e-9
    assert front.plot(others=[flux]).axes[0].get_xlabel() == "key groups moved"


def test_a_killed_front_goes_on_and_other_problems_are_refused(traced):
    problem, whole, file = traced
    content = json.loads(file.read_text())
    assert content["about"]["against"] == "migrations"
    again = ks.pareto(problem, None, checkpoint=file)
    np.testing.assert_array_equal(again.objective, whole.objective)
    assert [s.seconds for s in again] == [s.seconds for s in whole]  # nothing was solved anew
    with pytest.raises(ks.InputError, match="another against"):
        ks.pareto(problem, None, against="state-moved", checkpoint=file)
    with pytest.raises(ks.InputError, match="another workload"):
        ks.pareto(ks.KeyGroupAllocation(problem.workload, max_migrations=8, alpha=2), None, checkpoint=file)


def test_other_second_objectives_are_one_sentence(tmp_path, capsys):
    problem = ks.KeyGroupAllocation(tiny(1))
    with pytest.raises(ks.InputError, match="trades against migrations, state-moved, not 'beauty'"):
        ks.pareto(problem, against="beauty")
    out = tmp_path / "w"
    ks.write_workload(problem.workload, out)
    assert main(["pareto", str(out), "-p", "key-group-allocation", "--against", "migrations", "--points", "0"]) == 0
    assert "key groups moved" in capsys.readouterr().out
    assert main(["pareto", str(out), "-p", "key-group-allocation", "--against", "beauty"]) == 2
