"""What every lesson has: its symbols, and to each question a solution that runs and asserts."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
LESSONS = sorted(path for path in (DOCS / "lessons").glob("*.md") if path.name != "index.md")
SOLUTION = re.compile(r"<summary>Solution (\d+)</summary>(.*?)</details>", re.DOTALL)
ids = [path.stem for path in LESSONS]


@pytest.mark.parametrize("path", LESSONS, ids=ids)
def test_every_question_has_a_solution_that_asserts(path):
    questions = path.read_text().split("## Questions\n")[1]
    asked = re.findall(r"^(\d+)\. ", questions.split("<details")[0], re.MULTILINE)
    solutions = dict(SOLUTION.findall(questions))
    assert asked
    assert list(solutions) == asked
    silent = [number for number, text in solutions.items() if not re.search(r"^ *assert ", text, re.MULTILINE)]
    assert not silent


@pytest.mark.parametrize("path", LESSONS, ids=ids)
def test_every_lesson_says_what_its_symbols_are(path):
    assert "| symbol | what it is | in code |" in path.read_text()


@pytest.mark.parametrize("page", ["lessons/index.md", "paths.md"])
def test_every_lesson_is_listed(page):
    listed = (DOCS / page).read_text()
    missing = [path.stem for path in LESSONS if not re.search(rf"\b{path.stem}\b", listed)]
    assert not missing
