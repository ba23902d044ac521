"""What the course needs as a book, as EPUB or printed: formulas as MathML, which no script has to set; open solutions; contents.

``-D html_math_renderer=mathml`` chooses the former; the site itself has MathJax.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.builders.epub3 import Epub3Builder

BOOKS = ("epub", "singlehtml")
LESSONS = re.compile(r"```\{toctree\}\n:hidden:\n\n(.*?)```\n", re.DOTALL)


def mathml(tex: str, display: bool) -> str:
    """A formula as MathML."""
    tex = re.sub(r"\\textstyle|\\[bB]ig(?![a-z])", "", tex).replace("\\dots", "\\ldots")
    tex = re.sub(r"(\\[td]?frac) ?(\w)(\w)", r"\1{\2}{\3}", tex)  # a half without braces
    return str(tex2mathml(tex, as_block=display)).replace("&ApplyFunction;", "&#8289;")  # a name that XML lacks


def visit_inline(self: nodes.NodeVisitor, node: nodes.math) -> None:
    """Set a formula in a line."""
    self.body.append(mathml(node.astext(), False))
    raise nodes.SkipNode


def visit_display(self: nodes.NodeVisitor, node: nodes.math_block) -> None:
    """Set a formula of its own; several lines of it are aligned, as Sphinx does for MathJax."""
    tex = node.astext().strip()
    if "\\begin{" not in tex and ("\\\\" in tex or "&" in tex):
        tex = f"\\begin{{aligned}}{tex}\\end{{aligned}}"
    self.body.append(f'<div class="math">{mathml(tex, True)}</div>')
    raise nodes.SkipNode


def arrange(app: Sphinx, docname: str, content: list[str]) -> None:
    """Open solutions, since paper cannot be clicked, and list the lessons as chapters, not below the page of paths."""
    if app.builder.name not in BOOKS:
        return
    content[0] = content[0].replace("<details ", '<details open="open" ')
    if docname == "paths":
        content[0] = LESSONS.sub("", content[0])
    elif docname == "book":
        lessons = LESSONS.search((Path(app.srcdir) / "paths.md").read_text())
        content[0] = content[0].replace("\npapers\n", f"\n{lessons[1]}papers\n" if lessons else "")


def as_book(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Leave out folded code and its style sheet; what is not XML, or not in EPUB's schema; put the contents in front."""
    if app.builder.name not in BOOKS:
        return
    context["css_files"] = [sheet for sheet in context["css_files"] if "mystnb" not in sheet.filename]
    body = re.sub(r'<details [^>]*class="[^"]*\bhide\b.*?</details>', "", context.get("body", ""), flags=re.DOTALL)
    if app.builder.name == "epub":
        body = re.sub(r"<style scoped.*?</style>", "", body, flags=re.DOTALL)
        body = re.sub(r'(<mfrac)(?: (?:displaystyle|scriptlevel)="[^"]*")+', r"\1", body)
    else:
        title = r'<span id="(document-[^"]+)"></span><section[^>]*>\s*(?:<span[^>]*></span>)*<h\d>(.*?)<a class="headerlink"'
        chapters = [f'<li><a href="#{at}">{name}</a></li>' for at, name in re.findall(title, body, re.DOTALL)]
        body = body.replace(
            '<div class="toctree-wrapper',
            f'<ol class="contents">{"".join(chapters)}</ol><div class="toctree-wrapper',
            1,
        )
    context["body"] = body


class Epub(Epub3Builder):
    """EPUB whose list of contents says which pages have formulas, as its standard asks."""

    def build_content(self) -> None:
        """Write the list, then complete it."""
        super().build_content()
        listed = Path(self.outdir) / "content.opf"

        def with_formulas(item: re.Match[str]) -> str:
            page = listed.parent / item[1]
            has = page.exists() and "<math" in page.read_text()  # the navigation comes later
            return item[0].replace(" href=", ' properties="mathml" href=') if has else item[0]

        listed.write_text(re.sub(r'<item [^>]*href="([^"]+\.xhtml)"[^>]*>', with_formulas, listed.read_text()))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.add_builder(Epub, override=True)
    app.connect("source-read", arrange)
    app.connect("html-page-context", as_book)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
