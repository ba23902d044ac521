"""The page of the live runs, from the rows that they kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from keyshift.papers.page import Page

INTRO = """\
Apache Storm 2.8.2 on this machine (`make storm`): ZooKeeper, Nimbus, two supervisors, four workers; eight tasks of a keyed operator
that take a tuple a fixed time by sleeping, four spouts. *predicted* is what `ks.simulate`, or the plan, said before of the same tuples;
*spread* is the largest difference between two runs of a setting, in percent of their mean. *cores* are Storm's, *other cores* those of
everything else on the machine, which has two: where others are busy, tails are noise."""
PAPERS = {
    "throughput": "[Nasir2015], Figure 10(a): PKG has the throughput of shuffling, hashing less; up to 60 % more than hashing with WP's first key, and 175 % with aggregation in the best case of Figure 10(c).",
    "latency": "[Nasir2015], Table III: up to 45 % less latency than hashing.",
    "routing": "[Fang2016], Figures 13 to 16: Mixed's throughput is near a shuffle's and twice Storm's hash; PKG's is 10 % below; after a change it is back at once.",
    "moving": "[Ding2015], Figure 11: live migration in phases raises the response time by little for seconds; stopping and restarting Storm by orders of magnitude for minutes.",
    "allocation": "[Madsen2016], Figure 6: the program's load distance stays below 1 %, Flux reaches 7 %, PoTC is not consistent.",
}


def read(out: Path, part: str) -> pd.DataFrame | None:
    path = out / f"storm_{part}.csv"
    return pd.read_csv(path) if path.exists() else None


def summed(frame: pd.DataFrame, by: list[str], compared: dict[str, str]) -> pd.DataFrame:
    """Means over the runs; for each pair predicted and measured the difference in percent, and the spread of the runs."""
    rows = []
    for names, some in frame.groupby(by, sort=False):
        row: dict[str, Any] = {
            **dict(zip(by, names if isinstance(names, tuple) else (names,), strict=True)),
            "runs": some["run"].nunique(),
        }
        for measured, before in compared.items():
            here, said = some[measured].mean(), some[before].mean()
            row |= {before: said, measured: here, f"{measured} off %": 100 * (here / said - 1) if said else np.nan}
            if some["run"].nunique() > 1:
                row[f"{measured} spread %"] = 100 * (some[measured].max() - some[measured].min()) / here
        rows.append({**row, **{name: some[name].mean() for name in ("cores", "other cores") if name in some}})
    return pd.DataFrame(rows)


def within(frame: pd.DataFrame, column: str, bar: float) -> str:
    """How many settings are within a bar."""
    off = frame[f"{column} off %"].abs()
    return f"{column}: {(off <= bar).sum()} of {off.notna().sum()} settings within {bar:g} %, largest {off.max():.1f} %"


def write(out: Path) -> int:
    """Write storm.md; 1 if a tuple was lost."""
    page = Page("storm", out)
    said: list[str] = []
    if (frame := read(out, "throughput")) is not None:
        page.begin("Throughput and load ratio by skew, service time and grouping", PAPERS["throughput"])
        frame = frame.rename(columns={"predicted": "throughput predicted", "measured": "throughput measured"})
        made = summed(
            frame,
            ["skew", "service", "grouping"],
            {"throughput measured": "throughput predicted", "ratio measured": "ratio predicted"},
        )
        fields = made[made["grouping"] == "fields"].set_index(["skew", "service"])["throughput measured"]
        made["over fields %"] = [
            100 * (row["throughput measured"] / fields[row["skew"], row["service"]] - 1) for _, row in made.iterrows()
        ]
        page.table(made, "throughput_means")
        said += [within(made, "throughput measured", 10), within(made, "ratio measured", 2)]
    if (frame := read(out, "latency")) is not None:
        page.begin("Latency by load and grouping, milliseconds", PAPERS["latency"])
        made = summed(
            frame,
            ["load", "grouping"],
            {f"{name} measured": f"{name} predicted" for name in ("median", "mean", "p99", "ratio")},
        )
        made["until acknowledged"] = (
            frame.groupby(["load", "grouping"], sort=False)["until acknowledged"].mean().to_numpy()
        )
        page.table(made, "latency_means")
        said += [
            within(made, "median measured", 10),
            within(made, "p99 measured", 25),
            within(made, "ratio measured", 2),
        ]
    if (frame := read(out, "routing")) is not None:
        page.begin("Mixed routing before and after a rebalance", PAPERS["routing"])
        made = summed(
            frame,
            ["method", "period"],
            {f"{name} measured": f"{name} predicted" for name in ("throughput", "mean", "p99")},
        )
        page.table(made, "routing_means")
        said += [within(made, "throughput measured", 10)]
    if (frame := read(out, "moving")) is not None:
        page.begin("Delay while state moves", PAPERS["moving"])
        page.table(frame.groupby("way", sort=False).mean(numeric_only=True).drop(columns="run"), "moving_means")
        if (seconds := read(out, "seconds")) is not None:
            page.table(seconds.pivot_table(index="second", columns="way", values=["predicted ms", "measured ms"]).loc[8:30].pipe(
                lambda wide: wide.set_axis([f"{way}, {what}" for what, way in wide.columns], axis=1)))  # fmt: skip
    if (frame := read(out, "allocation")) is not None:
        page.begin("Load distance of allocation, percent of the mean", PAPERS["allocation"])
        later = frame[frame["period"] > 0]
        page.table(summed(later, ["method", "period"], {"distance measured": "distance predicted"}), "allocation_means")
    lost = 0
    if (frame := read(out, "kills")) is not None:
        page.begin("Killed workers")
        lost = int(frame["lost"].sum())
        page.table(frame, "kills_each")
        page.say(f"{len(frame)} workers were killed, {int(frame['while state moves'].sum())} of them while state moved; {lost} of {int(frame['tuples'].sum()):,} tuples lost; "
                 f"{int(frame['served twice'].sum()):,} served twice, {int(frame['counted twice'].sum()):,} of these counted twice.")  # fmt: skip
    page.begin("Within which bars", *[f"- {line}" for line in said])
    page.write("A real Storm", INTRO)
    return int(lost > 0)
