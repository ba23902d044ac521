"""The registry of the papers' figures: every one has a row, every row runs or says why not, and the pages show them all."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.papers import checks, registry

PAGES = Path(__file__).parents[2] / "docs" / "benchmarks"
ROWS = registry.figures()
DRAWN = {"guo2018": 6, "madsen2016": 14, "nasir2015": 10, "fang2016": 21, "ding2015": 17}
TABLES = {"guo2018": 2, "madsen2016": 3, "nasir2015": 3, "fang2016": 2, "ding2015": 4}


def test_every_figure_and_table_has_a_row():
    named = {re.sub(r"(?<=\d)[a-z]$", "", name) for name in ROWS}  # 10a, 10b are figure 10
    wanted = {f"{paper}:{number}" for paper, last in DRAWN.items() for number in range(1, last + 1)}
    wanted |= {f"{paper}:table{number}" for paper, last in TABLES.items() for number in range(1, last + 1)}
    assert wanted <= named


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_runs_or_says_why_not(row):
    assert row.verdict in registry.VERDICTS
    assert row.why or row.run
    assert bool(row.run) == bool(row.checks)
    for step in row.run:
        function, arguments = (step, {}) if isinstance(step, str) else next(iter(step.items()))
        inspect.signature(registry.load(function)).bind(None, **arguments)
    assert all(len(number) == 3 and number[2].count(";") == 2 for number in row.numbers)
    for check in row.checks:
        kind = [name for name in check if name in checks.KINDS]
        series = [pd.Series([1.0, 2.0])] * len(checks.addresses(check))
        options = {name: value for name, value in check.items() if name not in ("says", "beside", *kind)}
        inspect.signature(checks.KINDS[kind[0]]).bind(*series, **options)


def test_a_record_is_of_a_row():
    kept = json.loads(registry.KEPT.read_text())
    assert kept.keys() <= ROWS.keys()
    begins = tuple(registry.stem(name) + "_" for name, row in kept.items() if "holds" in row)
    assert all(path.name.startswith(begins) for path in registry.RECORDS.iterdir())


def test_the_verdicts_that_are_kept_are_those_of_their_checks(capsys):
    assert main(["reproduce", "--judge", "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert {row["id"] for row in judged} == {name for name, row in ROWS.items() if row.run and "holds" in row.kept}
    assert all(row["verdict"] == row["listed"] == ROWS[row["id"]].verdict for row in judged)


def test_a_verdict_follows_from_checks_and_seeds():
    row = registry.PaperFigure("a", "b", checks=({"says": "1"}, {"says": "2"}, {"says": "3", "beside": True}))
    said = {held: row.judged(held) for held in [(True,) * 3, (True, False, True), (False, False, True)]}
    assert list(said.values()) == ["comes out", "in part", "differs"]
    assert row.judged([True] * 3, seeds=1) == "in part"


TABLE = pd.DataFrame({"way": ["a"] * 3 + ["b"] * 3, "n": [1, 2, 3] * 2, "cost": [1.0, 2, 4, 3, 3.1, 3.2]})
A, B = "t; way == 'a'; cost; n", "t; way == 'b'; cost; n"


@pytest.mark.parametrize(
    ("check", "held"),
    [
        ({"order": [A, B]}, False), ({"order": ["t; way == 'a'; min cost", "t; way == 'b'; min cost"]}, True),
        ({"order": [A, "t; way == 'z'; cost; n"]}, False), ({"order": [A, B], "by": 0.7}, True),
        ({"trend": A}, True), ({"trend": A, "way": "falls"}, False), ({"trend": A, "by": 5}, False), ({"trend": "t; n == 1; cost"}, False),
        ({"spread": B, "high": 1.1}, True), ({"spread": A, "high": 1.1}, False), ({"spread": A, "low": 4}, True),
        ({"band": B, "low": 3, "high": 3.2}, True), ({"band": B, "high": 3.1}, False), ({"band": "no; ; cost"}, False),
        ({"factor": [A, B], "high": 1.25}, True), ({"factor": [A, B], "low": 0.5}, False),
        ({"equal": "t; way == 'a'; cost", "to": 4}, True), ({"equal": "t; ; way", "to": "b"}, True), ({"equal": B, "to": 3, "within": 0.1}, True),
    ],
)  # fmt: skip
def test_a_kind_of_check(check, held):
    assert checks.holds({"says": "", **check}, {"t": TABLE}) is held


def test_a_series_is_the_median_over_the_seeds():
    frame = pd.concat([TABLE.assign(seed=seed, cost=TABLE["cost"] * factor) for seed, factor in enumerate((1, 10, 2))])
    assert checks.series({"t": frame}, A).tolist() == [2, 4, 8]


def mutated(row, number, tables):
    """The tables with the two curves of a check exchanged, or its trend turned; None where its curves share no rows to exchange."""
    check = row.checks[number]
    at = [address.split(";") for address in checks.addresses(check)]
    name, column = at[0][0].strip(), at[0][2].strip().removeprefix("max ").removeprefix("min ").removeprefix("mean ")
    if len({part[0].strip() for part in at}) > 1 or column not in tables[name]:
        return None
    frame = tables[name].copy()
    places = [frame.query(part[1], engine="python").index if part[1].strip() else frame.index for part in at]
    values = frame[column].to_numpy(copy=True)
    where = [frame.index.get_indexer(place) for place in places]
    if "trend" in check:
        for part in (
            [frame.iloc[where[0]]]
            if "seed" not in frame
            else [part for _, part in frame.iloc[where[0]].groupby("seed")]
        ):
            spot = frame.index.get_indexer(part.sort_values(at[0][3].strip()).index)
            values[spot] = values[spot[::-1]]
    elif "order" in check and len(where[0]) == len(where[-1]) and len({part[2] for part in at}) == 1:
        values[where[0]], values[where[-1]] = values[where[-1]].copy(), values[where[0]].copy()
    else:
        return None
    return tables | {name: frame.assign(**{column: values})}


def test_a_record_that_is_mutated_fails(tmp_path, capsys):
    """Two curves exchanged, or a trend turned, in twenty records drawn by lot."""
    rng, tried = np.random.default_rng(3), 0
    held = [
        (row, n)
        for row in ROWS.values()
        for n, one in enumerate(row.kept.get("holds", ()))
        if one and {"order", "trend"} & row.checks[n].keys()
    ]
    for place in rng.permutation(len(held)):
        row, number = held[place]
        made = mutated(row, number, registry.tables(row))
        if made is None or tried == 20:
            continue
        tried += 1
        folder = tmp_path / str(tried)
        folder.mkdir()
        for name, frame in made.items():
            frame.to_csv(folder / f"{registry.stem(row.id)}_{name}.csv", index=False)
        assert main(["reproduce", row.id, "--judge", "--records", str(folder)]) == 1, (row.id, row.checks[number])
        assert f"fails: {row.checks[number]['says']} (not so in the list)" in capsys.readouterr().out
    assert tried == 20


def test_the_pages_show_every_row_that_runs():
    shown = {name for page in PAGES.glob("*.md") for fence in re.findall(r"\{reproduce\} (.*)", page.read_text()) for name in fence.split()}  # fmt: skip
    assert {name for name, row in ROWS.items() if row.verdict != "nothing to run"} <= shown
    assert shown <= ROWS.keys() | {"all"}


def test_figure_4_of_mixed_routing_again(tmp_path, capsys):
    made = ks.reproduce("fang2016:4", quick=True, out=tmp_path)
    assert made.numbers["this run"].tolist() == made.numbers["paper"].tolist() == ["k2 k4 k5", 4, "k1 k3 k4", 2]
    assert {path.suffix for path in made.files} == {".csv", ".md"}
    assert "MinTable" in (tmp_path / "fang2016_4.md").read_text()
    assert made.judged.held == [True] * 4
    assert main(["reproduce", "--judge", "--records", str(tmp_path), "--json"]) == 0
    judged = {row["id"]: row for row in json.loads(capsys.readouterr().out)}["fang2016:4"]
    assert judged["verdict"] == "comes out"
    assert all(check["holds"] for check in judged["checks"])
    table = tmp_path / "fang2016_4_figure_4.csv"
    table.write_text(table.read_text().replace("k2 k4 k5", "k2 k4"))
    assert main(["reproduce", "fang2016:4", "--judge", "--records", str(tmp_path)]) == 1


def test_a_picture_and_its_data(tmp_path, capsys):
    assert main(["reproduce", "guo2018:eq3-5", "--quick", "--out", str(tmp_path)]) == 0
    assert "differs" in capsys.readouterr().out
    assert main(["reproduce", "fang2016:18", "--quick", "--json", "--out", str(tmp_path)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert any(name.endswith(".png") for name in said["files"])
    assert said["compared"][-1]["this run"] == pytest.approx(9333, abs=1)


def test_seeds_are_medians_in_a_band(tmp_path):
    said = []
    made = ks.reproduce("fang2016:18", quick=True, out=tmp_path, seeds=(0, 1, 2), say=said.append)
    assert sorted(made.tables["adjustments"]["seed"].unique()) == [0, 1, 2]
    one = made.tables["adjustments"].query("series == 'N_D = 10, theta_max = 0.02' and adjustments == 64")["table"]
    assert made.numbers["this run"][0] == one.median()
    assert sum("| adjustments |" in text for text in said) == 1


def test_the_list(capsys):
    assert main(["reproduce", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ROWS)
    assert main(["reproduce", "ding2015", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {row["id"].partition(":")[0] for row in listed} == {"ding2015"}
    assert all(check.keys() == {"says", "holds"} for row in listed for check in row["checks"])


@pytest.mark.parametrize(
    ("words", "said"),
    [("nasir2015:99", "did you mean nasir2015:9"), ("nonsense", "--list"), ("fang2016:1", "nothing to run"),
     ("fang2016:1 --judge", "nothing to run"), ("nonsense --judge", "--list"), ("--judge --records nowhere", "not a folder"),
     ("--judge --records {}", "has no table of a figure"), ("fang2016:4 --judge --records {}", "has no table of fang2016:4"),
     ("fang2016:4 --records {}", "--judge")],
)  # fmt: skip
def test_what_cannot_be_run_or_judged_is_said_in_a_sentence(words, said, capsys, tmp_path):
    assert main(["reproduce", *words.format(tmp_path).split()]) == 2
    assert said in capsys.readouterr().err
