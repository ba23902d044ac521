"""What the benchmarks share: the command line, a page of sections with their tables and figures, and the way lines are drawn."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from markdown_table import markdown
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keyshift.figures.replay import COLOURS, MARKERS
from keyshift.models.families.real import DATA
from keyshift.version import __version__

if (beside := Path(__file__).resolve().parents[2] / "shared" / "data").is_dir():
    os.environ.setdefault(DATA, str(beside))


class Page:
    """One benchmark's page in the folder `out`, a section for each part; every table is a CSV file as well."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        self.name, self.out, self.quick, self.given = name, given.out, given.quick, given
        self.sections: dict[str, list[str]] = {}
        self.path = self.out / f"{name}.md"
        self.out.mkdir(parents=True, exist_ok=True)

    def begin(self, heading: str) -> None:
        self.sections[heading] = []
        self.say(f"## {heading}", "")

    def say(self, *lines: str) -> None:
        print(*lines, sep="\n", flush=True)
        self.sections[next(reversed(self.sections))] += lines

    def table(self, frame: pd.DataFrame, name: str = "", shown: pd.DataFrame | None = None) -> pd.DataFrame:
        """Say a table, or what of it is to be `shown`; write all of it where it has a name."""
        if name:
            frame.to_csv(self.csv(name), index=False, float_format="%.6g")
        self.say("", markdown(frame if shown is None else shown), "")
        return frame

    def csv(self, name: str) -> Path:
        return self.out / f"{self.name}_{name}.csv"

    def figure(self, figure: Figure, name: str, caption: str) -> None:
        figure.savefig(self.out / f"{self.name}_{name}.png", dpi=90, bbox_inches="tight")
        self.say("", f"![{caption}]({self.name}_{name}.png)", "", f"*{caption}*", "")

    def write(self, title: str, intro: str) -> None:
        """Write the page; sections of an earlier run that this one has not renewed stay as they are."""
        old = re.split(r"^(?=## )", self.path.read_text(), flags=re.M)[1:] if self.path.exists() else []
        kept = {text[3:].split("\n", 1)[0]: text for text in old}
        kept |= {heading: "\n".join(lines) for heading, lines in self.sections.items()}
        said = [f"# {title}{', quick run' if self.quick else ''}", "", intro, "", f"keyshift {__version__}.", ""]
        text = "\n".join([*said, *(part.strip() + "\n" for part in kept.values())])
        self.path.write_text(re.sub(r"\n{3,}", "\n\n", text))


Part = Callable[[Page], None]


def run(name: str, title: str, doc: str, parts: Iterable[Part], **options: dict[str, Any]) -> None:
    """Run a script's parts: each has its heading as the first line of its docstring, and writes what it has when it ends."""
    known = {part.__name__: part for part in parts}
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a look")
    parser.add_argument(
        "--only", nargs="+", choices=known, default=list(known), help="renew the sections of these parts"
    )
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    for option, settings in options.items():
        parser.add_argument(f"--{option}", **settings)
    page = Page(name, parser.parse_args())
    for part in page.given.only:
        began = time.perf_counter()
        page.begin((known[part].__doc__ or part).splitlines()[0].rstrip("."))
        known[part](page)
        page.write(title, doc.strip().split("\n\n")[-1])
        print(f"== {part}: {time.perf_counter() - began:.0f} s", flush=True)


def lines(axes: Axes, frame: pd.DataFrame, x: str, y: str, by: str | None = None, **style: Any) -> Axes:
    """A line for each value of a column, in the colours and markers of keyshift's own figures."""
    groups = [("", frame)] if by is None else frame.groupby(by, sort=False)
    for number, (name, part) in enumerate(groups):
        looks = {"color": COLOURS[number % 7], "marker": MARKERS[number % 7], "markersize": 4, "linewidth": 1.2}
        axes.plot(part[x], part[y], **{**looks, "label": name, **style})
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return axes


def grid(rows: int, columns: int, size: tuple[float, float] = (3.6, 3.0), **shared: Any) -> tuple[Figure, Any]:
    """An empty figure of small plots, and its axes in one row."""
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared).ravel()


def plots(
    frame: pd.DataFrame, x: str, y: str, by: str, each: str, columns: int = 3, scale: str = "", **shared: Any
) -> Figure:
    """A small plot for each value of the column `each`; `scale` names the axes that are logarithmic."""
    parts = list(frame.groupby(each, sort=False))
    figure, axes = grid(-(-len(parts) // columns), min(columns, len(parts)), **shared)
    for one, (name, part) in zip(axes, parts, strict=False):
        lines(one, part, x, y, by).set_title(str(name), fontsize=10)
        one.set(**{f"{axis}scale": "log" for axis in scale})
    for one in axes[len(parts) :]:
        one.set_visible(False)
    axes[0].legend(fontsize=8)
    return figure
