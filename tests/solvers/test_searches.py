"""The searches themselves, in strict mode, against brute force: small instances do not go to a solver here."""

from __future__ import annotations

import numpy as np
import pytest
import searched
from draws import rest_slow

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers import checked
from keyshift.solvers.allocation.arrays import SEARCHED
from keyshift.solvers.conductor import Incumbent

WORKLOAD = ks.Workload(load=[4.0, 3, 2, 1], state=np.ones(4), current=[0, 0, 0, 1], nodes=2)


@pytest.mark.parametrize("kind", searched.KINDS)
@pytest.mark.parametrize("seed", rest_slow(1, range(0, 24, 8)))
def test_searches_keep_their_promises_and_find_the_optima(kind, seed, monkeypatch):
    searched.strict(monkeypatch)
    assert [said for s in range(seed, seed + 8) for said in searched.wrong(kind, s)] == []


@pytest.mark.parametrize("seed", [62, 735, 1189], ids=["rooms", "rooms again", "two nodes"])
def test_two_that_stay_change_places_where_rooms_are_full_in_every_window_or_nodes_are_two(seed, monkeypatch):
    searched.strict(monkeypatch)
    assert searched.wrong("allocation", seed) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", searched.KINDS)
@pytest.mark.parametrize("seed", range(0, 1250, 125))
def test_five_thousand_searches(kind, seed, monkeypatch):
    searched.strict(monkeypatch)
    assert [said for s in range(seed, seed + 125) for said in searched.wrong(kind, s)] == []


def test_a_candidate_that_breaks_a_promise_raises_in_strict_mode_and_is_passed_over_otherwise(monkeypatch):
    found = Incumbent(ks.KeyGroupAllocation(WORKLOAD, max_migrations=1), Budget())
    monkeypatch.setattr(checked, "STRICT", True)
    with pytest.raises(checked.BrokenPromiseError, match="2 key groups move, the limit is 1"):
        found.add_solution(np.array([1, 1, 0, 1]), "annealed", SEARCHED)
    assert not found.add_solution(np.array([1, 1, 0, 1]), "planned", ("max_migrations",))
    monkeypatch.setattr(checked, "STRICT", False)
    assert not found.add_solution(np.array([1, 1, 0, 1]), "annealed", SEARCHED)
    assert found.add_solution(np.array([1, 0, 0, 1]), "annealed", SEARCHED)
