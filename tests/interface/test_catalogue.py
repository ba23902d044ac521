"""The catalogue says where a method's code, its source and its lesson are; all three exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keyshift.catalogue import FORMULATIONS
from keyshift.catalogue.listing import as_markdown, as_row

ROOT = Path(__file__).parents[2]
METHODS = {f"{f.name}:{m.name}": (f, m) for f in FORMULATIONS.values() for m in f.methods}


@pytest.mark.parametrize("name", METHODS)
def test_code_source_and_lesson_exist(name):
    formulation, method = METHODS[name]
    row = as_row(formulation, method)
    path, _, attribute = row["code"].partition(": ")
    assert re.search(rf"^def {attribute}\(", (ROOT / path).read_text(), re.MULTILINE)
    assert (ROOT / "docs" / f"{row['lesson']}.md").is_file()
    papers = (ROOT / "docs" / "papers.md").read_text()
    cited = re.findall(r"\[[A-Z]\w+\d{4}\]", f"{method.source} {method.guarantee}")
    assert [c for c in cited if f"**{c}**" not in papers] == []


def test_every_method_has_a_row_of_its_table():
    page = as_markdown(FORMULATIONS.values())
    assert page.count("\n| `") == len(METHODS)
    widths = {line.replace("\\|", "").count("|") for line in page.splitlines() if line.startswith("|")}
    assert widths == {9}


def test_a_search_for_a_function_finds_its_entry():
    # no module path is put together from pieces
    for path in (ROOT / "interface" / "catalogue").glob("*.py"):
        assert not re.search(r'f"[^"\n]*\}[.:]\w', path.read_text()) or path.stem in ("listing", "method", "options")
