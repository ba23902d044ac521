"""Folders from which something is gone, or whose manifest declares what is not there."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import keyshift as ks
from hostile.files import dump, good, put, statistics, workload
from hostile.refusals import Case


def cases() -> Iterator[Case]:
    """Folders from which something is gone: never read as zero."""

    def without(part: str, folder: Path) -> Callable[[], Any]:

        path = statistics(folder) / part
        shutil.rmtree(path)
        return partial(ks.read_workload, folder / "st")

    for part in (
        "runs",
        "runs/ab12",
        "runs/ab12/load",
        "runs/ab12/load/window=7",
        "runs/ab12/load/window=8",
        "runs/ab12/traffic",
    ):
        yield Case("statistics: a folder gone", part, partial(without, part))
    for seen in ("window twice", "run outside", "window far"):

        def made(folder: Path, seen: str = seen) -> Callable[[], Any]:
            content = copy.deepcopy(good()["statistics"])
            if seen == "window twice":
                content["runs"]["cd34"] = {"windows": [8], "refused": []}
            elif seen == "run outside":
                content["runs"]["../../ab12"] = content["runs"].pop("ab12")
            else:
                content["runs"]["ab12"]["windows"] = [7, 10**12]
            return partial(ks.read_workload, statistics(folder, content))

        yield Case("statistics: runs", seen, made)

    def tables_declare(folder: Path, **numbers: int) -> list[str]:
        ks.write_workload(workload(), folder / "w")
        about = json.loads((folder / "w/workload.json").read_text()) | numbers
        put(folder, "w/workload.json", dump(about))
        return ["solve", "w", "-m", "flux"]

    for numbers in (
        {"windows": 10**9},
        {"key_groups": 10**15},
        {"nodes": 10**9},
        {"windows": 10**5, "key_groups": 10**5},
    ):
        yield Case("manifest: declares too much", str(numbers), partial(tables_declare, **numbers))
