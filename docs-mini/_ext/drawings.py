"""Have the lessons draw their figures as SVG: sharp at any size, and ready for slides.

A kernel reads its settings from a folder that an environment variable names; the build gives it one of its own.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

SETTINGS = """
c = get_config()
c.IPKernelApp.matplotlib = "inline"
c.InlineBackend.figure_formats = {"svg"}
c.InlineBackend.print_figure_kwargs = {"bbox_inches": "tight", "metadata": {"Date": None}}
c.InlineBackend.rc = {"svg.hashsalt": "keyshift"}
"""


def prepare(app: Sphinx) -> None:
    """Write the settings where kernels of this build look for them, and nowhere else."""
    folder = Path(tempfile.mkdtemp(prefix="keyshift-docs-"))
    profile = folder / "profile_default"
    profile.mkdir()
    (profile / "ipython_kernel_config.py").write_text(SETTINGS)
    os.environ["IPYTHONDIR"] = str(folder)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", prepare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
