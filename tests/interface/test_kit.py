"""The lecturer's kit is whole: every page builds without a network, and its numbers are those of the models and of brute force."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

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


@pytest.mark.parametrize("sheet", worksheets.WORKSHEETS, ids=lambda sheet: sheet.title)
def test_every_kind_of_row_of_a_worksheet_has_its_words(build, sheet):
    variables, rows = build.examples.size(sheet.example)
    assert set(rows) <= set(worksheets.ROWS)
    assert set(rows) == set(build.examples.algebra(sheet.example))
    shown = build.counts(sheet, True)
    assert f"| variables | {variables} | |" in shown
    assert sum(int(n) for n in re.findall(r"\| (\d+) \| `", shown)) == sum(rows.values())


def test_no_page_needs_a_network(pages):
    for name, text in pages.items():
        assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(["']?(https?:)?//""", text), name
        for formula in re.findall(r"(?s)<math.*?</math>", text):
            ElementTree.fromstring(formula)
        assert "{{" not in text


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
