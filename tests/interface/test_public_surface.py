"""What docs/stability.md promises: nothing released is lost, retired names say what instead, every change is written down."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import warnings

import pandas as pd
import pytest
from public_surface import NOW, RELEASED, SNAPSHOTS, surface

import keyshift as ks
from keyshift import cli


@pytest.fixture(scope="module")
def today():
    return surface()


LIMITED = {"time_limit=60.0": "time_limit=None", "time_limit=10.0": "time_limit=None"}
"""Since 0.3 a run ends by itself."""


def lost(before, now, where=""):
    """What `before` offered and `now` does not: a name, a parameter, a default, an option."""
    if isinstance(before, dict):
        for key, value in before.items():
            if key in now:
                yield from lost(value, now[key], f"{where}/{key}")
            else:
                yield f"{where}/{key}"
    elif isinstance(before, list):
        # a parameter that had to be given may have got a default since
        today = [LIMITED.get(entry, entry) for entry in now]
        as_before = {entry: entry if entry in before else entry.partition("=")[0] for entry in today}
        if [entry for entry in as_before.values() if entry in before] != before:
            yield f"{where}: {before} -> {now}"
    elif before != now:
        yield f"{where}: {before} -> {now}"


REPLACED = (
    "/names/keyshift.CollocatedAllocation/limits", "/methods/migration-sequence/profile", "/names/keyshift.spark_stats.Stats/counted",
    "/methods/mclb/local-search",
)  # fmt: skip
"""Every problem lists its limits by this name now: a property, where one problem had a method of its own. A method that is retired.
Rows in the driver that a writer of files needed. An effort whose usual value depends on the instance."""


def test_nothing_that_was_released_is_lost(today):
    names = today["names"]
    old = {name: names[new] for name, new in today["retired"].items() if new in names}
    released = json.loads(RELEASED.read_text())
    gone = [loss for loss in lost(released, today | {"names": names | old}) if not loss.startswith(REPLACED)]
    assert gone == []


def test_a_retired_name_leads_on_and_says_where(today):
    for name, (instead, _) in ks.RETIRED.items():
        with pytest.warns(DeprecationWarning, match=r"retired and goes in \d") as said:
            old = getattr(ks, name)
        assert instead in str(said[0].message)
        assert said[0].filename == __file__, "the warning must name the caller's line"
        room, _, new = instead.removeprefix("keyshift.").partition(".")
        assert new == "read(path)" or (instead in today["names"] and getattr(getattr(ks, room), new) is old)
    with pytest.raises(AttributeError, match="no attribute 'Forecasts'"):
        ks.Forecasts  # noqa: B018


@pytest.mark.parametrize(
    ("old", "new"), [*ks.MOVED.items(), ("keyshift.models.families.mclb", "keyshift.generators.mclb")]
)
def test_a_module_that_moved_is_found_by_its_old_name(old, new):
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{old}.")]:
        del sys.modules[name]
    with pytest.warns(DeprecationWarning, match=f"write {new}$"):
        found = importlib.import_module(old)
    assert found is importlib.import_module(new)
    assert found.__name__ == new


def test_retired_words_of_parameters_and_options_still_work(capsys, tmp_path, monkeypatch):
    w = ks.Workload(load=[3, 2, 2], state=[1, 1, 1], current=[0, 0, 1], nodes=2)
    solution = ks.solve(ks.KeyGroupAllocation(w))
    with pytest.warns(DeprecationWarning, match="write time_limit="):
        assert ks.certify(solution, seconds=5).complete
    explained = ks.explain(ks.KeyGroupAllocation(w, max_migrations=1), gap=0)
    with pytest.warns(DeprecationWarning, match="write pandas.DataFrame"):
        frame = explained.marginal_frame()
    pd.testing.assert_frame_equal(frame, pd.DataFrame(explained.marginals))
    with pytest.warns(DeprecationWarning, match="write 'oms'"):
        assert ks.solve(ks.MigrationSequence(w, [2, 3], 0.8), "profile").method == "oms"
    monkeypatch.chdir(tmp_path)
    ks.write_workload(w, "w.json")
    for line in ("certify w.json --seconds 5 --out c.json", "plan w.json --max-load=9"):
        assert cli.main(line.split()) == 0
        assert "is retired and goes in 0.5: write --" in capsys.readouterr().err
    for (command, old), new in cli.RETIRED.items():
        assert old not in surface()["commands"][command]
        assert new in surface()["commands"][command]


@pytest.mark.slow
def test_the_script_of_the_last_readme_runs_with_warnings_only(tmp_path):
    script = SNAPSHOTS / "readme_0_2.py"
    line = [sys.executable, "-W", "error", "-W", "default::DeprecationWarning", str(script)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plan.json").exists()
    assert (tmp_path / "allocation.mps").exists()


def test_one_name_stands_for_a_list_of_one():
    w = ks.Workload(load=[3, 2, 2], state=[1, 1, 1], current=[0, 0, 1], nodes=2)
    problem = ks.KeyGroupAllocation(w)
    assert [s.method for s in ks.compare(problem, "flux")] == ["flux"]
    assert ks.study({"one": problem}, "flux").to_frame().method.tolist() == ["flux"]
    assert {row["method"] for row in ks.replay([w, w], "flux", problem="key-group-allocation").rows} == {"flux"}


def test_a_problem_goes_by_its_name_or_its_class():
    by_name, by_class = ks.methods("mixed-routing"), ks.methods(ks.MixedRouting)
    assert [m.name for m in by_name] == [m.name for m in by_class]
    assert ks.statements("mixed-routing") == ks.statements(ks.MixedRouting)
    for wrong in ("mixed", int, 3):
        with pytest.raises(ks.InputError, match=r"is not one of keyshift's problems: .*mixed-routing"):
            ks.methods(wrong)


def test_the_page_lists_what_is_retired():
    page = (SNAPSHOTS.parents[1] / "docs" / "stability.md").read_text()
    listed = [line.partition(" | ")[0] for line in page.splitlines() if line.endswith("| 0.5 |")]
    for name, (instead, _) in ks.RETIRED.items():
        assert any(f"`{name}`" in row or f"`ks.{name}`" in row or f"`ks.{name}(" in row for row in listed), name
        assert instead.startswith("keyshift.")
    for command, old in cli.RETIRED:
        assert any(f"`keyshift {command} {old}`" in row for row in listed)


def test_the_package_itself_uses_no_retired_name():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ks.__all__:
            getattr(ks, name)


def test_every_change_is_written_down(today):
    assert today == json.loads(NOW.read_text()), "the public surface changed: if that is meant, run `make surface`"


def test_a_loss_is_seen():
    before = {"names": {"f": ["a", "b=1"], "C": {"()": ["x"], "g": "property"}}}
    assert list(lost(before, {"names": {"f": ["a", "new=0", "b=1"], "C": before["names"]["C"]}})) == []
    assert list(lost(before, {"names": {**before["names"], "f": ["a=None", "b=1"]}})) == []
    assert list(lost(before, {"names": {**before["names"], "f": ["a", "b=2"]}})) == [
        "/names/f: ['a', 'b=1'] -> ['a', 'b=2']"
    ]
    assert list(lost(before, {"names": {"f": ["b=1", "a"], "C": {"()": ["x"]}}})) == [
        "/names/f: ['a', 'b=1'] -> ['b=1', 'a']",
        "/names/C/g",
    ]
