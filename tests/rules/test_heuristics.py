"""Published heuristics under rules: they ask before each move, and the others are named in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from rules.drawn import keeps
from rules.test_rules import PROBLEMS, drawn

import keyshift as ks
from keyshift.catalogue import formulation_of
from keyshift.models.rules.lowered import RowTally


@pytest.mark.parametrize("kind", PROBLEMS)
def test_what_may_go_breaks_no_row_by_more(kind):
    moved, refused = 0, 0
    for seed in range(60):
        problem = drawn(kind, 7000 + seed)[1]
        low, rng = problem.lowered, np.random.default_rng(seed)
        now = rng.integers(0, problem.places, problem.workload.key_groups)
        now = np.where(rng.random(now.size) < 0.7, low.current, now)
        tally = RowTally(low, now)
        parts = lambda a, low=low: [r.excess(a) for r in low.rooms] + [b.excess(a, low.current) for b in low.budgets]  # noqa: E731
        for _ in range(20):
            k = int(rng.integers(now.size))
            may, here = tally.open_to(k, problem.places), int(tally.place[k])
            before = parts(tally.place)
            for i in range(problem.places):
                then = tally.place.copy()
                then[k] = i
                worse = any(b > a + 1e-9 for a, b in zip(before, parts(then), strict=True))
                shut = low.closed is not None and low.closed[k, i] and i != here
                tied = any(k in one for one in low.merged) and i != here
                assert not may[i] or not (worse or shut or tied), (kind, seed, k, i)
                refused += not may[i]
            tally.move(k, int(rng.choice(np.flatnonzero(may))))
            moved += int(tally.place[k]) != here
    assert moved > 50
    assert refused > 50


@pytest.mark.parametrize("kind", PROBLEMS)
def test_heuristics_that_keep_rules_never_break_what_was_kept(kind):
    """Every heuristic of which the catalogue says so, and that moves key groups of its own accord."""
    moved = 0
    for seed in range(40):
        problem = drawn(kind, 8000 + seed)[1]
        w = problem.workload
        if not all(keeps(rule, w, w.current.tolist()) for rule in problem.rules):
            continue
        for method in ks.methods(problem):
            if method.kind != "heuristic" or method.takes_start:
                continue
            answer = ks.solve(problem, method.name, time_limit=5)
            place = answer.offered if answer.assignment is None else answer.assignment
            if place is not None:
                assert all(keeps(rule, w, place.tolist()) for rule in problem.rules), (kind, seed, method.name)
                moved += int((place != w.current).sum())
    assert moved > 5 or not any(
        m.kind == "heuristic" and m.rules and not m.takes_start for m in formulation_of(problem).methods
    )


def test_who_keeps_no_rules_is_named():
    w = ks.Workload(load=[3, 2, 1], state=[1, 1, 1], current=[0, 0, 1], nodes=2, home=[0, 0, 1])
    ruled = ks.MixedRouting(w, 1.0, rules=["pinned 0"])
    with pytest.raises(ks.InputError, match="'readj' keeps no rules; choose one of"):
        ks.solve(ruled, "readj")
    said = str(ks.compare(ruled, time_limit=5))
    assert "left out, since they keep no rules:" in said
    assert "readj" in said
    assert "left out" not in str(ks.compare(ks.MixedRouting(w, 1.0), ["readj"]))
