"""The lecturer's kit is whole: every page builds without a network, and its numbers are those of the models and of brute force."""

import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import keyshift as ks
from keyshift import exercises
from keyshift.catalogue import FORMULATIONS
from keyshift.cli import main
from keyshift.models.base.lazily import load

KIT = Path(__file__).parents[2] / "docs" / "kit"
sys.path.insert(0, str(KIT))

import worksheets  # noqa: E402  # a script of the documentation, not a module of ours


@pytest.fixture(scope="module")
def build():
    """The script itself loads Sphinx: not while tests are collected."""
    import build

    return build


@pytest.fixture(scope="module")
def pages(build):
    return build.pages()


def test_both_lectures_have_about_twenty_slides_with_notes(pages):
    for name in ("lecture-1", "lecture-2"):
        assert 18 <= pages[name].count("<section>") <= 22
        assert pages[name].count("<aside>") == pages[name].count("<section>")
        assert pages[name].count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') >= 2
        assert 'class="deck notes"' in pages[f"{name}-notes"]


def test_the_workbook_has_twelve_worksheets_with_and_without_solutions(pages):
    assert len(worksheets.WORKSHEETS) == 12
    assert pages["workbook"].count('class="sheet blank"') == 12
    assert "solution" not in re.sub(r"(?s)<style>.*</style>", "", pages["workbook"]).lower().replace(
        "in the solutions", ""
    )
    assert pages["workbook-solutions"].count('class="sheet solution"') == 12
    assert pages["workbook"].count("<th>nothing is better than</th>") == 12


@pytest.mark.parametrize("sheet", worksheets.WORKSHEETS, ids=lambda sheet: sheet.title)
def test_every_kind_of_row_of_a_worksheet_has_its_words(build, sheet):
    variables, rows = build.examples.size(sheet.example)
    assert set(rows) <= set(worksheets.ROWS)
    assert set(rows) == set(build.examples.algebra(sheet.example))
    shown = build.counts(sheet, True)
    assert f"| variables | {variables} | |" in shown
    assert sum(int(n) for n in re.findall(r"\| (\d+) \| `", shown)) == sum(rows.values())


def test_the_sheets_have_all_exercises_and_worksheets(pages):
    assert pages["sheets"].count('class="sheet"') == len(exercises.SHEETS) == 8
    for name in exercises.names():
        assert f"<code>{name}</code>" in pages["sheets"]
    used = [n for sheet in exercises.SHEETS.values() for n in sheet.by_hand]
    assert sorted(used) == list(range(1, 13))


def test_no_page_needs_a_network(pages):
    for name, text in pages.items():
        assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(["']?(https?:)?//""", text), name
        for formula in re.findall(r"(?s)<math.*?</math>", text):
            ElementTree.fromstring(formula)
        assert "{{" not in text


def test_every_line_of_code_in_the_kit_runs():
    text = "".join(path.read_text() for path in sorted(KIT.glob("*.md")))
    for block in re.findall(r"(?s)```python\n(.*?)```", text):
        exec(compile(block, "kit", "exec"), {})
    lines = re.findall(r"`(ks\.[^`]+)`", text)
    assert len(lines) > 3
    for line in lines:
        if line.startswith("ks.family("):
            assert len(list(itertools.islice(eval(line, {"ks": ks}), 1))) == 1
        else:
            assert eval(re.match(r"[\w.]+", line)[0], {"ks": ks}) is not None
    for command in re.findall(r"`?keyshift (\w+)`", text):
        assert main([command, "--help"]) == 0


@pytest.mark.parametrize("problem", FORMULATIONS.values(), ids=list(FORMULATIONS))
def test_a_formula_has_the_row_or_the_rows_that_there_are_are_named(build, problem):
    kind = load(problem.code)
    try:
        assert r"(1) \quad" in build.examples.formula(kind, "1")
    except ValueError as error:
        (number,) = re.findall(r"docstring has (\d+)", str(error))
        assert rf"({number}) \quad" in build.examples.formula(kind, number)


def test_without_a_browser_one_sentence_says_so(build, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    build.print_pdf(tmp_path / "sheets.html", tmp_path / "sheets.pdf")
    said = capsys.readouterr().out
    assert said == "sheets.pdf: not printed, since there is no Chromium (apt-get install chromium)\n"


@pytest.mark.slow
def test_everything_prints(build, tmp_path):
    if not any(map(shutil.which, build.BROWSERS)):
        pytest.skip("needs Chromium")
    subprocess.run([sys.executable, str(KIT / "build.py"), str(tmp_path), "--pdf"], check=True)
    for page in tmp_path.glob("*.html"):
        assert page.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
