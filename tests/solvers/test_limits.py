"""A limit is heard while a model is still being written down, and whoever writes it is stopped without a word."""

from __future__ import annotations

import logging

import numpy as np
import pyomo.environ as pyo
import pytest
import scipy.sparse as sp

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers import checked, highs
from keyshift.solvers.mclb import sdp
from keyshift.solvers.safe_bounds import LinearProgram


def far_too_many_rows(written, budget):
    """A Pyomo model with a thousand million constraints; at the sixth the budget ends."""
    model = pyo.ConcreteModel()
    model.x = pyo.Var()

    def rule(m, i):
        written.append(i)
        if len(written) == 6:
            budget.interrupt()
        return m.x <= i

    model.rows = pyo.Constraint(pyo.RangeSet(10**9), rule=rule)
    return model


def test_a_model_far_too_large_is_left_at_the_limit(caplog):
    budget, written = Budget(), []
    with caplog.at_level(logging.WARNING, "pyomo.core"):
        assert checked.within(budget, lambda: far_too_many_rows(written, budget)) is None
    reached = len(written)
    assert reached >= 6
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []
    with pytest.raises(ZeroDivisionError):  # what fails by itself is still heard
        checked.within(Budget(), lambda: 1 / 0)
    assert len(written) <= reached + 1  # nobody goes on writing


def test_a_limit_that_is_over_begins_nothing():
    begun = []
    assert checked.within(Budget(0.0), lambda: begun.append(1)) is None
    assert begun == []


def test_an_effort_begins_no_model_that_presolve_alone_would_take_longer_for(monkeypatch):
    """Presolve looks at a clock and nothing else: at `effort` 1 HiGHS took forty minutes of a collocation of 400 key groups."""
    zero, one, begun = np.zeros(500), np.ones(500), []
    rows = sp.csr_array(np.ones((1, 500)))
    program = LinearProgram(-one, 0.0, rows, np.zeros(1), np.full(1, 99.5), zero, one, one.astype(bool))
    run = highs.highspy.Highs.run
    monkeypatch.setattr(highs.highspy.Highs, "run", lambda self: begun.append(1) or run(self))
    budgets = Budget(effort=1e-4), Budget(effort=1.0), Budget(60)
    found = [highs.minimise(program, budget, seed=0) for budget in budgets]
    assert [one.termination for one in found] == ["time_limit", "optimal", "optimal"]
    assert budgets[0].expired
    assert found[0].values is None
    assert len(begun) == 2


def test_the_semidefinite_bound_hears_a_limit_within_one_ascent(monkeypatch):
    rng = np.random.default_rng(0)
    w = ks.Workload(load=rng.random((3, 12)), state=rng.random(12), current=np.arange(12) % 3, nodes=3)
    dual, budget = sdp.SemidefiniteDual(ks.MCLB(w, max_state_moved=2.0).core, 1.0), Budget()
    matrix, asked = dual.matrix, []

    def counted():
        asked.append(1)
        if len(asked) == 7:
            budget.interrupt()
        return matrix()

    monkeypatch.setattr(dual, "matrix", counted)
    *_, found = sdp.climb(dual, budget)
    assert len(asked) == 7 + 1  # the seventh step is the last one; then the bound is taken from where it ended
    assert 0.0 <= found <= 3 * ks.solve(ks.MCLB(w, max_state_moved=2.0)).objective
