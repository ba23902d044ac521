"""The page of the live runs, from the rows that they kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from keyshift.papers.page import Page

INTRO = """\
Apache Storm 2.8.2 on this machine (`make storm`): ZooKeeper, Nimbus, two supervisors, four workers; eight tasks of a keyed operator
that take a tuple a fixed time by sleeping, four spouts. *predicted* is what `ks.simulate`, or the plan, said before of the same tuples. To
latencies under Poisson arrivals a constant is added, the time that Storm itself takes, as the median of the row at 5 % load has it; that row says nothing about bars.
*off* is how far the mean of the runs is from *predicted*, in percent, *spread* by how much that differs between two runs of a setting, at most: each run
has a stream of its own. *cores* are Storm's, *other cores* those of everything else on the machine, which has two. Workers have a processor whenever they want one
(`SCHED_RR`, where the system allows it)."""


class Kept:
    """Rows of a part, in a file that grows by each; what is there is not measured again."""

    def __init__(self, out: Path, part: str) -> None:
        self.path = out / f"storm_{part}.csv"
        self.rows: list[dict[str, Any]] = pd.read_csv(self.path).to_dict("records") if self.path.exists() else []

    def has(self, **setting: Any) -> bool:
        return any(all(row[name] == value for name, value in setting.items()) for row in self.rows)

    def add(self, *rows: dict[str, Any]) -> None:
        self.rows += rows
        pd.DataFrame(self.rows).to_csv(self.path, index=False, float_format="%.6g")
        for row in rows[:6]:
            print(
                {name: round(float(value), 3) if isinstance(value, float) else value for name, value in row.items()},
                flush=True,
            )


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
         "[Nasir2015], Table III: PKG has up to 45 % less latency than hashing. Milliseconds until a tuple has been served.",
         ["load", "grouping"], ["median", "mean", "p99", "ratio"], {"median": 10, "mean": 10, "p99": 25, "ratio": 2}),
    Part("routing", "Mixed routing: latency before and after a change of the frequencies",
         "[Fang2016], Figure 13: Mixed's latency is near a shuffle's; in Figure 14's text it is 40 % below PKG's, which has to merge and does not here. 75 % of what the tasks can serve comes. Frequencies "
         "change at 7 s (*changed*), mixed routing has a new table at 11 s, and 14 to 22 s are *planned*. Milliseconds.",
         ["f", "method", "period"], ["throughput", "median", "mean", "p99"], {"throughput": 10, "median": 10, "mean": 10, "p99": 25}),
    Part("figures", "Mixed routing: throughput by fluctuation, tolerance, one more task, and keys of Q5",
         "[Fang2016], Figures 13 to 16, whose curves the text describes without numbers. 13: Mixed (theta_max = 0.08) is near a shuffle at every f. 14, 1,036 keys: Mixed at 0.02 has twice the throughput of Readj and of Storm's hash, and is "
         "10 % above PKG (on words). 15: with one more instance Mixed is balanced at once, Readj minutes later. 16: Mixed is best at every tolerance, the hash poor. Tuples a second, as fast as 200 that are not acknowledged allow: "
         "*changed* is 1 to 4 s behind a change of the frequencies, when the table is still the old one (15: seven tasks have keys, the eighth waits), *planned* 7 to 12 s; the new table is there at 4 s. *ratio* is the largest load of a task over the mean. "
         "Two cores carry one operator of eight tasks: Q5's chain of three joins is not here, its suppliers' keys (10,000, z = 0.8, f = 1) are; nor are 180,000 words, on which hashing is even; PKG does not merge, and cannot be given a task while it runs.",
         ["figure", "setting", "method", "period"], ["throughput", "ratio"], {"throughput": 10, "ratio": 2}),
    Part("moving", "Delay while state moves",
         "[Ding2015], Figure 11: live migration raises the response time by little and for seconds; stopping and restarting Storm raises it by orders of magnitude for minutes. "
         "Milliseconds, means of the 15 s after the plan begins. *planned* is `ks.simulate` of the plan with its own times, *predicted* of the bare assignments.",
         ["way"], ["seconds", "mean", "planned", "largest"], {}),
    Part("allocation", "Load distance of allocation",
         "[Madsen2016], Figure 6: the program's largest load distance is below 1 %, Flux's 7 %, PoTC's not consistent. Percent of the mean; the first period, which has no plan, is left out.",
         ["method", "period"], ["distance"], {}),
]  # fmt: skip


ORDER = ("fields", "shuffle", "pkg", "pkg, used", "table", "split", "mixed", "readj", "flux", "milp", "before", "changed", "planned",
         "at once", "in phases", "storm rebalance")  # fmt: skip


def own_time(out: Path) -> float:
    """Milliseconds from spout to task that no simulation of queues has: the median of idle runs above what was predicted."""
    path = out / "storm_latency.csv"
    idle = pd.read_csv(path).query("load < 0.1") if path.exists() else pd.DataFrame()
    return float((idle["median measured"] - idle["median predicted"]).mean()) if len(idle) else 0.0


def read(out: Path, part: str) -> pd.DataFrame | None:
    """The rows of a part, its pairs of columns named `... predicted` and `... measured`."""
    path = out / f"storm_{part}.csv"
    if not path.exists():
        return None
    frame = pd.read_csv(path).rename(columns={"predicted": "throughput predicted", "measured": "throughput measured"})
    for name in ("median", "mean", "p99") if part in ("latency", "routing") else ():
        frame[f"{name} predicted"] += own_time(out)
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
                each = 100 * here / some[f"{name} predicted"]
                row[f"{name} spread %"] = each.max() - each.min()
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
    if part.name == "latency":
        page.say("", f"Storm itself takes {own_time(out):.2f} ms.")
    lines, held = [], made[made["load"] > 0.1] if part.name == "latency" else made
    for name, bar in part.bars.items():
        off = held[f"{name} off %"].abs()
        lines.append(
            f"- {part.name}, {name}: {(off <= bar).sum()} of {off.notna().sum()} settings within {bar:g} %; median {np.nanmedian(off):.1f} %, largest {off.max():.1f} %"
        )
    return lines


def for_papers(out: Path) -> None:
    """Tables for the papers' rows, `keyshift reproduce fang2016:13` to 16."""
    parts = {part.name: part for part in PARTS}
    for name, table in (("figures", "storm"), ("routing", "storm_latency")):
        if (frame := read(out, name)) is not None:
            made = summed(frame.assign(figure=frame.get("figure", 13)), parts[name])
            for figure, rows in made.assign(figure=made.get("figure", 13)).groupby("figure"):
                kept = [
                    column
                    for column in rows
                    if "off" not in column and "spread" not in column and "cores" not in column
                ]
                rows[kept].to_csv(out / f"fang2016_{figure}_{table}.csv", index=False, float_format="%.6g")


def write(out: Path) -> int:
    """Write storm.md; 1 if a tuple was lost."""
    page = Page("storm", out)
    lines = [line for part in PARTS for line in compared(page, part, out)]
    if (frame := read(out, "journey")) is not None:
        page.begin("From the topology to a plan and back", "`keyshift import`, `plan` and `export` while 300 tuples a second come; then `plan.json`, and `undo.json`. "
                   "The load ratio that the counts of ten seconds give, and that of the tuples of 12 s behind the change.")  # fmt: skip
        page.table(frame, "journey_each")
    lost = 0
    if (frame := read(out, "kills")) is not None:
        page.begin(
            "Killed workers",
            "kill -9 of a worker every 25 s; the state is kept in files, and the counts of all keys at the end are compared with what was sent.",
        )
        page.table(frame, "kills_each")
        lost = int(frame["lost"].sum())
        page.say("", f"{len(frame)} workers were killed, {int(frame['while state moves'].sum())} of them while state moved: {lost} of {int(frame['tuples'].sum()):,} tuples are lost; "
                 f"{int(frame['served twice'].sum()):,} were served more than once, as at-least-once delivery may, and {int(frame['counted twice'].sum()):,} of these are counted twice.")  # fmt: skip
    frames = [frame for part in PARTS if (frame := read(out, part.name)) is not None]
    if frames:
        shares = pd.concat(frames)[["cores", "other cores"]].mean()
        lines.append(
            f"- on average Storm had {shares['cores']:.2f} cores, everything else on the machine {shares['other cores']:.2f}"
        )
    for_papers(out)
    page.begin("Within which bars", *lines)
    page.write("A real Storm", INTRO)
    return int(lost > 0)
