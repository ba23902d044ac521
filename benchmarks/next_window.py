"""Does a proven optimum on yesterday's loads beat Flux on tomorrow's?

    python benchmarks/next_window.py [--quick] [--only PART ...] --out DIR [--data FOLDER] [--streams NAME ...]

Seven streams go through `ks.replay`: each period plans on a forecast from the windows seen, moves at most 5 of 60 key groups on 10 equal nodes,
and is valued on the window that comes. Load distances are in points: percent of the mean node load. Intervals are bootstrapped: means over
4,000 draws of blocks of four periods in a row, with replacement, from all seeds, between the 2.5th and the 97.5th percentile. Every
plan is written down as it is made, one file for each stream: a run that was stopped goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from next_window_streams import NODES, STREAMS, with_tables, with_traffic
from page import run

import keyshift as ks
from keyshift.generators.real import DATA
from keyshift.papers.page import Page, grid
from keyshift.replays.results import COLOURS

MOVES = 5
SECONDS = 3.0
"""For each plan of the exact method: most are proven in a tenth of it."""
BLOCK, DRAWS = 4, 4000
FLUX, EXACT, DRAIN = "flux", "milp", "drain-first"
SAID = {FLUX: "Flux", EXACT: "proven optimum", DRAIN: "drain-first"}


DRAINED = "[Madsen2016], two nodes drain"
"""The only stream in which drain-first is anything else than the exact method."""
TRAFFIC = "collocated-allocation"
LAST, CAME = "the last window", "the window that came"
RULES: dict[str, dict[str, Any]] = {
    LAST: {"forecast": "last"},
    "nothing moves": {"forecast": "last", "max_migrations": 0},
    "mean of 4": {"forecast": "mean:4"},
    "same hour": {},
    CAME: {"forecast": CAME},
    "worst of 4, in the model": {"forecast": "last", "windows": 4, "over": "max"},
    "mean of 4, in the model": {"forecast": "last", "windows": 4, "over": "mean"},
    "weighted, 0.3": {"forecast": "ewma:0.3"},
    "90 % quantile of 4": {"forecast": "quantile:0.9:4"},
}


def rule_of(stream: str, rule: str) -> dict[str, Any] | None:
    """A rule's arguments for a stream; None where it has no season."""
    if rule != "same hour":
        return RULES[rule]
    season = STREAMS[stream][1]
    return None if season is None else {"forecast": season}


def replayed(stream: list[ks.Workload], method: str, rule: dict[str, Any]) -> pd.DataFrame:
    """One run: a row for each period."""
    settings = {"second_stage": False} if method == EXACT else {}  # of equally good answers any will do
    given = {"max_migrations": MOVES, **rule}
    asked = {name: given.pop(name) for name in ("forecast", "hysteresis", "min_gain") if name in given}
    planner = ks.replays.Planner(method, problem="key-group-allocation", options=given, settings=settings)
    ahead = {"forecast": None} if asked.get("forecast") == CAME else asked
    windows = stream[1:] if asked.get("forecast") == CAME else stream
    frame = ks.replay(
        windows, [planner], regret=False, time_limit=None if method == FLUX else SECONDS, **ahead
    ).to_frame()
    planned = frame.get("planned_load_distance_percent", frame["load_distance_percent"])
    mean = frame["total_load"] / NODES
    return pd.DataFrame(
        {
            "period": frame["period"], "planned": planned, "came": frame["load_distance_percent"],
            "state_moved": 100 * frame["state_moved"], "straight_back": frame["oscillations"],
            "open": 100 * (frame["objective"] - frame["bound"]) / mean,
        }
    )  # fmt: skip


def jobs(names: Iterable[str], rules: Iterable[str], seeds: int) -> Iterable[tuple[str, int, str, str, dict[str, Any]]]:
    """Every run - stream, seed, rule, method and the rule's arguments -, those that answer the question first."""
    for seed in range(seeds):
        for rule in rules:
            for stream in names:
                given = rule_of(stream, rule)
                methods = (FLUX, EXACT, DRAIN) if stream == DRAINED and rule == LAST else (FLUX, EXACT)
                if (
                    given is not None and len(given) > 1
                ):  # Flux looks at one window; nothing moves the same way by any method
                    methods = (EXACT,) if "windows" in given else (FLUX,)
                for method in methods if given is not None else ():
                    yield stream, seed, rule, method, given or {}


def file_of(page: Page, stream: str) -> Path:
    return page.csv("rows_" + "".join(c if c.isalnum() else "_" for c in stream))


def allocation(page: Page) -> None:
    """Runs.

    How many plans there are, and how near to a proof those of the exact method are.
    """
    seeds = 1 if page.quick else page.given.seeds
    for stream, seed, rule, method, given in jobs(page.given.streams or STREAMS, page.given.rules or RULES, seeds):
        file = file_of(page, stream)
        known = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["seed", "rule", "method"])
        if ((known["seed"] == seed) & (known["rule"] == rule) & (known["method"] == method)).any():
            continue
        windows = STREAMS[stream][0](seed)[: 12 if page.quick else None]
        made = replayed(windows, method, given).assign(stream=stream, seed=seed, rule=rule, method=method)
        text = made.to_csv(index=False, header=not len(known), float_format="%.6g")
        scratch = file.with_suffix(".part")
        scratch.write_text((file.read_text() if len(known) else "") + text)
        scratch.replace(file)
        print(f"{stream}, seed {seed}: {rule}, {method}: came {made['came'].mean():.2f}", flush=True)
    frame = results(page)
    exact = frame[(frame["method"] == EXACT) & ~frame["rule"].str.endswith("model")]
    rows = exact.groupby("stream", sort=False).agg(
        plans=("came", "size"), proven=("open", lambda gap: 100 * (gap < 1e-3).mean()), farthest=("open", "max")
    )
    page.table(rows.rename(columns={"proven": "proven, %", "farthest": "farthest from a proof, points"}), "runs")


def results(page: Page) -> pd.DataFrame:
    """All runs that are written down, without the periods in which forecasts learn."""
    files = [file_of(page, stream) for stream in STREAMS if file_of(page, stream).exists()]
    frame = pd.concat(map(pd.read_csv, files), ignore_index=True)
    return frame[
        frame["period"] >= (2 if page.quick else frame["stream"].map({name: s[2] for name, s in STREAMS.items()}))
    ]


def interval(differences: pd.DataFrame) -> tuple[float, float, float]:
    """Mean, and where 95 % of the means over blocks of periods lie; one row a seed, one column a period."""
    values = differences.dropna().to_numpy()  # seeds that both have run
    blocks = np.array([row[at : at + BLOCK] for row in values for at in range(max(1, values.shape[1] - BLOCK + 1))])
    draws = max(1, values.size // BLOCK)
    chosen = np.random.default_rng(0).integers(0, len(blocks), (DRAWS, draws))
    low, high = np.percentile(blocks.mean(axis=1)[chosen].mean(axis=1), [2.5, 97.5])
    return float(values.mean()), float(low), float(high)


def by_period(frame: pd.DataFrame, stream: str, rule: str, method: str, column: str = "came") -> pd.DataFrame:
    """A figure of one rule and method: a row for each seed, a column for each period."""
    chosen = frame[(frame["stream"] == stream) & (frame["rule"] == rule) & (frame["method"] == method)]
    return chosen.pivot(index="seed", columns="period", values=column)


def survival(page: Page) -> None:
    """What is left of a proven gap a window later.

    Both plan on the last window, each in a cluster of its own. *Promised*: by how many points the optimum is ahead of Flux on the window
    that both planned on. *Came*: by how many it is ahead on the window that came. *Survives*: the second over the first.
    """
    frame, rows = results(page), []
    for stream in frame["stream"].unique():
        ahead = {
            c: by_period(frame, stream, LAST, FLUX, c) - by_period(frame, stream, LAST, EXACT, c)
            for c in ("planned", "came")
        }
        promised, came = interval(ahead["planned"]), interval(ahead["came"])
        rows.append(
            {
                "stream": stream,
                "Flux, planned": by_period(frame, stream, LAST, FLUX, "planned").to_numpy().mean(),
                "Flux, came": by_period(frame, stream, LAST, FLUX).to_numpy().mean(),
                "promised": promised[0], "promised_low": promised[1], "promised_high": promised[2],
                "came": came[0], "came_low": came[1], "came_high": came[2],
                "survives, %": 100 * came[0] / promised[0],
            }
        )  # fmt: skip
    table = page.keep(rows, "survival")
    shown = table[["stream", "Flux, planned", "Flux, came"]].round(1)
    for name in ("promised", "came"):
        shown[name] = [
            f"{r[name]:.2f} ({r[f'{name}_low']:.2f} to {r[f'{name}_high']:.2f})" for _, r in table.iterrows()
        ]
    page.table(shown.assign(**{"survives, %": table["survives, %"].round(0)}))
    draw(page, table)


def draw(page: Page, table: pd.DataFrame) -> None:
    figure, (axes,) = grid(1, 1, (7.2, 3.6))
    for y, (_, row) in enumerate(table[::-1].iterrows()):
        for name, colour, lift in (("promised", COLOURS[0], 0.14), ("came", COLOURS[1], -0.14)):
            off = [[row[name] - row[f"{name}_low"]], [row[f"{name}_high"] - row[name]]]
            label = (
                {"promised": "on the window planned on", "came": "on the window that came"}[name] if y == 0 else None
            )
            axes.errorbar(row[name], y + lift, xerr=off, fmt="os"[name == "came"], color=colour, capsize=3, label=label)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(table)), table["stream"][::-1])
    axes.set_xlabel(
        "by how much the proven optimum is ahead of Flux\n(points of load distance: % of the mean node load)"
    )
    axes.legend(fontsize=8, loc="best")
    axes.grid(alpha=0.3, axis="x")
    page.figure(
        figure, "ahead", "How far a proven optimum on the last window is ahead of Flux: promised, and a window later."
    )


def rules(page: Page) -> None:
    """Which window rule wins on the next window.

    Mean load distance on the window that came, in points; in brackets by how much it is below that of Flux on the last window, period by
    period and over the seeds that all forecasts have run, with its interval. *The window that came* is planned on itself: what no forecast can
    better by much. *In the model*: the exact method plans for the loads of four windows at once, the worst of them or their mean.
    """
    frame, rows = results(page), []
    for stream in frame["stream"].unique():
        flux = by_period(frame, stream, LAST, FLUX)
        ran = frame[frame["stream"] == stream].groupby(["rule", "method"], sort=False)["seed"].agg(set)
        by_all = set.intersection(*(seeds for (rule, _), seeds in ran.items() if not rule.endswith("model")))
        for rule, method in ran.index:
            came = by_period(frame, stream, rule, method)
            came = came.loc[sorted(by_all.intersection(came.index))]
            base = flux.loc[came.index]
            mean, low, high = interval(base - came)
            moved = by_period(frame, stream, rule, method, "state_moved").to_numpy().mean()
            back = by_period(frame, stream, rule, method, "straight_back").to_numpy().mean()
            rows.append(
                {"stream": stream, "rule": rule, "method": method, "seeds": len(came), "came": came.to_numpy().mean(), "gain": mean,
                 "low": low, "high": high, "state_moved": moved, "straight_back": back}
            )  # fmt: skip
    table = page.keep(rows, "rules")
    bracket = [f" ({r.gain:+.2f}: {r.low:+.2f} to {r.high:+.2f})" for r in table.itertuples()]
    compared = (table["rule"] != LAST) | (table["method"] != FLUX)
    said = table["came"].map("{:.1f}".format) + np.where(compared, bracket, "")
    shown = table.assign(
        said=said, what=[f"{r}, {SAID[m]}" for r, m in zip(table["rule"], table["method"], strict=True)]
    )
    for stream, part in shown.groupby("stream", sort=False):
        forecasts = part[(part["rule"] != CAME) & ~part["rule"].str.endswith("model")]
        best = forecasts.nlargest(1, "gain").iloc[0]
        page.say("", f"**{stream}**: best of all forecasts is {best['what']}, {best['came']:.1f} points.", "")
        named = part[["what", "seeds", "said", "state_moved", "straight_back"]].round(2)
        page.table(named.rename(columns={"what": "rule, method", "said": "load distance that came (below Flux)",
                                         "state_moved": "state moved, % a period", "straight_back": "straight back"}))  # fmt: skip


def others(page: Page) -> None:
    """Traffic, and routing tables.

    Collocation: remote traffic, thousand tuples a window, on the generator of [Madsen2016] (60 key groups, 10 nodes, two
    operators, half of the key groups one to one), within 10 moves and a load distance of 30 %; *milp* is its search without
    HiGHS. Mixed routing: theta in percent on the generator of [Fang2016] (1,000 keys, 10 nodes, f = 0.5), within a tolerance of
    8 % and 200 entries. *Promised*: on the forecast; *came*: on the next window; *regret*: less the plan that knew, from the same start, with its interval over the periods of two seeds.
    """
    limits = {
        TRAFFIC: {"max_migrations": 10, "max_load_distance": 30.0},
        "mixed-routing": {"theta_max": 0.08, "max_table_size": 200},
    }
    fast = {"finish": False, "search_steps": 40_000, "bound_steps": 40}
    chosen = {
        TRAFFIC: [("albic", {}), ("cola", {}), ("milp", fast)],
        "mixed-routing": [("mixed", {}), ("min-table", {}), ("milp", {})],
    }
    rows = []
    for problem, methods in chosen.items():
        name, unit = ("remote_traffic", 1e-3) if problem == TRAFFIC else ("theta", 100.0)
        for rule in ("last", "mean:4"):
            for method, settings in methods:
                options = {k: v for k, v in limits[problem].items() if method != "cola" or k != "max_migrations"}
                planner = ks.replays.Planner(method, problem=problem, options=options, settings=settings)
                runs = [
                    ks.replay(
                        with_traffic(seed) if problem == TRAFFIC else with_tables(seed), [planner], forecast=rule,
                        time_limit=2.0 if method == "milp" else None, periods=6 if page.quick else None,
                        checkpoint=page.out / "replays" / f"{problem}-{rule.replace(':', '-')}-{method}-{seed}-{page.quick}",
                    ).to_frame()
                    for seed in range(1 if page.quick else 2)
                ]  # fmt: skip
                mean, low, high = interval(pd.DataFrame([unit * run["regret"].to_numpy() for run in runs]))
                every = pd.concat(runs)
                rows.append(
                    {
                        "problem": problem, "rule": rule, "method": method,
                        "promised": unit * every[f"planned_{name}"].mean(), "came": unit * every[name].mean(),
                        "regret": mean, "low": low, "high": high, "moves": every["migrations"].mean(),
                        "straight back": every["oscillations"].mean(), "fallbacks": (every["fallback"] != "").sum(),
                    }
                )  # fmt: skip
    table = page.keep(rows, "others")
    table["regret"] = [f"{r.regret:.1f} ({r.low:.1f} to {r.high:.1f})" for r in table.itertuples()]
    for _, part in table.groupby("problem", sort=False):
        page.table(part.drop(columns=["low", "high"]).round(2))


def data(folder: str) -> Path:
    """The folder of words and edits."""
    os.environ[DATA] = folder
    return Path(folder)


if __name__ == "__main__":
    run(
        "next_window", "The next window", __doc__, [allocation, survival, rules, others],
        data={"type": data, "help": "the folder with count_1w.txt and the Wikipedia edits"},
        streams={"nargs": "+", "choices": list(STREAMS), "help": "run these streams only"},
        rules={"nargs": "+", "choices": list(RULES), "help": "run these rules only"},
        seeds={"type": int, "default": 3},
    )  # fmt: skip
