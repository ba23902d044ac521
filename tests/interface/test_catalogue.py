"""The catalogue says where a method's code, its source and its lesson are; all three exist."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.commands.model import as_row
from keyshift.models.base.guards import annotations_of

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


def test_every_work_cited_is_on_the_page_of_papers():
    page = (ROOT / "docs" / "papers.md").read_text()
    files = [path for part in ("benchmarks", "docs", "heuristics", "interface", "models", "solvers", "spark_stats")
             for kind in ("*.py", "*.md", "*.yaml") for path in (ROOT / part).rglob(kind)]  # fmt: skip
    cited = {work for path in files for work in re.findall(r"\[[A-Z]\w+\d{4}\]", path.read_text(encoding="utf-8"))}
    assert len(cited) > 40
    assert sorted(work for work in cited if f"**{work}**" not in page) == []


def test_every_method_has_a_row_of_its_table():
    tables = {
        named: table
        for path in (ROOT / "docs" / "problems").glob("*.md")
        for named, table in re.findall(r"methods ([\w-]+) -->\n+(.*?)\n+<!-- end -->", path.read_text(), re.DOTALL)
    }
    assert sorted(tables) == sorted(FORMULATIONS)
    for problem, table in tables.items():
        _, _, *rows = table.splitlines()
        assert [row.split("`")[1] for row in rows] == [m.name for m in FORMULATIONS[problem].methods]
        assert {row.replace("\\|", "").count("|") for row in rows} == {9}


def test_a_search_for_a_function_finds_its_entry():
    # no module path is put together from pieces
    for path in (ROOT / "interface" / "catalogue").glob("*.py"):
        assert not re.search(r'f"[^"\n]*\}[.:]\w', path.read_text()) or path.stem in ("listing", "method", "options")


@pytest.mark.parametrize("name", METHODS)
def test_every_option_of_a_method_says_what_fits(name):
    _, method = METHODS[name]
    assert all(annotations_of(method.function)[option] is not Any for option in method.options)


def test_a_wrong_line_is_refused_before_any_solver_is_loaded(tmp_path):
    ks.write_workload(ks.Workload(load=[2, 1], state=[1, 1], current=[0, 0], nodes=2), tmp_path / "w.json")
    heavy = ("pyomo", "numba", "ortools", "highspy", "scipy", "matplotlib", "pandas", "pyspark")
    lines = [
        ["solve", "w.json", "--out", "no/such/plan.json"],
        ["compare", "w.json", "-m", "nothing"],
        ["plan", "w.json", "--report", "no/such/page.html"],
        ["solve", "nothing.json"],
    ]
    code = (
        f"import sys; from keyshift.cli import main\n"
        f"for line in {lines!r}: print(main(line), [m for m in {heavy!r} if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert run.stdout.splitlines() == ["2 []"] * len(lines), (run.stdout, run.stderr)


def test_lazy_imports_are_real_ones_that_run_later(tmp_path, monkeypatch):
    from keyshift.models.base.lazily import Named, lazily, load

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lazy_things.py").write_text("import json\ndef thing(): return json.dumps([1])\n")
    with lazily() as names:
        import csv  # a module without names is imported as ever

        from lazy_things import thing
    assert names == {"thing": Named("lazy_things", "thing")} == {"thing": thing}
    assert csv.reader is not None
    assert "lazy_things" not in sys.modules
    assert thing.load()() == "[1]"
    assert load("lazy_things:thing") is load(load("lazy_things:thing")) is thing.load()
    from json import dumps

    assert callable(dumps)  # behind the block, imports are what they were


@pytest.mark.parametrize("name", FORMULATIONS)
def test_the_annotations_of_every_problem_can_be_read(name):
    # also those that a problem inherits, which are written where its base stands
    made = FORMULATIONS[name].problem_class
    assert set(annotations_of(made)) == set(inspect.signature(made).parameters)
