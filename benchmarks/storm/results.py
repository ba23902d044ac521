"""The page of the live runs, from the rows that they kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from keyshift.papers.page import Page

INTRO = """\
Apache Storm 2.8.2 on this machine (`make storm`): ZooKeeper, Nimbus, two supervisors, four workers; eight tasks of a keyed operator
that take a tuple a fixed time by sleeping, four spouts. *predicted* is what `ks.simulate`, or the plan, said before of the same tuples;
*off* is how far the mean of the runs is from it, *spread* the largest difference between two runs of a setting, in percent of their
mean. *cores* are Storm's, *other cores* those of everything else on the machine, which has two: where others leave it none, tails are noise."""


class Part(NamedTuple):
    """A section: its heading, what the paper shows, what tells settings apart, which columns are compared, within which bars."""

    name: str
    heading: str
    paper: str
    by: list[str]
    compared: list[str]
    bars: dict[str, float]


PARTS = [
    Part("throughput", "Throughput and load ratio by skew, service time and grouping",
         "[Nasir2015], Figure 10(a): PKG has the throughput of shuffling, and hashing less, the more so the longer a message takes; the largest difference "
         "that the paper prints is 175 % (Figure 10(c), with aggregation). Tuples a second; *ratio* is the largest load of a task over the mean.",
         ["skew", "service", "grouping"], ["throughput", "ratio"], {"throughput": 10, "ratio": 2}),
    Part("latency", "Latency by load and grouping",
         "[Nasir2015], Table III: PKG has up to 45 % less latency than hashing. Milliseconds until a tuple has been served. *own* is the median at 5 % load "
         "less the service time: what Storm itself takes here; *corrected* is the median predicted plus that.",
         ["load", "grouping"], ["median", "corrected", "mean", "p99", "ratio"], {"median": 10, "corrected": 10, "p99": 25, "ratio": 2}),
    Part("routing", "Mixed routing before and after a rebalance",
         "[Fang2016], Figures 13 to 16: Mixed's throughput is near a shuffle's and twice that of Storm's hash, PKG's is 10 % below it; Mixed has 40 % less latency than PKG, "
         "which has to merge. Frequencies change at 15 s (*changed*), mixed routing has a new table at 20 s, and 25 to 40 s are *planned*.",
         ["method", "period"], ["throughput", "mean", "p99"], {"throughput": 10, "mean": 10, "p99": 25}),
    Part("moving", "Delay while state moves",
         "[Ding2015], Figure 11: live migration raises the response time by little and for seconds; stopping and restarting Storm raises it by orders of magnitude for minutes. "
         "Milliseconds, means of the 15 s after the plan begins. *planned* is `ks.simulate` of the plan with its own times, *predicted* of the bare assignments.",
         ["way"], ["seconds", "mean", "planned", "largest"], {}),
    Part("allocation", "Load distance of allocation",
         "[Madsen2016], Figure 6: the program's largest load distance is below 1 %, Flux's 7 %, PoTC's not consistent. Percent of the mean; the first period, which has no plan, is left out.",
         ["method", "period"], ["distance"], {}),
]  # fmt: skip


ORDER = ("fields", "shuffle", "pkg", "pkg, used", "table", "split", "mixed", "flux", "milp", "before", "changed", "planned",
         "at once", "in phases", "storm rebalance")  # fmt: skip


def read(out: Path, part: str) -> pd.DataFrame | None:
    """The rows of a part, its pairs of columns named `... predicted` and `... measured`."""
    path = out / f"storm_{part}.csv"
    if not path.exists():
        return None
    frame = pd.read_csv(path).rename(columns={"predicted": "throughput predicted", "measured": "throughput measured"})
    if part == "latency":
        idle = frame[frame["load"] < 0.1]
        own = (idle["median measured"] - idle["median predicted"]).mean()
        frame["corrected predicted"], frame["corrected measured"] = (
            frame["median predicted"] + own,
            frame["median measured"],
        )
    if part == "moving":
        frame = frame.rename(
            columns=lambda name: name.replace("mean in 15 s predicted", "mean predicted").replace(
                "mean in 15 s measured", "mean measured"
            )
        )
        frame["planned predicted"], frame["planned measured"] = (
            frame["mean in 15 s by the plan's times"],
            frame["mean measured"],
        )
    return frame[frame["period"] > 0] if part == "allocation" else frame


def summed(frame: pd.DataFrame, part: Part) -> pd.DataFrame:
    """Means over the runs, how far they are from what was predicted, and the spread of the runs."""
    rows = []
    for names, some in frame.groupby(part.by, sort=False):
        runs = some["run"].nunique()
        row: dict[str, Any] = {**dict(zip(part.by, names, strict=True)), "runs": runs}
        for name in part.compared:
            here, said = some[f"{name} measured"], some[f"{name} predicted"].mean()
            row |= {
                f"{name} predicted": said,
                f"{name} measured": here.mean(),
                f"{name} off %": 100 * (here.mean() / said - 1),
            }
            if runs > 1:
                row[f"{name} spread %"] = 100 * (here.max() - here.min()) / here.mean()
        rows.append(
            {
                **row,
                **{
                    name: some[name].mean()
                    for name in ("mean before", "service ms", "cores", "other cores")
                    if name in some
                },
            }
        )
    made = pd.DataFrame(rows).dropna(axis=1, how="all")
    return made.sort_values(
        part.by,
        key=lambda column: column.map(lambda value: ORDER.index(value) if value in ORDER else value),
        ignore_index=True,
    )


def compared(page: Page, part: Part, out: Path) -> list[str]:
    """One section; how many settings are within the bars."""
    frame = read(out, part.name)
    if frame is None:
        return []
    page.begin(part.heading, part.paper)
    made = summed(frame, part)
    if part.name == "throughput":
        fields = made[made["grouping"] == "fields"].set_index(["skew", "service"])["throughput measured"]
        at = pd.MultiIndex.from_frame(made[["skew", "service"]])
        made.insert(
            4, "over fields %", 100 * (made["throughput measured"].to_numpy() / fields.reindex(at).to_numpy() - 1)
        )
    page.table(made, f"{part.name}_means")
    if part.name == "moving" and (seconds := read(out, "seconds")) is not None:
        wide = seconds.pivot_table(
            index="second", columns="way", values=["predicted ms", "by the plan's times ms", "measured ms"]
        )
        page.say("", "Mean latency of what is due in each second, milliseconds; the plan begins at 12 s:")
        page.table(
            wide.loc[8:30].set_axis([f"{way}, {what.removesuffix(' ms')}" for what, way in wide.columns], axis=1),
            "moving_seconds",
        )
    lines = []
    for name, bar in part.bars.items():
        off = made[f"{name} off %"].abs()
        lines.append(
            f"- {part.name}, {name}: {(off <= bar).sum()} of {off.notna().sum()} settings within {bar:g} %; median {np.nanmedian(off):.1f} %, largest {off.max():.1f} %"
        )
    return lines


def write(out: Path) -> int:
    """Write storm.md; 1 if a tuple was lost."""
    page = Page("storm", out)
    lines = [line for part in PARTS for line in compared(page, part, out)]
    lost = 0
    if (frame := read(out, "kills")) is not None:
        page.begin(
            "Killed workers",
            "kill -9 of a worker every 16 s; the state is kept in files, and the counts of all keys at the end are compared with what was sent.",
        )
        page.table(frame, "kills_each")
        lost = int(frame["lost"].sum())
        page.say("", f"{len(frame)} workers were killed, {int(frame['while state moves'].sum())} of them while state moved: {lost} of {int(frame['tuples'].sum()):,} tuples are lost; "
                 f"{int(frame['served twice'].sum()):,} were served more than once, as at-least-once delivery may, and {int(frame['counted twice'].sum()):,} of these are counted twice.")  # fmt: skip
    page.begin("Within which bars", *lines)
    page.write("A real Storm", INTRO)
    return int(lost > 0)
