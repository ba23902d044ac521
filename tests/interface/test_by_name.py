"""Methods by name: the same answer as `solve`, a page for a docstring, and one sentence for the wrong problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift import heuristics, solvers
from keyshift.catalogue import FORMULATIONS
from keyshift.solving import methods_of

W = ks.Workload(load=[8, 6, 5, 2, 2, 1], state=[9, 2, 3, 1, 1, 1], current=[0, 0, 0, 1, 1, 2], nodes=3)


def test_flux_albic_llfd_and_ssm():
    from keyshift.heuristics import albic, flux, llfd
    from keyshift.solvers import ssm

    traffic = np.zeros((6, 6))
    traffic[0, 3] = traffic[1, 4] = 10
    for method, name, problem in (
        (flux, "flux", ks.KeyGroupAllocation(W, max_migrations=2)),
        (albic, "albic", ks.CollocatedAllocation(W.replace(traffic=traffic), max_migrations=2)),
        (llfd, "llfd", ks.MixedRouting(ks.Workload(load=[3, 2, 1], state=[1, 1, 1], current=[0, 0, 0], home=[0, 0, 1], nodes=2))),
        (ssm, "ssm", ks.IntervalMigration(W, 3, 0.6)),
    ):  # fmt: skip
        made, again = method(problem, seed=3), ks.solve(problem, name, seed=3)
        assert isinstance(made, ks.Solution)
        assert (made.status, made.objective, made.method) == (again.status, again.objective, name)
        assert "Guarantee" in method.__doc__
        assert "2015]" in method.__doc__ or "2016]" in method.__doc__


def test_one_name_for_two_problems():
    assert "collocated-allocation" in heuristics.flux.__doc__
    assert "key-group-allocation" in heuristics.flux.__doc__


def test_every_method_has_its_name():
    reached = {(problem, method.name) for floor in (heuristics, solvers) for of in methods_of(floor.__name__).values() for problem, method in of.items()}  # fmt: skip
    assert reached == {(f.name, m.name) for f in FORMULATIONS.values() for m in f.methods}


def test_modules_keep_their_names():
    from keyshift.solvers import highs, mclb

    assert highs.__name__ == "keyshift.solvers.highs"
    assert mclb.__name__ == "keyshift.solvers.mclb"


def test_a_wrong_problem_or_name_is_said():
    with pytest.raises(ks.InputError, match="albic answers collocated-allocation, not key-group-allocation"):
        heuristics.albic(ks.KeyGroupAllocation(W))
    with pytest.raises(AttributeError, match="no attribute nothing"):
        _ = solvers.nothing


def test_every_heuristic_of_a_paper_says_what_it_was_written_from():
    page = (Path(__file__).parents[2] / "docs" / "papers.md").read_text()
    table = page[page.index("## What each algorithm") : page.index("### ALBIC, both")]
    heuristics = {
        m.name for f in FORMULATIONS.values() for m in f.methods if m.kind == "heuristic" and m.source.startswith("[")
    }
    ours = {"off-greedy-d", "allocation-milp", "ssm", "ssm-printed"}  # combinations of methods that the table has
    assert {name for name in heuristics - ours if f"`{name}`" not in table} == set()
