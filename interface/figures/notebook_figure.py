"""A Matplotlib figure that a notebook shows as a picture, whether or not pyplot has been imported."""

from __future__ import annotations

import io

from keyshift.models.errors import needing

with needing("matplotlib", "pictures need Matplotlib: pip install '.[plot]' in a checkout of keyshift"):
    from matplotlib.figure import Figure as PlainFigure


class Figure(PlainFigure):
    """A figure with a method that gives its picture.

    Notebooks learn to draw Matplotlib's figures from pyplot; who never imports it would see ``<Figure size ...>``. The
    library draws without pyplot, since pyplot keeps global state and may open windows.
    """

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()
