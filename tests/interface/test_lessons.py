"""What every lesson has: its symbols, a notebook, and to each question a solution that runs and asserts."""

import importlib
import re
from pathlib import Path

import nbformat
import pytest

DOCS = Path(__file__).parents[2] / "docs"
LESSONS = sorted((DOCS / "lessons").glob("*.md"))
SOLUTION = re.compile(r"<summary>Solution (\d+)</summary>(.*?)</details>", re.DOTALL)
ids = [path.stem for path in LESSONS]
PAGES = [*sorted(DOCS.glob("*.md")), *LESSONS, *sorted((DOCS / "engines").glob("*.md"))]


@pytest.mark.parametrize("path", LESSONS, ids=ids)
def test_every_question_has_a_solution_that_asserts(path):
    _, *parts = re.split(r"^##+ Questions\n", path.read_text(), flags=re.MULTILINE)
    assert parts
    for questions in parts:
        asked = re.findall(r"^(\d+)\. ", questions.split("<details")[0], re.MULTILINE)
        solutions = dict(SOLUTION.findall(questions))
        assert asked
        assert list(solutions) == asked
        assert all(re.search(r"^ *assert ", text, re.MULTILINE) for text in solutions.values())


@pytest.mark.parametrize("path", LESSONS, ids=ids)
def test_every_lesson_says_what_its_symbols_are(path):
    assert "| symbol | what it is | in code |" in path.read_text()


@pytest.fixture
def notebooks(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    return importlib.import_module("notebooks")


def test_no_two_pages_are_downloaded_by_one_name(notebooks):
    """A lesson and the page of its problem have one name in two folders."""
    offered = [path for path in DOCS.rglob("*.md") if notebooks.IS_NOTEBOOK.match(path.read_text())]
    names = [notebooks.notebook_name(path.relative_to(DOCS).with_suffix("").as_posix()) for path in offered]
    assert len(set(names)) == len(names) > len(LESSONS)


def test_links_lead_to_notebooks_that_are_offered(notebooks):
    def plain(text):
        return notebooks.plain_markdown(text, "lessons")

    assert (
        plain("[a](../problems/allocation.md), [b](allocation.md#top)")
        == "[a](problems-allocation.ipynb), [b](allocation.ipynb)"
    )
    assert plain("[the papers](../papers.md)") == "the papers"


@pytest.mark.parametrize("path", LESSONS, ids=ids)
def test_every_lesson_makes_a_notebook_that_any_program_shows(path, notebooks):
    assert notebooks.IS_NOTEBOOK.match(path.read_text())
    made = notebooks.to_notebook(path.read_text(), f"lessons/{path.stem}")
    nbformat.validate(made)
    assert sum(cell.cell_type == "code" for cell in made.cells) == path.read_text().count("```{code-cell}")
    prose = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    assert not re.search(r"^:::|^```\{|\{(doc|ref|term)\}`|</?details|\]\([^)]*\.md\b", prose, re.MULTILINE)


@pytest.mark.parametrize("path", LESSONS, ids=ids)
def test_code_that_draws_is_folded(path):
    for code in re.findall(r"^```\{code-cell\}.*?\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
        if "plt.subplots(" in code:
            assert re.search(r"^:tags: \[(hide|remove)-", code, re.MULTILINE), code


def prose_of(page):
    """A page without code and formulas."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", "", text, flags=re.DOTALL)
    return re.sub(r"^(    .*|.*code-cell.*)$", "", text, flags=re.MULTILINE)


NO_ACRONYMS = {"II", "III", "IV", "LICENSE", "CONTRIBUTING", "CHANGELOG", "STEPS", "NAME", "OUT", "NN", "HOST", "FIFO"}
NO_ACRONYMS |= {
    "README",
    "TABLE",
    "QUERY",
    "ISO",
    "URL",
    "PATH",
    "CI",
    "POST",
    "EPUB",
    "PDF",
    "GB",
    "RFC",
    "NULL",
    "CRLF",
}
NO_ACRONYMS |= {"PREFERRED", "SIMULATED", "THEN"}  # words that somebody else wrote so


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_acronym_is_in_the_glossary(page):
    said = (DOCS / "glossary.md").read_text() + (DOCS / "papers.md").read_text()
    used = set(re.findall(r"(?<![\w/.-])[A-Z]{2,}(?![\w/-])", prose_of(page))) - NO_ACRONYMS
    missing = sorted(word for word in used if not re.search(rf"\b{word}\b", said))
    assert not missing


def test_every_lesson_has_one_place_in_one_order():
    """The tables number the lessons as the sidebar, and with it previous and next, has them."""
    said = (DOCS / "paths.md").read_text()
    numbered = re.findall(r"^\| (\d+) \| \[[^]]+\]\((lessons/[\w-]+)\.md\)", said, re.MULTILINE)
    in_sidebar = re.findall(r"^lessons/[\w-]+$", said, re.MULTILINE)
    assert [int(number) for number, _ in numbered] == list(range(1, len(LESSONS) + 1))
    assert [lesson for _, lesson in numbered] == in_sidebar
    assert sorted(in_sidebar) == [f"lessons/{path.stem}" for path in LESSONS]
