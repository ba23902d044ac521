"""The first Ctrl-C ends what runs, however many solves it takes, and gives what is there; the second ends the program."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import keyshift as ks
from keyshift.models import Budget
from keyshift.plans import explaining, remedying
from keyshift.solving import interruptible


@pytest.fixture(autouse=True)
def the_handler_of_a_new_process():
    """Spark, where a test before started it in this process, has left its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def problem(**options):
    rng = np.random.default_rng(3)
    w = ks.Workload(load=rng.random(30), state=rng.random(30), current=np.arange(30) % 4, nodes=4)
    return ks.KeyGroupAllocation(w, **options)


def interrupting(calls, at):
    """`ks.solve`, with a Ctrl-C in its call of that number."""

    def solve(*arguments, **options):
        calls.append(arguments)
        if len(calls) == at:
            signal.raise_signal(signal.SIGINT)
        return ks.solve(*arguments, **options)

    return solve


def test_compare_ends_with_the_method_that_runs():
    def watch(now):
        if now.objective is not None and not sent:
            sent.append(now)
            signal.raise_signal(signal.SIGINT)

    sent = []
    found = ks.compare(problem(max_migrations=4), ["flux", "milp", "cp-sat", "potc"], watch=watch)
    assert [s.method for s in found] == ["flux", "milp"]
    assert found["milp"].assignment is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_ctrl_c_stops_a_block_and_all_around_it_and_the_second_ends_the_program():
    outer, inner, late = Budget(), Budget(), Budget()

    def twice():
        with interruptible(outer.interrupt):
            with interruptible(inner.interrupt):
                signal.raise_signal(signal.SIGINT)
            with interruptible(late.interrupt):
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert (outer.interrupted, inner.interrupted) == (True, True)
    assert not late.interrupted
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    again = Budget()
    with interruptible(again.interrupt):
        signal.raise_signal(signal.SIGINT)
    assert again.interrupted


def test_remedies_say_what_they_know(monkeypatch):
    posed = problem(max_migrations=2, max_migration_cost=0.5, resource_capacity={"load": 3.0})
    assert ks.solve(posed).status == "infeasible"
    calls = []
    monkeypatch.setattr(remedying, "solve", interrupting(calls, 3))
    found = ks.remedies(posed)
    assert len(calls) == 3
    assert [r.limit for r in found] == [limit.name for limit in posed.limits]
    assert any(not r.proven for r in found)


def test_explain_asks_for_nothing_more_in_earnest(monkeypatch):
    calls, given = [], []

    def solve(*arguments, **options):
        given.append(options["time_limit"])
        return interrupted(*arguments, **options)

    interrupted = interrupting(calls, 1)
    monkeypatch.setattr(explaining, "solve", solve)
    told = ks.explain(problem(max_migrations=2))
    assert told.solution.assignment is not None
    assert given[0] > 0.0
    assert len(given) > 1
    assert set(given[1:]) == {0.0}


def test_a_part_of_so_many_seconds_is_interrupted_with_the_whole():
    whole = Budget()
    part = whole.part(1.0, 10.0)
    assert (part.time_limit, part.expired) == (10.0, False)
    assert Budget(4.0).part(0.5, 10.0).time_limit <= 2.0
    whole.interrupt()
    assert part.expired
    assert part.why == "interrupted"
