"""keyshift warm-up: compile ahead."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common


def warm_up(
    problem: Annotated[str | None, typer.Argument(help="Only what this problem's methods call.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep it here; later runs find it where NUMBA_CACHE_DIR names this folder.")
    ] = None,
) -> None:
    """Compile ahead what methods need: for images and CI."""
    if cache is not None:
        os.environ["NUMBA_CACHE_DIR"] = str(cache.absolute())
    from keyshift.warming import warm_up as run

    with common.progress("warming up"):
        seconds = run(problem)
    where = "" if cache is None else f" and kept in {cache}: set NUMBA_CACHE_DIR={cache.absolute()}"
    common.console().print(
        f"compiled in {seconds:.0f} s{where}" if seconds else "all was compiled before", soft_wrap=True
    )
