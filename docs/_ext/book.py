"""What the course needs as a book, as EPUB or printed: formulas as MathML, which no script has to set, and open solutions.

``-D html_math_renderer=mathml`` chooses the former; the site itself has MathJax.
"""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


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


def open_solutions(app: Sphinx, docname: str, content: list[str]) -> None:
    """Paper cannot be clicked."""
    if app.builder.name in ("epub", "singlehtml"):
        content[0] = content[0].replace("<details ", '<details open="open" ')


def well_formed(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """What pandas writes is HTML, and EPUB is XML."""
    for raw in doctree.findall(nodes.raw) if app.builder.name == "epub" else ():
        raw.children = [nodes.Text(raw.astext().replace("<style scoped>", "<style>"))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.connect("source-read", open_solutions)
    app.connect("doctree-resolved", well_formed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
