"""Live figures in lessons: the parts of the page of `keyshift explore`, in one script beside the pages, which works from disk.

``:::{live} six`` puts a figure there, and what stands in it - what to try, a question - below.
"""

from __future__ import annotations

import json
from pathlib import Path

from book import BOOKS
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import keyshift as ks
from keyshift.report.drawings import SCRIPTS, script
from keyshift.report.exploring import as_json, model_record

MODULES = ("figures", "arithmetic", "tables", "draw", "board", "lessons")


def given(name: str) -> dict[str, object] | None:
    """The data of a figure: six key groups on three nodes, as on the front page."""
    w = ks.Workload(load=[8, 6, 5, 2, 2, 1], state=[9, 2, 3, 1, 1, 1], current=[0, 0, 0, 1, 1, 2], nodes=3)
    if name == "six":
        problem = ks.KeyGroupAllocation(w, max_migrations=2)
        return as_json({"model": model_record(problem, []), "bound": ks.solve(problem).bound})
    return as_json({"model": model_record(ks.MCLB(w), [])}) if name == "front" else None


class Live(SphinxDirective):
    """A figure that one can play with; a book says that the site has it."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The figure's place, its data, its text."""
        if self.env.app.builder.name in BOOKS:
            return [nodes.paragraph("", "", nodes.emphasis("", "The site has a figure to play with here."))]
        name = self.arguments[0]
        data = json.dumps(given(name)).replace("<", "\\u003c")
        place = f'<div class="live-figure" data-live="{name}"><script type="application/json">{data}</script></div>'
        box = nodes.container(classes=["live-text"])
        self.state.nested_parse(self.content, self.content_offset, box)
        return [nodes.raw("", place, format="html"), box]


def put_parts(app: Sphinx) -> None:
    """Write the script and the style beside the pages."""
    if app.builder.format != "html" or app.builder.name in BOOKS:
        return
    app.add_js_file("live.js")
    app.add_css_file("live.css")
    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "live.js").write_text(script(*MODULES))
    rules = (SCRIPTS / "page.css").read_text().partition("/* Drawings")[2].partition("@media print")[0]
    (folder / "live.css").write_text(f".live-figure {{\n{rules.partition('*/')[2]}\n}}\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("live", Live)
    app.connect("builder-inited", put_parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
