"""The tables of a study: gaps solve by solve, a summary with bootstrap intervals, and performance profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models import guards
from keyshift.models.figures import figure
from keyshift.studies.best_known import BestKnown
from keyshift.studies.tasks import Row

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "instance", "family", "method", "seed", "status", "objective", "bound", "best_known", "best_bound", "gap", "gap_abs",
    "violations", "seconds", "wall", "problem", "kind", "termination", "above_best_known", "won", "offered",
    "worst_violation", "message", "fingerprint",
)  # fmt: skip
RESAMPLES = 2000
LEVEL = 0.95


def gap_table(rows: Sequence[Row], known: BestKnown) -> pd.DataFrame:
    """A row for each solve; `Study.to_frame` says what the columns mean."""
    import pandas as pd

    best = known.updated(rows)
    made = []
    for row in rows:
        entry = best.of(row["fingerprint"])
        objective = row["objective"] if row["same_problem"] else None
        best_known = None if entry is None else entry.objective
        best_bound = None if entry is None else entry.bound
        absolute = None if objective is None or best_bound is None else max(0.0, objective - best_bound)
        above = None if objective is None or best_known is None else max(0.0, objective - best_known)
        made.append(
            {
                **row,
                "objective": row["objective"], "best_known": best_known, "best_bound": best_bound, "gap_abs": absolute,
                "gap": _share(absolute, objective), "above_best_known": _share(above, objective),
                "won": above is not None and above <= row["tolerance"],
            }
        )  # fmt: skip
    frame = pd.DataFrame(made, columns=list(COLUMNS))
    numbers = ["objective", "bound", "best_known", "best_bound", "gap", "gap_abs", "above_best_known", "offered"]
    return frame.astype(dict.fromkeys(numbers, "float64"))


def _share(part: float | None, whole: float | None) -> float | None:
    """A difference as a share of the objective; of an objective of 0 there is none, and 0 of it is 0."""
    if part is None or whole is None:
        return None
    return 0.0 if part == 0 else part / abs(whole)


def summary_table(frame: pd.DataFrame, seed: int = 0, by: str = "family") -> pd.DataFrame:
    """A row for each group and method; `Study.summary` says what the columns mean."""
    import pandas as pd

    guards.one_of("by", by, ("family", "problem", "instance"))
    rows = [
        {by: group, "method": method, **_figures(part, seed)}
        for (group, method), part in frame.groupby([by, "method"], sort=False)
    ]
    return pd.DataFrame(rows)


LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}"}
)


def latex_table(summary: pd.DataFrame, by: str) -> str:
    """A summary as LaTeX's booktabs has tables; pandas would need another package for it."""
    shown = {
        "solves": 1,
        "proven": 1,
        "wins": 1,
        "gap_mean": 100,
        "gap_low": 100,
        "gap_high": 100,
        "gap_worst": 100,
        "seconds_median": 1,
    }
    heads = ["solves", "proven", "wins", "gap (\\%)", "from", "to", "worst", "seconds"]
    rows = [" & ".join([by, "method", *heads])]
    for row in summary.to_dict("records"):
        numbers = [
            None if row[name] is None or row[name] != row[name] else unit * row[name] for name, unit in shown.items()
        ]
        rows.append(
            " & ".join(
                [str(row[name]).translate(LATEX) for name in (by, "method")] + [figure(v, 1.0, 3) for v in numbers]
            )
        )
    head, *body = (f"{row} \\\\" for row in rows)
    lines = [
        "\\begin{tabular}{ll" + "r" * len(heads) + "}",
        "\\toprule",
        head,
        "\\midrule",
        *body,
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


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
        (values,), np.mean, confidence_level=LEVEL, n_resamples=RESAMPLES, method="percentile",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def profile_table(frame: pd.DataFrame, over: str) -> pd.DataFrame:
    """Steps of the profiles, problem by problem; `Study.profile` says what they mean."""
    import pandas as pd

    guards.one_of("over", over, ("time", "gap"))
    parts = []
    for problem, part in frame.groupby("problem", sort=False):
        ratio = _time_ratios(part) if over == "time" else part["gap"].where(part["gap"].notna(), np.inf)
        cases = part.groupby(["instance", "seed"]).ngroups
        for method, own in ratio.groupby(part["method"], sort=False):
            reached = np.sort(own[np.isfinite(own)].to_numpy(dtype=float))
            if reached.size == 0:
                continue
            factor, at = np.unique(reached, return_index=True)
            upto = np.append(at[1:], reached.size)  # all that are at most as large
            parts.append(pd.DataFrame({"problem": problem, "method": method, "factor": factor, "share": upto / cases}))
    return (
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["problem", "method", "factor", "share"])
    )


def _time_ratios(part: pd.DataFrame) -> pd.Series:
    """Seconds over those of the fastest method that reached the best objective; infinite for what did not reach it."""
    seconds = part["seconds"].clip(lower=1e-3).where(part["won"], np.inf)  # below a millisecond clocks are noise
    fastest = seconds.groupby([part["instance"], part["seed"]]).transform("min")
    return (seconds / fastest).where(np.isfinite(seconds), np.inf)
