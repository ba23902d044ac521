"""A notebook to download for each page that runs code, without its outputs and free of Sphinx's own syntax."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
FOLDER = "notebooks"
IS_NOTEBOOK = re.compile(r"\A---\njupytext:", re.MULTILINE)
TITLE = re.compile(r"^# .*$", re.MULTILINE)
LINK_TO_PAGE = re.compile(r"\[([^]]*)\]\(([\w./-]+)\.md(#[\w-]+)?\)")

INSTALL = (
    "*This notebook is a page of keyshift's documentation. It needs keyshift, from a checkout: `pip install '.[demo]'`, and "
    "a program that shows notebooks, such as JupyterLab; pages that read a log need Java 17 or newer, too.*"
)
LINK = '<p class="notebook"><a href="{up}{folder}/{name}.ipynb" download>Download this page as a notebook</a></p>'


def notebook_name(docname: str) -> str:
    """One flat name for each page: ``problems/intervals`` gives ``problems-intervals``, ``lessons/intervals`` ``intervals``."""
    return docname.removeprefix("lessons/").replace("/", "-")


def plain_markdown(text: str, folder: str) -> str:
    """Markdown that any notebook program shows: directives become quotes, roles their text; links lead to notebooks."""

    def linked(found: re.Match[str]) -> str:
        docname = posixpath.normpath(posixpath.join(folder, found[2]))
        page = DOCS / f"{docname}.md"
        has_notebook = page.exists() and IS_NOTEBOOK.match(page.read_text(encoding="utf-8"))
        return f"[{found[1]}]({notebook_name(docname)}.ipynb)" if has_notebook else found[1]

    text = re.sub(r"^(:{3,}|`{3,})\{(?:figure|image|live)\}[^\n]*\n(?:.*\n)*?\1\s*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^:{3,}\{(\w+)\}[ ]*(.*)$", lambda m: f"**{m[2] or m[1].capitalize()}**", text, flags=re.MULTILINE)
    text = re.sub(r"^:{3,}\s*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{[a-z:]+\}`([^`<]*?)\s*(?:<[^`>]*>)?`", r"\1", text)
    text = re.sub(r"<details class=\"solution\"><summary>(.*?)</summary>", r"**\1**", text)
    text = text.replace("</details>", "")
    text = LINK_TO_PAGE.sub(linked, text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def to_notebook(source: str, docname: str) -> nbformat.NotebookNode:
    """The notebook of a page's source."""
    notebook = read_myst_markdown_notebook(source, config=MdParserConfig(), add_source_map=False)
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = plain_markdown(cell.source, posixpath.dirname(docname))
            if not cell.source:
                continue
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": [t for t in tags if t == "raises-exception"]} if tags else {})
        cells.append(cell)
    cells.insert(1, nbformat.v4.new_markdown_cell(INSTALL))
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    notebook.cells = cells
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    )
    return notebook


def offer(app: Sphinx, docname: str, content: list[str]) -> None:
    """Put the link below the title of a page that runs code, and remember its source."""
    if not IS_NOTEBOOK.match(content[0]) or app.builder.name != "html":
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    name = notebook_name(docname)
    nbformat.write(to_notebook(content[0], docname), folder / f"{name}.ipynb")
    title = TITLE.search(content[0])
    if title:
        link = LINK.format(up="../" * docname.count("/"), folder=FOLDER, name=name)
        content[0] = f"{content[0][: title.end()]}\n\n{link}\n{content[0][title.end() :]}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", offer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
