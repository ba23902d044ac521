"""The registry of the papers' figures, tables and numbers, and the call that draws one of them anew."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from keyshift.models.errors import InputError

HERE = Path(__file__).parent
KEPT = HERE / "figures.json"
"""What `benchmarks/papers.py` saw: seconds and figures of each row, quick and full."""
VERDICTS = ("comes out", "in part", "differs", "not done", "nothing to run")
PAPERS = {
    "guo2018": "[Guo2018]", "madsen2016": "[Madsen2016]", "nasir2015": "[Nasir2015]", "fang2016": "[Fang2016]", "ding2015": "[Ding2015]",
}  # fmt: skip


@dataclass(frozen=True)
class PaperFigure:
    """A row of the registry: a figure, a table or a claim in numbers of one of the five papers.

    Attributes
    ----------
    id : str
        The paper's name and the figure's: "nasir2015:9", "guo2018:table2", "nasir2015:theorem5.1".
    shows : str
        What is to be seen there.
    verdict : {"comes out", "in part", "differs", "not done", "nothing to run"}
        What came of it here. A figure that only draws the setting has nothing to run.
    why : str
        Why it differs, as far as a run shows it; or what is missing.
    run : tuple
        Functions of this folder, and their arguments.
    data : str
        What stands in for the paper's data.
    seed : str
        Seeds of what is drawn.
    simulated : bool
        Whether queues were simulated, for want of a cluster.
    numbers : tuple of (str, object, str)
        What is compared: its name, what the paper prints, and where ours is: "table; query; column".
    """

    id: str
    shows: str
    verdict: str
    why: str = ""
    run: tuple[Any, ...] = ()
    data: str = ""
    seed: str = ""
    simulated: bool = False
    numbers: tuple[tuple[str, Any, str], ...] = ()

    @property
    def said(self) -> str:
        """The verdict, and whether it rests on a simulation."""
        return self.verdict + (" (simulated)" if self.simulated else "")

    @property
    def kept(self) -> Mapping[str, Any]:
        """What was seen by those who ran it, by "quick" and "full": seconds, and our figures in the order of `numbers`."""
        return _kept().get(self.id, {})

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data, with the seconds that it took."""
        seconds = {size: seen["seconds"] for size, seen in self.kept.items()}
        return {**asdict(self), "seconds": seconds, "command": f"keyshift reproduce {self.id}"}


@cache
def figures() -> Mapping[str, PaperFigure]:
    """Every row of the registry by its id, paper by paper."""
    rows = yaml.safe_load((HERE / "figures.yaml").read_text(encoding="utf-8"))
    made = (
        PaperFigure(**{**row, "numbers": tuple(map(tuple, row.get("numbers", ()))), "run": tuple(row.get("run", ()))})
        for row in rows
    )
    return {figure.id: figure for figure in made}


@cache
def _kept() -> dict[str, Any]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


@dataclass(frozen=True)
class Reproduction:
    """A figure, table or claim, run again; printed, it says our figures beside the paper's.

    Attributes
    ----------
    figure : PaperFigure
        Its row of the registry.
    numbers : DataFrame
        What is compared: its name, the paper's figure, ours of this run, ours of the full run that is kept (where there is one).
    files : tuple of Path
        What was written: pictures (.png), their data (.csv), and a page of all tables (.md).
    seconds : float
        What it took.
    quick : bool
        Whether sizes were small.
    """

    figure: PaperFigure
    numbers: pd.DataFrame
    files: tuple[Path, ...]
    seconds: float
    quick: bool = False
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict, repr=False)

    def to_frame(self) -> pd.DataFrame:
        """The comparison, a row a figure."""
        return self.numbers


def find(name: str) -> PaperFigure:
    """A row of the registry, by its id."""
    rows = figures()
    if name in rows:
        return rows[name]
    paper = name.partition(":")[0]
    near = get_close_matches(name, rows, n=3) or [known for known in rows if known.startswith(f"{paper}:")][:3]
    raise InputError(
        f"there is no figure {name:.40}" + (f": did you mean {', '.join(near)}?" if near else "")
        + " `keyshift reproduce --list` has all"
    )  # fmt: skip


def reproduce(
    name: str, *, quick: bool = False, out: str | Path | None = None, say: Callable[[str], object] | None = None
) -> Reproduction:
    """Run a figure, a table or a claim of one of the five papers again, and compare our figures with the paper's.

    `keyshift reproduce --list` has all names. Experiments that the papers ran on a cluster are simulated, and each row
    says what replaces the paper's data.

    Parameters
    ----------
    name : str
        Such as "nasir2015:9", "fang2016:table2", "madsen2016:12".
    quick : bool, default False
        Small sizes, for a look.
    out : path, optional
        A folder for pictures (.png), their data (.csv) and a page of tables (.md). By default `reproduced/`, here.
    say : callable, optional
        Called with the text of every table as it is made.
    """
    figure = find(name)
    if not figure.run:
        raise InputError(f"{name}: {figure.verdict}: {figure.why}")
    from keyshift.papers.page import Page  # it draws; to list is possible without Matplotlib

    said: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        if say is not None:
            say(text)

    page = Page(name.replace(":", "_"), Path(out or "reproduced"), quick, say=tell)
    began, before = time.perf_counter(), {path: path.stat().st_mtime_ns for path in page.out.iterdir()}
    for step in figure.run:
        function, arguments = (step, {}) if isinstance(step, str) else next(iter(step.items()))
        part = load(function)
        page.begin(*(line.strip() for line in (part.__doc__ or function).strip().splitlines()))
        part(page, **arguments)
    if figure.numbers and not page.tables and said:  # its data is not there
        raise InputError(f"{name}: {said[-1]}")
    page.write(f"{name}: {figure.shows}", figure.data)
    seconds = time.perf_counter() - began
    files = sorted(path for path in page.out.iterdir() if before.get(path) != path.stat().st_mtime_ns)
    numbers = compared(figure, [value(page.tables, where) for _, _, where in figure.numbers])
    return Reproduction(figure, numbers, tuple(files), seconds, quick, page.tables)


def load(function: str) -> Callable[..., None]:
    """The function that a row names, as in "nasir2015.choices"."""
    module, _, called = function.partition(".")
    return getattr(importlib.import_module(f"keyshift.papers.{module}"), called)


def compared(figure: PaperFigure, ours: Sequence[Any], column: str = "this run") -> pd.DataFrame:
    """Our figures beside the paper's, and those of the full run that is kept."""
    frame = pd.DataFrame([number[:2] for number in figure.numbers], columns=["figure", "paper"]).assign(
        **{column: list(ours)}
    )
    full = figure.kept.get("full", {}).get("ours")
    return frame if full is None or len(full) != len(frame) else frame.assign(**{"kept, full": full})


def value(tables: Mapping[str, pd.DataFrame], where: str) -> Any:
    """A figure of a table: "table; query; column", of the last row that the query keeps, or of all "mean column"; None for none."""
    name, query, column = (part.strip() for part in where.split(";"))
    frame = tables.get(name)
    way, _, of = column.partition(" ")
    if frame is None or (column if column in frame else of) not in frame:
        return None
    rows = frame.query(query, engine="python") if query else frame
    found = rows[column if column in frame else of].dropna()
    if found.empty:
        return None
    seen = found.iloc[-1] if column in frame else getattr(found, way)()
    return seen if isinstance(seen, str) else float(f"{float(seen):.4g}")
