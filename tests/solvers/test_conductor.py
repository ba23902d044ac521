"""The conductor: turns by work, and its end."""

from __future__ import annotations

from collections.abc import Iterator

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.conductor import Component, Incumbent, conduct

PROBLEM = ks.KeyGroupAllocation(
    ks.Workload(load=[8, 6, 5, 2, 2, 1], state=[1] * 6, current=[0, 0, 0, 1, 1, 2], nodes=3), max_migrations=2
)


def test_a_component_that_waits_for_another_does_not_end_the_run():
    budget, turns = Budget(None), []

    def search() -> Iterator[None]:
        for turn in range(8):
            turns.append(turn)
            budget.spend(40_000_000)
            yield

    def waiting() -> Iterator[None]:
        while len(turns) < 8:
            yield

    conduct(Incumbent(PROBLEM, budget), [Component("search", search()), Component("waiting", waiting())])
    assert turns == [*range(8)]


def test_the_run_ends_where_all_components_only_wait():
    def waiting() -> Iterator[None]:
        while True:
            yield

    conduct(Incumbent(PROBLEM, Budget(None)), [Component("a", waiting()), Component("b", waiting())])
