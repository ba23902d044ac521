"""The conductor: turns by work, and its end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import keyshift as ks
from keyshift.models import Answer, Budget
from keyshift.solvers.conductor import Component, Incumbent, conduct, solver_turns

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


def test_what_waits_goes_on_where_all_wait():
    found, asked = Incumbent(PROBLEM, Budget(None)), []

    def patient() -> Iterator[None]:
        while not found.all_wait:
            yield
        asked.append("solver")
        found.budget.spend(1)
        yield

    def waiting() -> Iterator[None]:
        while not asked:
            yield

    conduct(found, [Component("a", patient()), Component("b", waiting())])
    assert asked == ["solver"]


def test_the_run_ends_where_all_components_only_wait():
    def waiting() -> Iterator[None]:
        while True:
            yield

    conduct(Incumbent(PROBLEM, Budget(None)), [Component("a", waiting()), Component("b", waiting())])


def test_a_run_that_a_limit_ended_says_so_although_imports_have_set_the_clock_back():
    """It said that it was complete: a front did not go on with the point, and was behind `solve`."""
    budget = Budget(0.0)
    found = Incumbent(PROBLEM, budget)
    found.add_solution(PROBLEM.workload.current)
    conduct(found, [Component("search", iter([None] * 3))])
    budget.time_limit = 60.0
    assert found.answer().termination == "time_limit"


BEST = np.array([0, 2, 2, 1, 1, 2])
"""Of load distance 1."""


def test_bounds_only_rise_and_meet_the_objective_within_the_tolerance():
    found = Incumbent(PROBLEM, Budget(None))
    assert found.add_solution(BEST)
    assert (found.objective, found.proven) == (PROBLEM.objective(BEST), False)
    found.raise_bound(0.9, "a")
    found.raise_bound(0.5, "b")
    assert (found.bound, found.proven) == (0.9, False)
    found.raise_bound(found.objective - 2 * found.slack, "c")
    assert not found.proven
    found.raise_bound(found.objective - 0.5 * found.slack, "d")
    assert found.proven
    assert found.answer().termination == "optimal"


def test_what_breaks_a_limit_is_no_incumbent():
    found = Incumbent(PROBLEM, Budget(None))
    assert not found.add_solution(np.array([1, 2, 0, 0, 1, 2]))  # three moves
    assert found.best is None


def test_a_refusal_proves_the_incumbent_and_without_one_that_there_is_no_answer():
    found = Incumbent(PROBLEM, Budget(None))
    found.add_solution(BEST)
    found.take(Answer(None, termination="infeasible", message="nothing is left"), "CP-SAT")
    assert found.bound == found.objective
    assert found.answer().termination == "optimal"
    other = Incumbent(PROBLEM, Budget(None))
    other.take(Answer(None, termination="infeasible", message="nothing is left"), "CP-SAT")
    assert (other.answer().termination, other.answer().message) == ("infeasible", "nothing is left")


def test_a_solver_that_begins_again_has_twice_the_work():
    found, lengths = Incumbent(PROBLEM, Budget(None)), []

    def ask(turn: Budget) -> Answer:
        lengths.append(turn.remaining)
        while not turn.expired and len(lengths) < 4:
            turn.spend(1_000_000)
        return Answer(None, 0.0, "gap")

    assert sum(1 for _ in solver_turns(found, ask, "a solver", 0.5)) == 3
    assert np.allclose(lengths, [0.5, 1.0, 2.0, 4.0], rtol=1e-3)


def test_a_turn_of_a_part_ends_with_the_part():
    """A start lent its solver a twentieth of the effort, and the solver took a turn as long as its own."""
    whole = Budget(effort=1.0)
    part = whole.part(0.1)
    assert part.turn(0.5).remaining <= 0.1
    assert part.turn(0.05).remaining <= 0.05
    assert whole.turn(2.0).remaining > 1.9  # of the whole, the last turn may end late
