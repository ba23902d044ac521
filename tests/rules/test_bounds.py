"""Bounds under rules: safe, and what rows force is in those by counts and by prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rules.drawn import best_of
from rules.test_rules import drawn

import keyshift as ks
from keyshift import rules
from keyshift.models import Budget
from keyshift.models.answer import in_force
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting import bound as counting
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.allocation.pricing.tree import price_bound
from keyshift.solvers.allocation.settings import AllocationSettings


def crowded():
    """Racks of which the first has most of the load."""
    rng = np.random.default_rng(3)
    load = rng.lognormal(0, 0.6, 80) * 10
    current = np.where(np.arange(80) < 45, rng.integers(0, 2, 80), rng.integers(2, 8, 80))
    return ks.Workload(
        load=load, state=load, current=current, nodes=8, domains={"rack": [f"r{i // 2}" for i in range(8)]}
    )


def test_the_default_knows_what_rows_of_rules_force():
    w = crowded()
    problem = ks.KeyGroupAllocation(w, max_migrations=40, rules=[rules.Moves(1, out_of={"rack": "r0"})])
    answer = ks.solve(problem, time_limit=3)
    linear = ks.solve(problem, "lp", time_limit=10)
    assert linear.bound > 0.5 * answer.objective
    assert answer.objective >= answer.bound >= linear.bound * (1 - 1e-6)


ONE_MOVE = [3.0, 1.0, 1.0, 4.0, 0.0]
"""3 + 1 | 1 | 4 + 0, mean 3: moving the first 1 to the other leaves 3 | 2 | 4, a distance of 1; without a move it is 2."""
BY_HAND = {
    "merged go together": rules.Together([0, 1]),
    "a use that no arrival has room for": rules.Use("disk", 2),
    "no two that are apart": rules.Apart([1, 2, 4]),
    "no move out of a node": rules.Moves(0, out_of=[0]),
    "no move at all": rules.Moves(0),
    "a node that is full takes none": rules.Count(at_most=1, nodes=[1]),
    "none leaves what must have so many": rules.Count(at_least=2, nodes=[0]),
}


@pytest.mark.parametrize("what", BY_HAND)
def test_what_rows_force_by_hand(what):
    w = ks.Workload(load=ONE_MOVE, state=[1] * 5, current=[0, 0, 1, 2, 2], nodes=3, resources={"disk": [1, 1, 2, 1, 1]})
    problem = ks.KeyGroupAllocation(w, max_migrations=1, rules=[BY_HAND[what]])
    assert ks.solve(problem).objective == 2
    bounds = [price_bound(one, budget=Budget()).bound for one in (replace(problem, rules=()), problem)]
    assert bounds == pytest.approx([1, 2], abs=1e-5)


def test_racks_keep_their_numbers():
    """Each partition has one replica a rack: as many come to a rack as leave it, and the heavy rack stays heavy."""
    load = np.repeat([6.0, 1.0], 4)
    w = ks.Workload(
        load=load, state=load, current=[0, 0, 1, 1, 2, 2, 3, 3], nodes=4, domains={"rack": ["r0", "r0", "r1", "r1"]},
        groups={"partition": [0, 1, 2, 3, 0, 1, 2, 3]},
    )  # fmt: skip
    problem = ks.KeyGroupAllocation(w, max_migrations=2, rules=[rules.Apart(by="partition", domain="rack")])
    (tilt,) = Instance(problem).forced.tilts
    assert [x.tolist() for x in tilt.nodes] == [[0, 1], [2, 3]]
    assert tilt.least.tolist() == tilt.most.tolist() == [0, 0]
    aware, unaware = (CountBound(Instance(problem, rows=rows)) for rows in (True, False))
    assert aware.bound() > unaware.bound() == CountBound(Instance(replace(problem, rules=()))).bound()


@pytest.mark.parametrize("exact", [True, False])
def test_moves_out_of_a_rack_are_counted(exact, monkeypatch):
    """4 + 4 | 4 + 4 in one rack, nothing in the other: each node sends one, but one may leave the rack."""
    w = ks.Workload(load=[4.0] * 4, state=[1] * 4, current=[0, 0, 1, 1], nodes=4)
    problem = ks.KeyGroupAllocation(w, rules=[rules.Moves(1, out_of=[0, 1])])
    monkeypatch.setattr(counting, "MOST_EXACT", counting.MOST_EXACT if exact else 0)
    assert CountBound(Instance(problem)).bound() * problem.scale == pytest.approx(4)
    assert CountBound(Instance(problem, rows=False)).bound() == 0


@pytest.mark.parametrize("settings", [(), (AllocationSettings(most_out=1, most_in=2),)])
def test_bounds_by_counts_and_prices_are_safe_under_rules(settings, monkeypatch):
    monkeypatch.setattr(counting, "MOST_EXACT", 0 if settings else counting.MOST_EXACT)
    tight, unaware, no = 0, 0, 0
    for seed in range(2000, 2040):
        plain, problem = drawn("allocation", seed)
        best = best_of(problem, plain)
        with in_force(settings):
            answer = price_bound(problem, budget=Budget())
            before = CountBound(Instance(problem, rows=False)).bound() * problem.scale
        if best is None:
            no += answer.termination == "infeasible"
            continue
        assert answer.termination != "infeasible", seed
        assert answer.bound <= best + problem.tolerance_of(best), seed
        tight += answer.bound >= best - 1e-5 * problem.scale
        unaware += before >= best - 1e-5 * problem.scale
    assert tight > unaware
    assert settings or no > 5
