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
from keyshift.papers.checks import addresses, holds, value

HERE = Path(__file__).parent
KEPT = HERE / "figures.json"
"""What `benchmarks/papers.py` saw of each row: seconds, quick and full, and of the full run how many seeds, and which checks hold."""
RECORDS = HERE / "records"
"""The tables of the full runs that checks and figures are read from, as `--out` writes them."""
SEEDS = 5
"""Seeds of a full run: a verdict that rests on fewer is not *comes out*, unless nothing is drawn."""
VERDICTS = ("comes out", "in part", "differs", "not run in full", "nothing to run")
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
    why : str
        Why a check fails, as far as a run shows it; or why there is nothing to run.
    run : tuple
        Functions of this folder, and their arguments.
    data : str
        What stands in for the paper's data.
    seeds : int
        With how many seeds a full run draws its data; 0 where nothing is drawn.
    simulated : bool
        Whether queues were simulated, for want of a cluster.
    measured : str
        The engine on which the same was measured on a small scale, beside the simulation; empty where it was not.
    checks : tuple of dict
        What the paper shows, as `checks.py` can hold it against the tables of a run: `says` in words, a kind and its series. One that
        is `beside` the point does not count for *differs*.
    numbers : tuple of (str, object, str)
        What is compared: its name, what the paper prints, and where ours is: "table; query; column".
    """

    id: str
    shows: str
    why: str = ""
    run: tuple[Any, ...] = ()
    data: str = ""
    seeds: int = SEEDS
    simulated: bool = False
    measured: str = ""
    checks: tuple[Mapping[str, Any], ...] = ()
    numbers: tuple[tuple[str, Any, str], ...] = ()

    @property
    def kept(self) -> Mapping[str, Any]:
        """What was seen by those who ran it: `seconds` of a run, "quick" and "full"; of the full one its `seeds`, and which checks hold."""
        return _kept().get(self.id, {})

    @property
    def verdict(self) -> str:
        """What came of it: of `VERDICTS`, by the checks that hold in the full run that is kept."""
        if not self.run:
            return "nothing to run"
        return self.judged(self.kept["holds"], self.kept["seeds"]) if "holds" in self.kept else "not run in full"

    @property
    def said(self) -> str:
        """The verdict, whether it rests on a simulation, and where it was measured as well."""
        rests = ["simulated"] * self.simulated + [f"measured on {self.measured}"] * bool(self.measured)
        return self.verdict + (f" ({', '.join(rests)})" if rests else "")

    def judged(self, held: Sequence[bool], seeds: int = SEEDS) -> str:
        """The verdict that checks give: all hold, on all seeds; none of the main ones does; or some do."""
        if all(held) and seeds >= self.seeds:
            return "comes out"
        main = [one for one, check in zip(held, self.checks, strict=True) if not check.get("beside")]
        return "in part" if any(main) else "differs"

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data: with its verdict, each check and whether it holds, and the seconds that a run took."""
        held = self.kept.get("holds", [None] * len(self.checks))
        checks = [{"says": check["says"], "holds": one} for check, one in zip(self.checks, held, strict=True)]
        return {**asdict(self), "verdict": self.verdict, "checks": checks, "seconds": self.kept.get("seconds", {}),
                "command": f"keyshift reproduce {self.id}"}  # fmt: skip


@cache
def figures() -> Mapping[str, PaperFigure]:
    """Every row of the registry by its id, paper by paper."""
    rows = yaml.safe_load((HERE / "figures.yaml").read_text(encoding="utf-8"))
    lists = ("run", "checks", "numbers")
    made = (PaperFigure(**row | {name: tuple(row.get(name, ())) for name in lists}) for row in rows)
    return {figure.id: figure for figure in made}


@cache
def _kept() -> dict[str, Any]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def stem(name: str) -> str:
    """How the files of a row begin."""
    return name.replace(":", "_")


def tables(figure: PaperFigure, folder: Path = RECORDS) -> dict[str, pd.DataFrame]:
    """The tables that checks and figures of a row are read from, of a run of its own or of another row's same run; what is not there is left out."""
    where = [address for check in figure.checks for address in addresses(check)] + [
        number[2] for number in figure.numbers
    ]
    shared = [row.id for row in figures().values() if row.run == figure.run]
    found = {}
    for name in {address.partition(";")[0].strip() for address in where}:
        paths = (folder / f"{stem(row)}_{name}.csv" for row in (figure.id, *shared))
        if (path := next((path for path in paths if path.exists()), None)) is not None:
            found[name] = pd.read_csv(path)
    return found


@dataclass(frozen=True)
class Judged:
    """A row beside the checks of a record.

    Attributes
    ----------
    figure : PaperFigure
        The row, with the verdict that the list has.
    held : list of bool
        Its checks, in this record.
    """

    figure: PaperFigure
    held: list[bool]

    @property
    def stands(self) -> bool:
        """Whether this record says what the list says, check by check."""
        return self.held == self.figure.kept.get("holds")

    def lines(self) -> list[str]:
        """The row's verdict, and its checks in words."""
        row, said = self.figure, [f"{self.figure.id}: {self.figure.said}"]
        for check, held, listed in zip(row.checks, self.held, row.kept.get("holds", self.held), strict=True):
            other = "" if held == listed else " (not so in the list)"
            said.append(f"  {'holds' if held else 'fails'}: {check['says']}{other}")
        return said

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        checks = [
            {"says": check["says"], "holds": one} for check, one in zip(self.figure.checks, self.held, strict=True)
        ]
        seeds = self.figure.kept.get("seeds", 0)
        return {
            "id": self.figure.id,
            "verdict": self.figure.judged(self.held, seeds),
            "listed": self.figure.verdict,
            "checks": checks,
            "stands": self.stands,
        }


def judge(names: Sequence[str] = (), records: Path | None = None) -> list[Judged]:
    """Rows, by default all, with their checks computed anew from the kept records, or from what runs wrote into a folder.

    Without names, rows of which there is no record are left out; one that is named has to be there.
    """
    if records is not None and not records.is_dir():
        raise InputError(f"{records} is not a folder of records: keyshift reproduce NAME --out {records} writes one")
    rows = chosen(names) if names else list(figures().values())
    made = []
    for figure in rows:
        if not figure.run:
            if figure.id in names:
                raise InputError(f"{figure.id}: nothing to run: {figure.why}")
            continue
        found = tables(figure, records or RECORDS)
        if found:
            made.append(Judged(figure, [holds(check, found) for check in figure.checks]))
        elif figure.id in names:
            raise InputError(f"{records or RECORDS} has no table of {figure.id}")
    if not made:
        raise InputError(f"{records} has no table of a figure")
    return made


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
    judged : Judged
        Its checks in this run.
    """

    figure: PaperFigure
    numbers: pd.DataFrame
    files: tuple[Path, ...]
    seconds: float
    judged: Judged
    quick: bool = False
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict, repr=False)

    def to_frame(self) -> pd.DataFrame:
        """The comparison, a row a figure."""
        return self.numbers

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the row with the checks of this run, what was written, and the comparison."""
        compared = self.numbers.astype(object).where(self.numbers.notna(), None).to_dict("records")
        run = {"took": self.seconds, "quick": self.quick, "files": list(map(str, self.files)), "compared": compared}
        return self.figure.to_dict() | self.judged.to_dict() | run

    def lines(self) -> list[str]:
        """The verdict, the checks of this run, and what is to be known of it, in words."""
        said = {"why": self.figure.why, "data": self.figure.data}
        said |= {"seconds": f"{self.seconds:.1f}" + (", quick" if self.quick else "")}
        said |= {"written": ", ".join(map(str, self.files))}
        return [*self.judged.lines(), *(f"{what}: {text}" for what, text in said.items() if text)]


def find(name: str) -> PaperFigure:
    """A row of the registry, by its id."""
    rows = figures()
    if name in rows:
        return rows[name]
    paper = name.partition(":")[0]
    near = get_close_matches(name, rows, n=3) or [known for known in rows if known.startswith(f"{paper}:")][:3]
    raise InputError(
        f"there is no figure {name:.40}" + (f": did you mean {', '.join(near)}?" if near else "")
        + "; `keyshift reproduce --list` names all"
    )  # fmt: skip


def chosen(names: Sequence[str]) -> list[PaperFigure]:
    """Rows by their ids, or all whose ids begin so."""
    rows = figures()
    begun = {name: [row for key, row in rows.items() if key.startswith(name)] for name in names}
    return [row for name in names for row in ([rows[name]] if name in rows else begun[name] or [find(name)])]


def reproduce(
    name: str, *, quick: bool = False, out: str | Path | None = None, say: Callable[[str], object] | None = None,
    seeds: Sequence[int] | None = None,
) -> Reproduction:  # fmt: skip
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
    seeds : sequence of int, optional
        Of what is drawn: five by default, one in a quick run. Tables have a column `seed`; what is said and drawn are medians, and a band
        from the least to the greatest.
    """
    figure = find(name)
    if not figure.run:
        raise InputError(f"{name}: {figure.verdict}: {figure.why}")
    seeds = range(1 if quick else max(1, figure.seeds)) if seeds is None else seeds
    from keyshift.papers.page import Page  # it draws; to list is possible without Matplotlib

    said: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        if say is not None:
            say(text)

    page = Page(stem(name), Path(out or "reproduced"), quick, say=tell, seeds=seeds)
    began, before = time.perf_counter(), {path: path.stat().st_mtime_ns for path in page.out.iterdir()}
    for page.seed in seeds:
        page.calls = 0
        for step in figure.run:
            function, arguments = (step, {}) if isinstance(step, str) else next(iter(step.items()))
            part = load(function)
            page.begin(*(line.strip() for line in (part.__doc__ or function).strip().splitlines()))
            part(page, **arguments)
    if not page.tables and said:  # its data is not there
        raise InputError(f"{name}: {said[-1]}")
    page.write(f"{name}: {figure.shows}", figure.data)
    seconds = time.perf_counter() - began
    files = sorted(path for path in page.out.iterdir() if before.get(path) != path.stat().st_mtime_ns)
    written = tables(figure, page.out)
    judged = Judged(figure, [holds(check, written) for check in figure.checks])
    return Reproduction(figure, compared(figure, page.tables), tuple(files), seconds, judged, quick, page.tables)


def load(function: str) -> Callable[..., None]:
    """The function that a row names, as in "nasir2015.choices"."""
    module, _, called = function.partition(".")
    return getattr(importlib.import_module(f"keyshift.papers.{module}"), called)


def compared(figure: PaperFigure, made: Mapping[str, pd.DataFrame], column: str = "this run") -> pd.DataFrame:
    """Our figures beside the paper's, and those of the full run that is kept."""
    frame = pd.DataFrame([number[:2] for number in figure.numbers], columns=["figure", "paper"])
    full = {"kept, full": tables(figure)} if column != "kept, full" else {}
    for said, where in {column: made, **full}.items():
        if where or said == column:
            frame[said] = [value(where, number[2]) for number in figure.numbers]
    return frame
