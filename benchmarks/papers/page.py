"""What the papers' experiments share: studies with labels, a page of sections with tables and figures, the way lines are drawn."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import keyshift as ks
from keyshift.papers.markdown_table import markdown
from keyshift.replays.results import COLOURS, MARKERS
from keyshift.version import __version__


class Page:
    """One benchmark's page in the folder `out`, a section for each part; every table is a CSV file as well.

    `given` are the options of a benchmark's own command line. With `seeds`, the parts are called once for each: tables get a column
    `seed`, and what is said and drawn, with the last seed, are medians.
    """

    def __init__(
        self,
        name: str,
        out: Path,
        quick: bool = False,
        given: Any = None,
        say: Callable[..., object] = print,
        seeds: Sequence[int] = (),
    ) -> None:
        self.name, self.out, self.quick, self.given, self.aloud, self.seeds = name, out, quick, given, say, seeds
        self.seed, self.calls = next(iter(seeds), 0), 0
        self.sections: dict[str, list[str]] = {"": []}
        self.tables: dict[str, pd.DataFrame] = {}
        self.seen: dict[tuple[int, int], list[pd.DataFrame]] = {}
        self.path = self.out / f"{name}.md"
        self.out.mkdir(parents=True, exist_ok=True)

    def begin(self, heading: str, *text: str) -> None:
        self.sections[heading] = []
        self.say(f"## {heading}", "", *text)

    @property
    def last(self) -> bool:
        """Whether this is the last seed: what is said and drawn is said and drawn now."""
        return not self.seeds or self.seed == self.seeds[-1]

    def say(self, *lines: str) -> None:
        if self.last:
            self.aloud("\n".join(lines))
            self.sections[next(reversed(self.sections))] += lines

    def of_seeds(self, *frames: pd.DataFrame) -> list[pd.DataFrame]:
        """These frames with those that were given at the same call with the seeds before."""
        self.calls += 1
        kept = [self.seen.setdefault((self.calls, number), []) for number in range(len(frames))]
        for before, frame in zip(kept, frames, strict=True):
            before.append(frame.assign(seed=self.seed) if self.seeds else frame)
        return [pd.concat(before, ignore_index=True) if len(before) > 1 else before[0] for before in kept]

    def table(self, rows: Any, name: str = "", shown: pd.DataFrame | None = None) -> pd.DataFrame:
        """Say a table, or what of it is to be `shown`; write all of it where it has a name. A named index is a column."""
        frame = flat(rows)
        if name:
            self.keep(frame, name)
        every = self.of_seeds(frame if shown is None else flat(shown))[0]
        if self.last:
            self.say("", markdown(medians(every) if self.seeds else every), "")
        return frame

    def keep(self, rows: Any, name: str) -> pd.DataFrame:
        """Write a table, and say nothing of it."""
        frame = flat(rows)
        if self.seeds:
            before = self.tables.get(name, pd.DataFrame({"seed": []}))
            before = before[before["seed"] != self.seed]
            now = frame.assign(seed=self.seed)
            self.tables[name] = pd.concat([before, now], ignore_index=True) if len(before) else now
        else:
            self.tables[name] = frame
        self.tables[name].to_csv(self.csv(name), index=False, float_format="%.6g")
        return frame

    def csv(self, name: str) -> Path:
        return self.out / f"{self.name}_{name}.csv"

    def figure(self, figure: Figure, name: str, caption: str) -> None:
        if not self.last:
            return
        figure.savefig(self.out / f"{self.name}_{name}.png", dpi=90, bbox_inches="tight")
        self.say("", f"![{caption}]({self.name}_{name}.png)", "", f"*{caption}*", "")

    def draw(self, name: str, caption: str, *plots: dict[str, Any], columns: int = 3, **layout: Any) -> None:
        """Small plots, each what `lines` is to draw; a legend wherever the lines are others than in the plot before."""
        plots = tuple(
            {**plot, "frame": frame}
            for plot, frame in zip(plots, self.of_seeds(*(p["frame"] for p in plots)), strict=True)
        )
        if not self.last:
            return
        figure, axes = grid(-(-len(plots) // columns), min(columns, len(plots)), **layout)
        before: list[str] = []
        for one, plot in zip(axes, plots, strict=False):
            said = lines(one, **plot).get_legend_handles_labels()[1]
            if said and said != before:
                one.legend(fontsize=8, title=plot.get("by"), title_fontsize=8)
            before = said
        for one in axes[len(plots) :]:
            one.set_visible(False)
        self.figure(figure, name, caption)

    def write(self, title: str, intro: str) -> None:
        """Write the page; sections of an earlier run that this one has not renewed stay as they are."""
        old = re.split(r"^(?=## )", self.path.read_text(), flags=re.M)[1:] if self.path.exists() else []
        kept = {text[3:].split("\n", 1)[0]: text for text in old}
        kept |= {heading: "\n".join(lines) for heading, lines in self.sections.items() if heading}
        said = [f"# {title}{', quick run' if self.quick else ''}", "", intro, "", f"keyshift {__version__}.", ""]
        text = "\n".join([*said, *(part.strip() + "\n" for part in kept.values())])
        self.path.write_text(re.sub(r"\n{3,}", "\n\n", text))


def medians(frame: pd.DataFrame) -> pd.DataFrame:
    """One table of those of several seeds, row by row: the median of numbers, and what else the first has."""
    parts = [part.drop(columns="seed").reset_index(drop=True) for _, part in frame.groupby("seed", sort=False)]
    if any(part.shape != parts[0].shape for part in parts):
        return frame
    row = pd.concat(parts).groupby(level=0)
    numbers = [str(name) for name in parts[0].select_dtypes("number") if len(parts) > 1]
    return parts[0].assign(**{name: row[name].median() for name in numbers})


def flat(rows: Any) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    return frame if frame.index.names == [None] else frame.reset_index()


Part = Callable[[Page], None]
Case = tuple[dict[str, Any], ks.Problem]
FOUND = ["instance", "method", "seed", "status", "termination", "kind", "objective", "bound", "offered", "seconds", "wall"]  # fmt: skip
"""What a study's rows are read for."""


def cases(family: str, **parameters: Any) -> Iterator[Case]:
    """Instances of a family, labelled with the parameters that are lists: one for each choice of values."""
    varied = {name: values for name, values in parameters.items() if isinstance(values, list)}
    for values in itertools.product(*varied.values()):
        labels = dict(zip(varied, values, strict=True))
        yield labels, next(ks.family(family, **{**parameters, **labels}))[1]


def studied(instances: Iterable[Case], methods: Sequence[str], **options: Any) -> pd.DataFrame:
    """A study's rows, with metrics, and with columns for its labels and scale. No bound may be above an answer, no solve may fail."""
    labels = {}

    def named() -> Iterator[tuple[str, ks.Problem]]:
        for said, problem in instances:
            name = ", ".join(f"{key} = {value}" for key, value in said.items())
            labels[name] = {**said, "scale": problem.scale}
            yield name, problem

    study = ks.study(named(), methods, **options)
    wrong = study.contradictions() + [row["message"] for row in study.rows if row["status"] == "failed"]
    assert not wrong, wrong
    rows = ({**{name: row[name] for name in FOUND}, **row["metrics"], **labels[row["instance"]]} for row in study.rows)
    return pd.DataFrame(rows).astype(dict.fromkeys(("objective", "bound", "offered"), float))


def by_method(frame: pd.DataFrame, *labels: str) -> dict[str, pd.DataFrame]:
    """What each method of a study found, by its labels."""
    return {str(method): found.set_index(list(labels)) for method, found in frame.groupby("method", sort=False)}


def best_of(runs: int, work: Callable[..., Any], *given: Any, **options: Any) -> tuple[float, float, Any]:
    """Least wall time and least processor time over some runs, and the last result."""
    took = []
    for _ in range(runs):
        wall, processor = time.perf_counter(), time.process_time()
        result = work(*given, **options)
        took.append((time.perf_counter() - wall, time.process_time() - processor))
    return *map(min, zip(*took, strict=True)), result  # type: ignore[return-value]


def lines(axes: Axes, frame: pd.DataFrame, x: str, y: str, by: str = "", **settings: Any) -> Axes:
    """A line for each value of a column, in keyshift's own colours and markers, with a `style`; dotted, what to compare with, `at`.

    Of several seeds it is the median, in a band from the least to the greatest.
    """
    style, at = settings.pop("style", {}), settings.pop("at", ())
    for number, (name, part) in enumerate(frame.groupby(by, sort=False) if by else [(None, frame)]):
        looks = {"color": COLOURS[number % 7], "marker": MARKERS[number % 7], "markersize": 4, "linewidth": 1.2}
        if "seed" in part and part["seed"].nunique() > 1:
            of = part.groupby(x)[y].agg(["median", "min", "max"]).reset_index()
            axes.fill_between(of[x], of["min"], of["max"], color=looks["color"], alpha=0.15, linewidth=0)
            part = of.rename(columns={"median": y})
        axes.plot(part[x], part[y], **{**looks, "label": name, **style})
    for printed in at:
        axes.axhline(printed, color="black", linestyle=":")
    axes.set(**{"xlabel": x, "ylabel": y, **settings})
    for axis in (axes.xaxis, axes.yaxis):
        if f"{axis.axis_name}ticklabels" in settings:
            axis.minorticks_off()
    axes.grid(alpha=0.3)
    return axes


def each(frame: pd.DataFrame, column: str, **plot: Any) -> list[dict[str, Any]]:
    """A plot for each value of a column, whose title says it."""
    said = "{}" if frame[column].dtype == object else f"{column} {{:g}}"
    return [{"frame": part, "title": said.format(name), **plot} for name, part in frame.groupby(column, sort=False)]


def grid(rows: int, columns: int, size: tuple[float, float] = (3.6, 3.0), **shared: Any) -> tuple[Figure, Any]:
    """An empty figure of small plots, and its axes in one row."""
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared).ravel()
