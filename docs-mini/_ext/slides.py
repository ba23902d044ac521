"""The directive ``slides``: a page of slides for one session of the course, made of the lessons' figures.

The argument is the file's name, the first line the session's title. Every further line is a slide: ``page number | words``
shows a figure (counted from 0, as in the gallery) with what to say about it, ``= words`` is a slide of words only. ``;``
separates points.

The slides are one plain HTML file without scripts from elsewhere: arrow keys turn them, printing puts one on each page.
Beside it lie its figures, as SVG, to be dropped into slides of one's own.
"""

from __future__ import annotations

import re
import shutil
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from gallery import figures
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

FOLDER = "slides"

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0; font: 1.35rem/1.4 system-ui, sans-serif; color: #14202b; background: #fff; }}
section {{ box-sizing: border-box; min-height: 100vh; padding: 4vh 6vw; display: flex; flex-direction: column;
  justify-content: center; gap: 2vh; border-bottom: 1px solid #bbb; break-after: page; }}
h1, h2 {{ margin: 0; line-height: 1.2; }} h1 {{ font-size: 2.4rem; }} h2 {{ font-size: 1.7rem; }}
img {{ max-width: 100%; max-height: 66vh; object-fit: contain; align-self: center; flex: 0 1 auto; }}
img {{ width: min(100%, 62rem); }}
ul {{ margin: 0; padding-left: 1.2em; }} a {{ color: #0b5d8f; }} footer {{ font-size: 0.9rem; color: #4a5763; }}
@media print {{ section {{ height: 100vh; border: 0; }} footer {{ display: none; }} }}
</style></head><body>
{slides}
<script>
addEventListener("keydown", (event) => {{
  const step = {{ ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 }}[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...document.querySelectorAll("section")];
  const here = all.findIndex((s) => s.getBoundingClientRect().bottom > innerHeight / 2);
  all[Math.min(all.length - 1, Math.max(0, here + step))].scrollIntoView();
}});
</script></body></html>
"""


class Slides(nodes.General, nodes.Element):
    """A place for a link, filled once every page has been read."""


class SlidesDirective(Directive):
    """Keep the lines until the figures are known."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Make the place-holder."""
        return [Slides(name=self.arguments[0], lines=[line for line in self.content if line.strip()])]


def points(words: str) -> tuple[str, str]:
    """A heading and a list, out of words separated by semicolons."""
    head, *rest = (part.strip() for part in words.split(";"))
    items = "".join(f"<li>{escape(part)}</li>" for part in rest)
    return escape(head), f"<ul>{items}</ul>" if items else ""


def figure_of(app: Sphinx, page: str, number: int) -> Path:
    """The file of a figure on a page."""
    found = figures(app, page)
    if number >= len(found):
        raise ExtensionError(f"slides: {page} has {len(found)} figures, so none with the number {number}")
    return Path(app.srcdir) / found[number]


def make(app: Sphinx, name: str, lines: list[str]) -> None:
    """Write the slides of one session, and copy its figures."""
    folder = Path(app.outdir) / FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    title, slides = lines[0], [f"<section><h1>{escape(lines[0])}</h1></section>"]
    for number, line in enumerate(lines[1:], 1):
        if line.startswith("="):
            head, rest = points(line[1:])
            slides.append(f"<section><h2>{head}</h2>{rest}</section>")
            continue
        where, words = (part.strip() for part in line.split("|", 1))
        page, _, index = where.partition(" ")
        source = figure_of(app, page, int(index or 0))
        target = f"{number:02}-{page.rsplit('/', 1)[-1]}{source.suffix}"
        shutil.copyfile(source, folder / target)
        head, rest = points(words)
        link = f'<footer><a href="../{escape(app.builder.get_target_uri(page))}">{escape(page)}</a></footer>'
        slides.append(f'<section><h2>{head}</h2><img src="{escape(name)}/{target}" alt="{head}">{rest}{link}</section>')
    (folder.parent / f"{name}.html").write_text(PAGE.format(title=escape(title), slides="\n".join(slides)))


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make each session's slides, and replace the place-holder by a link."""
    for place in list(doctree.findall(Slides)):
        if app.builder.format != "html":
            place.parent.remove(place)
            continue
        make(app, place["name"], place["lines"])
        up = "../" * docname.count("/")
        title = re.sub(r"^\d+\.\s*", "", place["lines"][0])
        link = f'<p><a href="{up}{FOLDER}/{escape(place["name"])}.html">Slides: {escape(title)}</a></p>'
        place.replace_self(nodes.raw("", link, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(Slides)
    app.add_directive("slides", SlidesDirective)
    app.connect("doctree-resolved", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
