"""The registry of the papers' figures: every one has a row, every row runs or says why not, and the pages show them all."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.papers import registry

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
    assert row.why or row.verdict == "comes out"
    assert bool(row.run) == (row.verdict not in ("not done", "nothing to run"))
    for step in row.run:
        function, arguments = (step, {}) if isinstance(step, str) else next(iter(step.items()))
        inspect.signature(registry.load(function)).bind(None, **arguments)
    assert all(len(number) == 3 and number[2].count(";") == 2 for number in row.numbers)
    for seen in row.kept.values():
        assert len(seen["ours"]) == len(row.numbers)


def test_a_record_is_of_a_row():
    assert json.loads(registry.KEPT.read_text()).keys() <= ROWS.keys()


def test_the_pages_show_every_row_that_runs():
    shown = {name for page in PAGES.glob("*.md") for fence in re.findall(r"\{reproduce\} (.*)", page.read_text()) for name in fence.split()}  # fmt: skip
    assert {name for name, row in ROWS.items() if row.verdict != "nothing to run"} <= shown
    assert shown <= ROWS.keys() | {"all"}


def test_figure_4_of_mixed_routing_again(tmp_path):
    made = ks.reproduce("fang2016:4", quick=True, out=tmp_path)
    assert made.numbers["this run"].tolist() == made.numbers["paper"].tolist() == ["k2 k4 k5", 4, "k1 k3 k4", 2]
    assert {path.suffix for path in made.files} == {".csv", ".md"}
    assert "MinTable" in (tmp_path / "fang2016_4.md").read_text()


def test_a_picture_and_its_data(tmp_path, capsys):
    assert main(["reproduce", "guo2018:eq3-5", "--quick", "--out", str(tmp_path)]) == 0
    assert "differs" in capsys.readouterr().out
    assert main(["reproduce", "fang2016:18", "--quick", "--json", "--out", str(tmp_path)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert any(name.endswith(".png") for name in said["files"])
    assert said["compared"][-1]["this run"] == pytest.approx(9333, abs=1)


def test_the_list(capsys):
    assert main(["reproduce", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ROWS)
    assert main(["reproduce", "ding2015", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {row["id"].partition(":")[0] for row in listed} == {"ding2015"}


@pytest.mark.parametrize(
    ("name", "said"),
    [("nasir2015:99", "did you mean nasir2015:9"), ("nonsense", "--list"), ("fang2016:1", "nothing to run")],
)  # fmt: skip
def test_what_cannot_be_run_is_said_in_a_sentence(name, said, capsys):
    assert main(["reproduce", name]) == 2
    assert said in capsys.readouterr().err
