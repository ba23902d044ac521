"""Tuning parameters: every search and bound takes those that `solve` was handed, and nobody else does."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hostile.tuned import kinds

import keyshift as ks
from keyshift import fronts, heuristics, plans, solvers
from keyshift.models.answer import Budget, Settings, tuned_by
from keyshift.solvers.tuning import AllocationSettings, MCLBSettings

DOCS = Path(__file__).resolve().parents[2] / "docs"


def every_kind() -> list[type]:
    return list(kinds(solvers, heuristics, fronts, plans).values())


def test_settings_reach_a_search_and_go_with_the_run():
    load = np.random.default_rng(3).uniform(1, 10, (3, 15))
    problem = ks.MCLB(ks.Workload(load=load, state=np.ones(15), current=np.zeros(15), nodes=3))
    by_solver = ks.solve(problem, settings=[MCLBSettings(most_numbers=0)], effort=1)
    by_sets = ks.solve(problem)
    assert by_solver.objective == pytest.approx(by_sets.objective)
    assert by_sets.details["tree_nodes"] > 0
    assert "branches" in by_solver.details


def test_a_budget_carries_settings_to_all_of_its_parts():
    budget = Budget(60, settings=[AllocationSettings(priced=0.7)])
    for each in (budget, budget.part(0.5), budget.part(0.5).part(0.1, scale=0), budget.anew(3)):
        assert each.tuned(AllocationSettings).priced == 0.7
        assert each.tuned(MCLBSettings) == MCLBSettings()


def with_file(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a line says that is run with a file of settings."""
    (folder / "mine.toml").write_text(text)
    (folder / "w.json").write_text('{"load": [3, 1, 2], "state": [1, 1, 1], "current": [0, 0, 0], "nodes": 2}')
    line = [sys.executable, "-m", "keyshift", "solve", str(folder / "w.json"), "--max-migrations", "1"]
    given = {**os.environ, "KEYSHIFT_SETTINGS": str(folder / "mine.toml")}
    return subprocess.run(line, capture_output=True, text=True, env=given, timeout=60)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[allocation]\nsteps = 1000\npriced = 2\n", ""),
        ("[alocation]\nsteps = 1\n", "has a table 'alocation'; there are allocation,"),
        ("[allocation]\nsteps = 1.5\n", "allocation.steps = 1.5 must be a whole number, at least 0"),
        ("[allocation\n", "is not TOML"),
    ],
)
def test_a_file_of_ones_own_tunes_every_run_or_is_refused(text, said, tmp_path):
    ended = with_file(text, tmp_path)
    assert (ended.returncode, said in ended.stderr) == (2 if said else 0, True), ended
    assert "Traceback" not in ended.stderr


def test_a_file_is_held_to_the_ranges_of_the_classes(tmp_path):
    (tmp_path / "mine.toml").write_text("[collocation]\nfew = 0\n")
    asked = "from keyshift.models import Budget; from keyshift.solvers.tuning import CollocationSettings as C"
    line = [sys.executable, "-c", f"{asked}; Budget().tuned(C)"]
    given = {**os.environ, "KEYSHIFT_SETTINGS": str(tmp_path / "mine.toml")}
    ended = subprocess.run(line, capture_output=True, text=True, env=given, timeout=60)
    assert "CollocationSettings.few = 0 must be at least 1" in ended.stderr


@pytest.mark.parametrize("kind", every_kind(), ids=lambda kind: kind.__name__)
def test_every_setting_is_documented(kind):
    assert is_dataclass(kind)
    for field in fields(kind):
        assert any(field.name in of.__doc__.split("Attributes")[-1] for of in kind.__mro__[:-1]), field.name
    assert kind.__name__ in (DOCS / "reference-engines.md").read_text()


@pytest.mark.parametrize("kind", every_kind(), ids=lambda kind: kind.__name__)
def test_values_that_no_search_can_use_are_refused(kind):
    for field in fields(kind):
        usual = getattr(kind(), field.name)
        with pytest.raises(ks.InputError, match=rf"^{kind.__name__}\.{field.name}"):
            tuned_by([unchecked(kind, field.name)])
        assert tuned_by([replace(kind(), **{field.name: usual})]) == {kind: kind()}


def unchecked(kind: type, name: str) -> Settings:
    """Settings with a value that fits no field."""
    return replace(kind(), **{name: float("nan")})
