"""Formulas as MathML, for the EPUB and the printed course: no script sets them, and readers of books know it.

``-D html_math_renderer=mathml`` chooses it; the site itself has MathJax.
"""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def mathml(tex: str, display: bool) -> str:
    """A formula as MathML."""
    tex = tex.replace("\\textstyle", "").replace("\\dots", "\\ldots").replace("\\Big", "\\big")
    return str(tex2mathml(tex, as_block=display))


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


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
