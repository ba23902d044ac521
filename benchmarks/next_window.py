"""Does a proven optimum on yesterday's loads beat Flux on tomorrow's?

    python benchmarks/next_window.py [--quick] [--only PART ...] --out DIR [--data FOLDER] [--streams NAME ...]

Seven streams go through `ks.replay`: each period plans on a forecast from the windows seen, moves at most 5 of 60 key groups on 10 equal nodes,
and is valued on the window that comes. Load distances are in points: percent of the mean node load. Intervals are bootstrapped: means over
4,000 draws of blocks of four periods in a row, with replacement, from all seeds, between the 2.5th and the 97.5th percentile. Every
plan is written down as it is made, one file for each stream: a run that was stopped goes on.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from page import Page, grid, run

import keyshift as ks
from keyshift.figures.replay import COLOURS
from keyshift.models.families.collocation import synthetic_cluster
from keyshift.models.families.mclb import word_stream
from keyshift.models.families.real import DATA, WEEKS, data_file
from keyshift.models.families.real import flights as flight_log
from keyshift.models.families.routing import ZipfStream

GROUPS, NODES, MOVES = 60, 10, 5
SECONDS = 3.0
"""For each plan of the exact method: most are proven in a tenth of it."""
BLOCK, DRAWS = 4, 4000
FLUX, EXACT, DRAIN = "flux", "milp", "drain-first"
SAID = {FLUX: "Flux", EXACT: "proven optimum", DRAIN: "drain-first"}


def workloads(load: np.ndarray, seed: int, drain: int = 0) -> list[ks.Workload]:
    """A stream of one window each; the state of a key group is its share of all tuples, and they are dealt out at random."""
    place = np.random.default_rng([seed, 7]).permutation(np.arange(GROUPS) % (NODES + drain))
    state, leaving = load.sum(axis=0) / load.sum(), np.arange(NODES + drain) >= NODES
    return [ks.Workload(load=row, state=state, current=place, nodes=NODES + drain, draining=leaving) for row in load]


def hashed(window: Iterable[int], keys: Iterable[Any], windows: int, seed: int) -> list[ks.Workload]:
    """Rows of a log, counted by window and by the hash of their key; the seed turns the hash."""
    names, number = np.unique(np.asarray(keys, dtype=str), return_inverse=True)
    group = np.array([zlib.crc32(f"{seed}/{name}".encode()) % GROUPS for name in names])
    at = np.asarray(window) * GROUPS + group[number]
    return workloads(np.bincount(at, minlength=windows * GROUPS).reshape(windows, GROUPS).astype(float), seed)


def hourly(seed: int) -> list[ks.Workload]:
    """Departures by destination, hour by hour from six to ten in the evening, Monday to Wednesday: 48 windows."""
    log = flight_log()
    local = log["ts"].dt.tz_convert("America/New_York")
    day = (local.dt.tz_localize(None) - pd.Timestamp("2013-06-03")).dt.days
    chosen = day.between(0, 2) & local.dt.hour.between(6, 21)
    return hashed((16 * day + local.dt.hour - 6)[chosen], log["dest"][chosen], 48, seed)


def weekly(seed: int) -> list[ks.Workload]:
    """Departures by aeroplane, week by week."""
    log = flight_log().dropna(subset=["tailnum"])
    week = (log["ts"] - log["ts"].min().floor("D")).dt.days // 7
    return hashed(week, log["tailnum"], WEEKS, seed)


def edits(seed: int) -> list[ks.Workload]:
    """Edits by user, a thousand to a window."""
    with gzip.open(data_file("wikiticker-2015-09-12-sampled.json.gz"), "rt", encoding="utf-8") as lines:
        rows = sorted(((row["time"], row["user"]) for row in map(json.loads, lines)), key=lambda row: row[0])
    users = [user for _, user in rows][:39_000]
    return hashed(np.arange(len(users)) // 1000, users, 39, seed)


def words(seed: int) -> list[ks.Workload]:
    """Words drawn by their counts; the logarithm of each word's frequency walks at random, by 1 over all windows."""
    w = word_stream(data_file("count_1w.txt"), key_groups=GROUPS, nodes=NODES, windows=36, drift=1.0, seed=seed)
    return workloads(w.load, seed)


def cluster(seed: int) -> list[ks.Workload]:
    """[Madsen2016], section 5.1: a fifth of the nodes changes by up to 2 % a period, on one key group."""
    stream = synthetic_cluster(NODES, GROUPS, 2, 0.5, 36, seed)
    return workloads(np.array([w.last_load for w in stream]), seed)


def scale_in(seed: int) -> list[ks.Workload]:
    """The same, and two nodes more that drain."""
    stream = synthetic_cluster(NODES, GROUPS, 2, 0.5, 24, seed)
    return workloads(np.array([w.last_load for w in stream]), seed, 2)


def zipf(seed: int) -> list[ks.Workload]:
    """[Fang2016], section V: 6,000 Zipf keys, of which pairs swap frequencies until a node has changed by half its load."""
    stream, rows = ZipfStream(6000, NODES, 0.85, 0.5, seed=seed), []
    for _ in range(36):
        rows.append(np.bincount(np.arange(6000) % GROUPS, stream.load, GROUPS))
        stream.advance()
    return workloads(np.array(rows), seed)


STREAMS: dict[str, tuple[Callable[[int], list[ks.Workload]], str | None, int]] = {
    "flights, hourly": (hourly, "seasonal:16:2", 16),
    "flights, weekly": (weekly, None, 4),
    "Wikipedia edits": (edits, None, 4),
    "words, drifting": (words, None, 4),
    "generator of [Madsen2016]": (cluster, None, 4),
    "generator of [Fang2016]": (zipf, None, 4),
    "[Madsen2016], two nodes drain": (scale_in, None, 0),
}
"""Name -> (its windows, the forecast that knows its season, periods that are not counted: forecasts still learn)."""
DRAINED = "[Madsen2016], two nodes drain"
"""The only stream in which drain-first is anything else than the exact method."""
LAST, CAME = "the last window", "the window that came"
RULES: dict[str, dict[str, Any]] = {
    LAST: {"forecast": "last"},
    "mean of 4": {"forecast": "mean:4"},
    "weighted, 0.3": {"forecast": "ewma:0.3"},
    "90 % quantile of 4": {"forecast": "quantile:0.9:4"},
    "same hour": {},
    "nothing moves": {"forecast": "last", "max_migrations": 0},
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
    planner = ks.Planner(method, problem="key-group-allocation", options=given, settings=settings)
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


def jobs(names: Iterable[str], seeds: int) -> Iterable[tuple[str, int, str, str, dict[str, Any]]]:
    """Every run: stream, seed, rule, method and the rule's arguments."""
    for seed in range(seeds):
        for stream in names:
            for rule in RULES:
                given = rule_of(stream, rule)
                methods = (
                    (FLUX,) if rule == "nothing moves" else (FLUX, EXACT, DRAIN) if stream == DRAINED else (FLUX, EXACT)
                )
                for method in methods if given is not None else ():
                    yield stream, seed, rule, method, given or {}
            for method in (FLUX, EXACT):
                yield stream, seed, CAME, method, {"forecast": CAME}


def file_of(page: Page, stream: str) -> Path:
    return page.csv("rows_" + "".join(c if c.isalnum() else "_" for c in stream))


def allocation(page: Page) -> None:
    """Runs.

    How many plans there are, and how near to a proof those of the exact method are.
    """
    seeds = 1 if page.quick else page.given.seeds
    for stream, seed, rule, method, given in jobs(page.given.streams or STREAMS, seeds):
        file = file_of(page, stream)
        known = [pd.read_csv(file)] if file.exists() else []
        if any(((k["seed"] == seed) & (k["rule"] == rule) & (k["method"] == method)).any() for k in known):
            continue
        windows = STREAMS[stream][0](seed)[: 12 if page.quick else None]
        made = replayed(windows, method, given).assign(stream=stream, seed=seed, rule=rule, method=method)
        scratch = file.with_suffix(".part")
        pd.concat([*known, made], ignore_index=True).to_csv(scratch, index=False, float_format="%.6g")
        scratch.replace(file)
        print(f"{stream}, seed {seed}: {rule}, {method}: came {made['came'].mean():.2f}", flush=True)
    frame = results(page)
    exact = frame[frame["method"] == EXACT]
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
    values = differences.to_numpy()
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
    period, with its interval. *The window that came* is planned on itself: what no forecast can better by much.
    """
    frame, rows = results(page), []
    for stream in frame["stream"].unique():
        base = by_period(frame, stream, LAST, FLUX)
        found = frame[frame["stream"] == stream][["rule", "method"]].drop_duplicates()
        for rule, method in found.itertuples(index=False):
            came = by_period(frame, stream, rule, method)
            mean, low, high = interval(base - came)
            moved = by_period(frame, stream, rule, method, "state_moved").to_numpy().mean()
            back = by_period(frame, stream, rule, method, "straight_back").to_numpy().mean()
            rows.append(
                {"stream": stream, "rule": rule, "method": method, "came": came.to_numpy().mean(), "gain": mean,
                 "low": low, "high": high, "state_moved": moved, "straight_back": back}
            )  # fmt: skip
    table = page.keep(rows, "rules")
    said = [f"{r.came:.1f} ({r.gain:+.2f}: {r.low:+.2f} to {r.high:+.2f})" for r in table.itertuples()]
    shown = table.assign(
        said=said, what=[f"{r}, {SAID[m]}" for r, m in zip(table["rule"], table["method"], strict=True)]
    )
    for stream, part in shown.groupby("stream", sort=False):
        best = part[part["rule"] != CAME].nlargest(1, "gain").iloc[0]
        page.say("", f"**{stream}**: best of all forecasts is {best['what']}, {best['came']:.1f} points.", "")
        named = part[["what", "said", "state_moved", "straight_back"]].round(2)
        page.table(named.rename(columns={"what": "rule, method", "said": "load distance that came (below Flux)",
                                         "state_moved": "state moved, % a period", "straight_back": "straight back"}))  # fmt: skip


def data(folder: str) -> Path:
    """The folder of words and edits."""
    os.environ[DATA] = folder
    return Path(folder)


if __name__ == "__main__":
    run(
        "next_window", "The next window", __doc__, [allocation, survival, rules],
        data={"type": data, "help": "the folder with count_1w.txt and the Wikipedia edits"},
        streams={"nargs": "+", "choices": list(STREAMS), "help": "run these streams only"},
        seeds={"type": int, "default": 3},
    )  # fmt: skip
