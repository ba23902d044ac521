"""What a problem's page prints is what solvers are given: every variable and row of the formula, as many as in the model."""

import contextlib
import io
import re
import sys
from pathlib import Path

import pyomo.environ as pyo
import pytest

import keyshift as ks

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "problems").glob("*.md"))
sys.path.insert(0, str(DOCS))

import transcript_folders  # noqa: E402  # a script of the documentation, not a module of ours

TABLE = re.compile(r"^\| in the formula \| in the model \| how many \| here \|\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
EXAMPLE = re.compile(r"^```python(?: transcript)?\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def in_the_model(problem: ks.Problem) -> dict[str, int]:
    """How many variables and rows of each family Pyomo's model has."""
    native = ks.model(problem, "pyomo").native
    families = native.component_objects((pyo.Var, pyo.Constraint), active=True)
    return {family.local_name: len(family) for family in families if len(family)}


def in_the_table(rows: str) -> dict[str, int]:
    """How many of each family a page's table has."""
    cells = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows.splitlines()]
    return {name: int(here) for _, name, _, here in cells}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_problems_page_prints_the_model_and_what_the_example_prints(page, tmp_path, monkeypatch):
    text = page.read_text()
    monkeypatch.chdir(tmp_path)
    transcript_folders.written_in(page)
    tables, examples = TABLE.findall(text), EXAMPLE.findall(text)
    assert len(tables) == len(examples) > 0
    for table, (code, said) in zip(tables, examples, strict=True):
        given: dict = {}
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, page.name, "exec"), given)
        assert output.getvalue() == said
        assert in_the_table(table) == in_the_model(given["problem"])
