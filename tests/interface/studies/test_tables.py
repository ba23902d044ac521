"""The tables of a study against a recomputation by other means."""

import numpy as np
import pandas as pd
import pytest

from keyshift.models import InputError
from keyshift.studies.study import Study
from keyshift.studies.tables import BestKnown, bootstrap_interval


def row(instance, method, objective=None, bound=None, seconds=1.0, status=None, **more):
    known = {
        "instance": instance, "family": instance.split("/")[0], "problem": "p", "fingerprint": instance, "method": method,
        "kind": "exact", "seed": 0, "status": status or ("none" if objective is None else "feasible"),
        "termination": "completed", "objective": objective, "bound": bound, "tolerance": 1e-9, "offered": None,
        "violations": 0, "worst_violation": None, "same_problem": True, "seconds": seconds, "wall": seconds, "message": "",
        "metrics": {}, "assignment": None,
    }  # fmt: skip
    return {**known, **more}


@pytest.fixture
def random_study():
    rng = np.random.default_rng(0)
    rows = []
    for i in range(40):
        best = float(rng.integers(5, 50))
        for method in "abc":
            objective = None if rng.random() < 0.1 else best + float(rng.integers(0, 4))
            bound = best - float(rng.integers(0, 3)) if method == "a" else None
            rows.append(row(f"f{i % 2}/{i}", method, objective, bound, float(rng.uniform(0.1, 9))))
    return Study(tuple(rows), BestKnown())


def test_gaps_and_summary_agree_with_pandas(random_study):
    raw = pd.DataFrame(random_study.rows)
    best = raw.groupby("instance")["objective"].transform("min")
    bound = raw.groupby("instance")["bound"].transform("max")
    gap = (raw["objective"] - bound).clip(lower=0) / raw["objective"]
    frame = random_study.to_frame()
    pd.testing.assert_series_equal(frame["gap"], gap.rename("gap"))
    assert (frame["won"] == (raw["objective"] == best)).all()
    summary = random_study.summary().set_index(["family", "method"])
    for key, part in raw.assign(gap=gap, won=raw["objective"] == best).groupby(["family", "method"]):
        assert summary.loc[key, "solved"] == part["objective"].notna().sum()
        assert summary.loc[key, "wins"] == part["won"].sum()
        for name, value in (
            ("mean", part["gap"].mean()),
            ("median", part["gap"].median()),
            ("worst", part["gap"].max()),
        ):
            assert summary.loc[key, f"gap_{name}"] == pytest.approx(value)
        assert summary.loc[key, "gap_low"] <= part["gap"].mean() <= summary.loc[key, "gap_high"]


def test_a_proven_optimum_that_is_nearly_0_has_no_gap():
    """Its bound is 0: as shares of the objective the proven method and the other one both had a gap of 100 %."""
    proven = row("f/0", "a", 6e-6, 0.0, tolerance=1e-5, status="optimal")
    frame = Study((proven, row("f/0", "b", 0.5, tolerance=1e-5)), BestKnown()).to_frame()
    assert frame["gap"].tolist() == [0.0, 1.0]
    assert frame["gap_abs"].tolist() == [6e-6, 0.5]


@pytest.mark.parametrize("over", ["time", "gap"])
def test_profiles_agree_with_counting(random_study, over):
    frame = random_study.to_frame()
    profile = random_study.profile(over)
    if over == "time":
        seconds = frame["seconds"].where(frame["won"])
        frame["ratio"] = seconds / seconds.groupby(frame["instance"]).transform("min")
    else:
        frame["ratio"] = frame["gap"]
    for factor in (1.0, 1.5, 3.0, 20.0) if over == "time" else (0.0, 0.02, 0.1, 1.0):
        for method in "abc":
            counted = (frame.loc[frame["method"] == method, "ratio"] <= factor * (1 + 1e-12)).sum() / 40
            steps = profile[(profile["method"] == method) & (profile["factor"] <= factor * (1 + 1e-12))]
            assert (steps["share"].max() if len(steps) else 0.0) == pytest.approx(counted)
    with pytest.raises(InputError, match="over"):
        random_study.profile("money")


def test_the_bootstrap_is_seeded_and_covers_the_mean():
    values = np.random.default_rng(1).exponential(size=30)
    assert bootstrap_interval(values, 3) == bootstrap_interval(values, 3)
    assert bootstrap_interval(values, 3) != bootstrap_interval(values, 4)
    low, high = bootstrap_interval(values)
    assert low < values.mean() < high
    assert bootstrap_interval(np.array([2.0, 2.0])) == (2.0, 2.0)
    assert bootstrap_interval(np.array([])) == (None, None)


def test_what_breaks_rules_is_shown_and_never_ranked():
    rows = (
        row("f/1", "a", 10.0, 9.0),
        row("f/1", "b", None, status="none", offered=5.0, violations=2, worst_violation="too many moves"),
        row("f/1", "c", 4.0, None, same_problem=False),
        row("f/1", "d", None, status="failed", termination="killed"),
    )
    frame = Study(rows, BestKnown()).to_frame().set_index("method")
    assert (frame["best_known"] == 10.0).all()
    assert (frame["best_bound"] == 9.0).all()
    assert frame.loc["b", "offered"] == 5.0
    assert frame.loc["b", "violations"] == 2
    assert frame["won"].tolist() == [True, False, False, False]
    assert np.isnan(frame.loc["c", "gap"])
    summary = Study(rows, BestKnown()).summary().set_index("method")
    assert summary.loc["b", "broke_rules"] == 1
    assert summary.loc["d", "failed"] == 1


def test_best_known_answers_improve_and_contradictions_are_found(tmp_path):
    table = tmp_path / "best.csv"
    first = Study((row("f/1", "a", 10.0, 7.0), row("f/2", "a", 3.0, 3.0)), BestKnown())
    assert first.update_best(table) == []
    known = BestKnown.read(table)
    assert {e.instance for e in known.entries.values()} == {"f/1", "f/2"}
    second = Study((row("f/1", "b", 9.0, 8.0), row("f/2", "b", 4.0, 2.0)), known)
    frame = second.to_frame().set_index("instance")
    assert frame.loc["f/2", "best_known"] == 3.0
    assert frame.loc["f/2", "gap_abs"] == 1.0
    said = second.update_best(table)
    assert len(said) == 2
    assert all("f/1" in s for s in said)
    again = BestKnown.read(table)
    assert again.of("f/1").objective_by == "b"
    assert again.of("f/2").objective == 3.0
    wrong = Study((row("f/1", "c", None, 9.5),), again)
    assert len(wrong.contradictions()) == 1
    assert "9.5" in wrong.contradictions()[0]
    assert second.contradictions() == []


def test_a_summary_is_a_latex_table(random_study):
    odd = Study((*random_study.rows, row("odd_50%/0", "a&b", 3.0, 3.0)), BestKnown())
    lines = odd.to_latex().splitlines()
    notes = " ".join(lines.pop(0) for _ in range(3))
    assert all(name in notes for name in ("solves", "proven", "wins", "gap", "from", "to", "worst", "seconds"))
    assert lines[0] == r"\begin{tabular}{llrrrrrrrr}"
    assert lines[-1] == r"\end{tabular}"
    rows = [line for line in lines if line.endswith(r" \\")]
    assert len(rows) == 1 + 7
    assert all(line.replace(r"\&", "").count("&") == 9 for line in rows)
    assert r"odd\_50\% & a\&b & 1 & 0 & 1 & 0 &" in odd.to_latex()


def test_a_study_is_drawn(random_study, tmp_path):
    figure = random_study.plot(tmp_path / "study.pdf")
    assert (tmp_path / "study.pdf").read_bytes().startswith(b"%PDF")
    assert figure.get_figwidth() == pytest.approx(88 / 25.4)
    methods = random_study.to_frame()["method"].unique().tolist()
    for axes, over in zip(figure.axes, ("objective", "gap"), strict=True):
        assert [line.get_label() for line in axes.lines] == methods
        steps = random_study.profile(over)
        for line in axes.lines:  # the line ends at the share that the method reaches at all
            own = steps.loc[steps["method"] == line.get_label(), "share"]
            assert line.get_ydata()[-1] == pytest.approx(100 * (own.max() if len(own) else 0.0))
