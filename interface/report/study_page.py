"""A study on one page: what was run, profiles, gaps, the worst instances by name, and every number to take along."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyshift.report.drawings import gap_dots, profile_curves
from keyshift.report.page import Data, section, text, write_page

if TYPE_CHECKING:
    import pandas as pd

WORST = 15
"""Instances in the list of the worst."""
SUMMARY = (
    ("solves", "solves"), ("solved", "solved"), ("proven", "proven"), ("wins", "best found"), ("broke_rules", "broke rules"),
    ("failed", "failed"), ("gap_mean", "gap %, mean"), ("gap_low", "from"), ("gap_high", "to"), ("gap_median", "median"),
    ("gap_worst", "worst"), ("seconds_median", "s, median"), ("seconds_worst", "s, worst"),
)  # fmt: skip


def write_study_report(
    frame: pd.DataFrame, summary: pd.DataFrame, profiles: Mapping[str, pd.DataFrame], path: str | Path, title: str
) -> None:
    """Write the page of a study's solves, their summary and its profiles by time and gap; whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written there.
    """
    data = Data(
        {
            "totals": _totals(frame),
            "summary": _percent(_records(summary), "gap_mean", "gap_low", "gap_high", "gap_median", "gap_worst"),
            "worst": _percent(_records(_worst(frame)), "gap"),
            "trouble": _records(_trouble(frame)),
            "solves": _records(frame.drop(columns=["fingerprint", "message"])),
        }
    )
    sections = [section("Methods, family by family", _summary(data), _GAPS, wide=True)]
    for problem in dict.fromkeys(frame["problem"]):
        sections += [
            section(f"{problem}: time", _profile(profiles["time"], problem, frame, "time"), _TIME),
            section(f"{problem}: gap", _profile(profiles["gap"], problem, frame, "gap"), _GAP),
            section(f"{problem}: every solve", _dots(frame, problem), _DOTS, wide=True),
        ]
    if data.at("worst"):
        sections.append(section("The widest gaps, by name", _table(data, "worst", _WORST), _NAMES, wide=True))
    if data.at("trouble"):
        sections.append(section("What broke rules or failed", _table(data, "trouble", _TROUBLE), wide=True))
    write_page(path, title, _head(frame, data), sections, data)


_GAPS = (
    "The gap is (objective - best bound) / objective, in percent; the best bound on an instance is the highest that "
    "any method proved. The interval is the 95 % bootstrap interval of the mean."
)
_TIME = "Share of the instances on which a method reaches the best objective found within so many times the fastest's seconds."
_GAP = "Share of the instances on which a method's gap to the best bound is at most so much."
_DOTS = "A dot for each instance, the widest gap of its seeds, on a scale of square roots; the bar is the median."
_NAMES = "ks.family(name) draws such an instance again: the name says the family, its parameters and, after the slash, the seed."
_WORST = (
    ("instance", "instance"),
    ("method", "method"),
    ("gap", "gap %"),
    ("objective", "objective"),
    ("best_bound", "best bound"),
)
_TROUBLE = (("instance", "instance"), ("method", "method"), ("status", "status"), ("said", "what it says"))


def _totals(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "solves": len(frame),
        "instances": int(frame["instance"].nunique()),
        "methods": int(frame.groupby("problem")["method"].nunique().sum()),
        "proven": int(frame.loc[frame["status"] == "optimal", "instance"].nunique()),
        "failed": int((frame["status"] == "failed").sum()),
    }


def _head(frame: pd.DataFrame, data: Data) -> str:
    file = base64.b64encode(frame.to_csv(index=False).encode()).decode()
    tiles = [
        ("solves", data.figure("totals.solves")),
        ("instances", data.figure("totals.instances")),
        ("methods of their problems", data.figure("totals.methods")),
        ("instances proven", data.figure("totals.proven")),
        ("solves that failed", data.figure("totals.failed")),
    ]
    return data.tiles(tiles) + (
        f'<p><a download="study.csv" href="data:text/csv;base64,{file}">Every solve as a table (CSV)</a></p>'
    )


def _summary(data: Data) -> str:
    rows = [
        [f"={row['family']}", f"={row['method']}", *(f"summary.{place}.{name}" for name, _ in SUMMARY)]
        for place, row in enumerate(data.at("summary"))
    ]
    return data.table(["family", "method", *(head for _, head in SUMMARY)], rows, words=(1,))


def _table(data: Data, part: str, columns: tuple[tuple[str, str], ...]) -> str:
    rows = [
        [f"={row[name]}" if isinstance(row[name], str) else f"{part}.{place}.{name}" for name, _ in columns]
        for place, row in enumerate(data.at(part))
    ]
    words = [at for at, (name, _) in enumerate(columns) if name in ("method", "status", "said")]
    return data.table([head for _, head in columns], rows, words=words)


def _profile(steps: pd.DataFrame, problem: str, frame: pd.DataFrame, over: str) -> str:
    own = steps[steps["problem"] == problem]
    named = dict.fromkeys(frame.loc[frame["problem"] == problem, "method"])
    curves = {
        method: list(own.loc[own["method"] == method, ["factor", "share"]].itertuples(index=False, name=None))
        for method in named
    }
    if over == "time":
        return profile_curves(curves, "times the fastest (logarithmic)", 1.0, logarithmic=True)
    return profile_curves(
        {m: [(100 * f, s) for f, s in c] for m, c in curves.items()}, "gap in percent", 0.0, logarithmic=False
    )


def _dots(frame: pd.DataFrame, problem: str) -> str:
    own = frame[frame["problem"] == problem]
    found = {
        str(m): {str(name): float(g) for name, g in part.dropna(subset="gap").groupby("instance")["gap"].max().items()}
        for m, part in own.groupby("method", sort=False)
    }
    gaps = {method: values for method, values in found.items() if values}
    return gap_dots(gaps) if gaps else f"<p>{text('No method has both an answer and a bound beside it.')}</p>"


def _worst(frame: pd.DataFrame) -> pd.DataFrame:
    """The best method's gap on the instances where even that is widest."""
    answered = frame.dropna(subset=["gap"])
    best = answered.loc[answered.groupby("instance", sort=False)["gap"].idxmin()] if len(answered) else answered
    columns = [name for name, _ in _WORST]
    return best[best["gap"] > 0].nlargest(WORST, "gap")[columns]


def _trouble(frame: pd.DataFrame) -> pd.DataFrame:
    broke = frame[(frame["violations"] > 0) | (frame["status"] == "failed")]
    said = broke["worst_violation"].where(broke["worst_violation"].notna(), broke["message"])
    return broke.assign(said=said)[[name for name, _ in _TROUBLE]].head(200)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON can hold them: null where there is no number."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[return-value]


def _percent(records: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    # What is below a ten thousandth of a percent is within an optimum's tolerance; the table of solves has every digit.
    return [
        {**record, **{name: None if record[name] is None else round(100 * record[name], 4) for name in names}}
        for record in records
    ]
