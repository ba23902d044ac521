"""The tables of a study - gaps solve by solve, a summary, performance profiles -, its page, and the best known answers."""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from keyshift.catalogue.families import family
from keyshift.files.problem import problem_fingerprint
from keyshift.files.table import open_table
from keyshift.models import InputError
from keyshift.models.base import guards
from keyshift.models.base.disk import MOST_JSON, read_json, shown, write_text
from keyshift.models.base.figures import figure
from keyshift.models.base.lazily import pd
from keyshift.models.problem import SLACK
from keyshift.report.drawings import gap_dots, profile_curves, records, write_page
from keyshift.studies.tasks import Row
from keyshift.version import __version__

COLUMNS = (
    "instance", "family", "method", "seed", "status", "objective", "bound", "best_known", "best_bound", "gap", "gap_abs",
    "gap_of_scale", "violations", "seconds", "wall", "problem", "kind", "termination", "above_best_known", "won", "offered",
    "worst_violation", "message", "fingerprint",
)  # fmt: skip


def gap_table(rows: Sequence[Row], known: BestKnown) -> pd.DataFrame:
    """A row for each solve; `Study.to_frame` says what the columns mean."""
    best = known.updated(rows)
    made = []
    for row in rows:
        entry = best.of(row["fingerprint"])
        objective = row["objective"] if row["same_problem"] else None
        best_known = None if entry is None else entry.objective
        best_bound = None if entry is None else entry.bound
        absolute = None if objective is None or best_bound is None else max(0.0, objective - best_bound)
        proven = absolute is not None and absolute <= row["tolerance"]
        counted = 0.0 if proven else absolute
        above = None if objective is None or best_known is None else max(0.0, objective - best_known)
        made.append(
            {
                **row,
                "objective": row["objective"], "best_known": best_known, "best_bound": best_bound, "gap_abs": absolute,
                "gap": _share(counted, objective), "gap_of_scale": _share(counted, row.get("scale")),
                "above_best_known": _share(above, objective), "won": above is not None and above <= row["tolerance"],
            }
        )  # fmt: skip
    frame = pd.DataFrame(made, columns=list(COLUMNS))
    numbers = [
        "objective", "bound", "best_known", "best_bound", "gap", "gap_abs", "gap_of_scale", "above_best_known", "offered",
    ]  # fmt: skip
    return frame.astype(dict.fromkeys(numbers, "float64"))


def _share(part: float | None, whole: float | None) -> float | None:
    """A difference as a share of the objective, or of a scale; of 0 there is none, and 0 of it is 0."""
    if part is None or whole is None:
        return None
    return 0.0 if part == 0 else part / abs(whole)


def summary_table(frame: pd.DataFrame, seed: int = 0, by: str = "family") -> pd.DataFrame:
    """A row for each group and method; `Study.summary` says what the columns mean."""
    guards.one_of("by", by, ("family", "problem", "instance"))
    rows = [
        {by: group, "method": method, **_figures(part, seed)}
        for (group, method), part in frame.groupby([by, "method"], sort=False)
    ]
    return pd.DataFrame(rows)


LATEX_NOTES = """\
% solves: runs, one for each instance and seed; proven: runs that ended with a proven optimum;
% wins: runs that reached the best objective of all methods; gap: (objective - best bound) / objective, the mean in percent;
% a proven optimum has gap 0; from, to: its 95 % bootstrap interval; worst: the largest gap; seconds: the median run.
"""


def latex_table(summary: pd.DataFrame, by: str) -> str:
    """A summary as LaTeX's booktabs has tables."""
    heads = {
        by: by, "method": "method", "solves": "solves", "proven": "proven", "wins": "wins", "gap_mean": "gap (%)",
        "gap_low": "from", "gap_high": "to", "gap_worst": "worst", "seconds_median": "seconds",
    }  # fmt: skip
    shown = summary[list(heads)].astype(object)
    for name in list(heads)[2:]:
        unit = 100 if name.startswith("gap") else 1
        shown[name] = [figure(None if v is None or v != v else round(unit * v, 4), 1.0, 3) for v in summary[name]]
    shown.columns = list(heads.values())
    table = shown.to_latex(index=False, escape=True, column_format="ll" + "r" * (len(heads) - 2))
    return LATEX_NOTES + table


def _figures(part: pd.DataFrame, seed: int) -> dict[str, Any]:
    gaps = part["gap"].dropna().to_numpy(dtype=float)
    low, high = bootstrap_interval(gaps, seed)
    return {
        "solves": len(part),
        "solved": int(part["objective"].notna().sum()),
        "proven": int((part["status"] == "optimal").sum()),
        "infeasible": int((part["status"] == "infeasible").sum()),
        "broke_rules": int((part["violations"] > 0).sum()),
        "failed": int((part["status"] == "failed").sum()),
        "wins": int(part["won"].sum()),
        "gap_mean": float(gaps.mean()) if gaps.size else None,
        "gap_low": low,
        "gap_high": high,
        "gap_median": float(np.median(gaps)) if gaps.size else None,
        "gap_worst": float(gaps.max()) if gaps.size else None,
        "gap_of_scale_mean": float(part["gap_of_scale"].mean()),
        "seconds_median": float(part["seconds"].median()),
        "seconds_worst": float(part["seconds"].max()),
    }


def bootstrap_interval(values: np.ndarray, seed: int = 0) -> tuple[float | None, float | None]:
    """The 95 % bootstrap interval of a mean; the mean itself where all values are one, None where there are none."""
    from scipy.stats import bootstrap

    if values.size == 0:
        return None, None
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    found = bootstrap(
        (values,), np.mean, confidence_level=0.95, n_resamples=2000, method="percentile",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def profile_table(frame: pd.DataFrame, over: str) -> pd.DataFrame:
    """Steps of the profiles, problem by problem; `Study.profile` says what they mean."""
    guards.one_of("over", over, ("time", "objective", "gap"))
    parts = []
    for problem, part in frame.groupby("problem", sort=False):
        ratio = {"time": _time_ratios, "objective": _objective_ratios, "gap": _gaps}[over](part)
        cases = part.groupby(["instance", "seed"]).ngroups
        for method, own in ratio.groupby(part["method"], sort=False):
            reached = np.sort(own[np.isfinite(own)].to_numpy(dtype=float))
            if reached.size == 0:
                continue
            factor, at = np.unique(reached, return_index=True)
            upto = np.append(at[1:], reached.size)  # all that are at most as large
            parts.append(pd.DataFrame({"problem": problem, "method": method, "factor": factor, "share": upto / cases}))
    none = pd.DataFrame(columns=["problem", "method", "factor", "share"])
    return pd.concat(parts, ignore_index=True) if parts else none


def _gaps(part: pd.DataFrame) -> pd.Series:
    return part["gap"].where(part["gap"].notna(), np.inf)


def _objective_ratios(part: pd.DataFrame) -> pd.Series:
    """Objectives over the best one; 1 where both are 0, infinite for what has no answer."""
    best = part.groupby(["instance", "seed"])["objective"].transform("min")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (part["objective"] / best).where(part["objective"] != best, 1.0)
    return ratio.where(ratio.notna(), np.inf)


def _time_ratios(part: pd.DataFrame) -> pd.Series:
    """Seconds over those of the fastest method that reached the best objective; infinite for what did not reach it."""
    seconds = part["seconds"].clip(lower=1e-3).where(part["won"], np.inf)  # below a millisecond clocks are noise
    fastest = seconds.groupby([part["instance"], part["seed"]]).transform("min")
    return (seconds / fastest).where(np.isfinite(seconds), np.inf)


# The page of a study ---------------------------------------------------------------------------------------------------


def write_study_report(
    frame: pd.DataFrame, summary: pd.DataFrame, profiles: Mapping[str, pd.DataFrame], path: str | Path, title: str
) -> None:
    """Write the page of a study's solves, their summary and its profiles by time and gap; whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written there.
    """
    content = {
        "totals": _totals(frame),
        "summary": _percent(records(summary), *(name for name in map(str, summary) if name.startswith("gap"))),
        "worst": _percent(records(_worst(frame)), "gap"),
        "trouble": records(_trouble(frame)),
        "solves": records(frame.drop(columns=["fingerprint", "message"])),
    }
    drawn = {
        problem: {"dots": _dots(frame, problem)}
        | {over: _profile(steps, problem, frame, over) for over, steps in profiles.items()}
        for problem in dict.fromkeys(frame["problem"])
    }
    csv = base64.b64encode(frame.to_csv(index=False).encode()).decode()
    write_page(path, "study", title, content, problems=drawn, csv=csv)


def _totals(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "solves": len(frame),
        "instances": int(frame["instance"].nunique()),
        "methods": int(frame.groupby("problem")["method"].nunique().sum()),
        "proven": int(frame.loc[frame["status"] == "optimal", "instance"].nunique()),
        "failed": int((frame["status"] == "failed").sum()),
    }


def _profile(steps: pd.DataFrame, problem: str, frame: pd.DataFrame, over: str) -> Markup:
    own = steps[steps["problem"] == problem]
    named = dict.fromkeys(frame.loc[frame["problem"] == problem, "method"])
    unit, axis, least = {
        "time": (1, "times the fastest (logarithmic)", 1.0),
        "objective": (1, "times the best objective (logarithmic)", 1.0),
        "gap": (100, "gap in percent", 0.0),
    }[over]
    columns = {m: (unit * own["factor"][own["method"] == m], own["share"][own["method"] == m]) for m in named}
    curves = {m: list(zip(factor.tolist(), share.tolist(), strict=True)) for m, (factor, share) in columns.items()}
    return profile_curves(curves, axis, least, logarithmic=over != "gap")


def _dots(frame: pd.DataFrame, problem: str) -> Markup | None:
    own = frame[frame["problem"] == problem]
    found = {
        str(m): {str(name): float(g) for name, g in part.dropna(subset="gap").groupby("instance")["gap"].max().items()}
        for m, part in own.groupby("method", sort=False)
    }
    gaps = {method: values for method, values in found.items() if values}
    return gap_dots(gaps) if gaps else None


def _worst(frame: pd.DataFrame) -> pd.DataFrame:
    """The best method's gap on the instances where even that is widest."""
    answered = frame.dropna(subset=["gap"])
    best = answered.loc[answered.groupby("instance", sort=False)["gap"].idxmin()] if len(answered) else answered
    return best[best["gap"].round(6) > 0].nlargest(15, "gap")[["instance", "method", "gap", "objective", "best_bound"]]


def _trouble(frame: pd.DataFrame) -> pd.DataFrame:
    broke = frame[(frame["violations"] > 0) | (frame["status"] == "failed")]
    said = broke["worst_violation"].where(broke["worst_violation"].notna(), broke["message"])
    return broke.assign(said=said)[["instance", "method", "status", "said"]].head(200)


def _percent(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    # What is below a ten thousandth of a percent is within an optimum's tolerance; the table of solves has every digit.
    return [
        {name: round(100 * v, 4) if v is not None and name in names else v for name, v in row.items()} for row in rows
    ]


# The table of best known answers ---------------------------------------------------------------------------------------


ANSWERS = ".answers.json"
"""The assignments are in a file beside the table, called like it: what the objectives are checked by."""


@dataclass(frozen=True)
class Entry:
    """One instance's best answer and bound; `version` is that of the last improvement, `answer` is worth `objective`."""

    problem: str
    family: str
    instance: str
    fingerprint: str
    objective: float | None = None
    objective_by: str = ""
    bound: float | None = None
    bound_by: str = ""
    version: str = __version__
    answer: Any = None

    def improved(self, row: Row) -> Entry:
        """The entry with the better values of a row."""
        made = self
        objective, bound = row["objective"], row["bound"]
        if not row["same_problem"]:
            return made
        if objective is not None and (made.objective is None or objective < made.objective - _slack(made.objective)):
            by = {"objective_by": row["method"], "answer": row["assignment"], "version": __version__}
            made = replace(made, objective=objective, **by)
        if bound is not None and (made.bound is None or bound > made.bound + _slack(made.bound)):
            made = replace(made, bound=bound, bound_by=row["method"], version=__version__)
        return made

    def wrong(self) -> list[str]:
        """List what is wrong: draw the instance anew, check the answer without any solver, hold the bound against it."""
        ((_, problem),) = family(self.instance)
        if problem_fingerprint(problem) != self.fingerprint:
            return [f"{self.instance}: the generator draws another instance now"]
        if self.objective is None:
            return []
        if self.answer is None:
            return [f"{self.instance}: no answer is kept for the objective {self.objective:.12g}"]
        report = problem.check(np.array(self.answer))
        found = [f"{self.instance}: {violation}" for violation in report.violations]
        slack = SLACK * max(abs(self.objective), abs(report.objective))
        if abs(report.objective - self.objective) > slack:
            found.append(f"{self.instance}: the answer is worth {report.objective:.12g}, not {self.objective:.12g}")
        if self.bound is not None and self.bound > self.objective + SLACK * abs(self.objective):
            found.append(f"{self.instance}: the bound {self.bound:.12g} is above the objective {self.objective:.12g}")
        return found


HEADINGS = tuple(part.name for part in fields(Entry) if part.name != "answer")
"""The columns of the table."""


@dataclass(frozen=True)
class BestKnown:
    """The table, by fingerprint of the instance.

    Attributes
    ----------
    entries : mapping of str to Entry
    changed : tuple of str
        What `updated` found better, a sentence each.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> BestKnown:
        """Read a table; a file that is not there is an empty one.

        Raises
        ------
        InputError
            For a file that is no such table.
        """
        if not os.path.lexists(path):
            return cls()
        table = open_table(Path(path), MOST_JSON).fillna("")
        if tuple(table.columns) != HEADINGS:
            raise InputError(f"{path} must have the columns {', '.join(HEADINGS)}")
        beside = Path(path).with_suffix(ANSWERS)
        answers = read_json(beside) if os.path.lexists(beside) else {}
        if not isinstance(answers, dict):
            raise InputError(f"{beside} must hold one JSON object: an answer for each fingerprint")
        made = {}
        record: dict[str, Any]
        for line, record in zip(table.index, table.to_dict("records"), strict=True):
            for name in ("objective", "bound"):
                record[name] = _number(f"{path}, line {line}: {name} of {shown(record['instance'])}", record[name])
            made[record["fingerprint"]] = Entry(**record, answer=answers.get(record["fingerprint"]))
        return cls(made)

    def of(self, fingerprint: str) -> Entry | None:
        """The entry of an instance; None without one."""
        return self.entries.get(fingerprint)

    def updated(self, rows: Iterable[Row]) -> BestKnown:
        """The table with a study's improvements and new instances."""
        entries = dict(self.entries)
        changed = []
        for row in rows:
            mark = row["fingerprint"]
            before = entries.get(mark) or Entry(row["problem"], row["family"], row["instance"], mark)
            after = before.improved(row)
            entries[mark] = after
            for name in ("objective", "bound"):
                was, now = getattr(before, name), getattr(after, name)
                if now != was and mark in self.entries:
                    changed.append(f"{row['instance']}: {name} {was} -> {now} ({row['method']})")
        return BestKnown(entries, tuple(changed))

    def contradictions(self, rows: Iterable[Row]) -> list[str]:
        """Bounds above checked objectives of the same instance, in the rows and in the table together."""
        found = []
        for entry in self.updated(rows).entries.values():
            if entry.objective is None or entry.bound is None:
                continue
            if entry.bound > entry.objective + SLACK * max(abs(entry.objective), abs(entry.bound)):
                found.append(
                    f"{entry.instance}: {entry.bound_by} claims the bound {entry.bound:.12g}, but {entry.objective_by} has "
                    f"a checked answer of {entry.objective:.12g}"
                )
        return found

    def wrong(self) -> list[str]:
        """Check every objective by its answer, without any solver, and every bound against it; a sentence for each defect."""
        return [sentence for entry in self.entries.values() for sentence in entry.wrong()]

    def write(self, path: str | Path) -> list[str]:
        """Write the table and its answers, sorted so that versions can be compared line by line."""
        frame = self.to_frame().sort_values(["problem", "family", "instance"], kind="stable")
        answers = {mark: entry.answer for mark, entry in sorted(self.entries.items()) if entry.answer is not None}
        lines = [f"{json.dumps(mark)}: {json.dumps(answer, separators=(',', ':'))}" for mark, answer in answers.items()]
        write_text(Path(path).with_suffix(ANSWERS), "{\n" + ",\n".join(lines) + "\n}\n")
        write_text(path, frame.to_csv(index=False, lineterminator="\n"))
        return list(self.changed)

    def to_frame(self) -> pd.DataFrame:
        """The table as it is written."""
        rows = [{name: getattr(entry, name) for name in HEADINGS} for entry in self.entries.values()]
        return pd.DataFrame(rows, columns=list(HEADINGS))


def _slack(value: float) -> float:
    return SLACK * abs(value)


def _number(what: str, text: str) -> float | None:
    """A number of the table, or None for an empty place."""
    try:
        value = float(text) if text else None
    except ValueError:
        value = math.nan
    if value is not None and not math.isfinite(value):
        raise InputError(f"{what} is {shown(text)}, which is no finite number")
    return value
