"""Certificates of the best known answers: made where a proof is found, and checked again.

    python benchmarks/best_known_certificates.py --seconds 20 [--only PROBLEM ...] [--minutes 9]    make what is missing or outdated
    python benchmarks/best_known_certificates.py --check                                            check all of it

One compressed file for each problem, a line for each instance. The check draws every instance anew, holds the certificate's instance and
values against it and the table, and lets verify.py follow the proof. A bound that the certificate does not reach stays the solver's word.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.certificates import verify
from keyshift.models.answer import Answer
from keyshift.models.solution import Solution
from keyshift.papers.markdown_table import markdown
from keyshift.studies.tables import BestKnown, Entry

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
TABLE, CERTIFICATES = FOLDER / "best_known.csv", FOLDER / "best_known_certificates"
CLOSE = 1e-6
"""What the table and a certificate may differ by, as a share: the table rounds, certificates do not."""


def file_of(problem: str) -> Path:
    return CERTIFICATES / f"{problem}.jsonl.gz"


def read(problem: str) -> dict[str, Any]:
    """The certificates of one problem, by fingerprint."""
    if not file_of(problem).exists():
        return {}
    with gzip.open(file_of(problem), "rt", encoding="utf-8") as file:
        return {line["fingerprint"]: line["certificate"] for line in map(json.loads, file)}


def write(problem: str, known: dict[str, Any]) -> None:
    CERTIFICATES.mkdir(exist_ok=True)
    lines = [json.dumps({"fingerprint": f, "certificate": c}, separators=(",", ":")) for f, c in sorted(known.items())]
    file_of(problem).write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def certificate(entry: Entry, seconds: float) -> dict[str, Any] | None:
    """An entry's certificate, with the highest bound that is proven in time; None where there is nothing to certify."""
    ((_, problem),) = ks.family(entry.instance)
    if entry.objective is None:
        answer = Answer(None, termination="infeasible")
    else:
        answer = Answer(np.array(entry.answer), min(entry.bound or 0.0, entry.objective))
    try:
        return ks.certify(Solution.of(problem, "best known", answer, 0.0), time_limit=seconds).record
    except ks.InputError as error:
        print(f"{entry.instance}: {error}", flush=True)
        return None


def values(record: dict[str, Any]) -> list[float | None]:
    """The value and the bound that a certificate claims."""
    return [None if (said := record["claim"][name]) is None else float(Fraction(said)) for name in ("value", "bound")]


def is_of(entry: Entry, record: dict[str, Any]) -> bool:
    """Whether a certificate has the value of the table, which may have become better."""
    value = values(record)[0] or 0.0
    return entry.objective is None or abs(value - entry.objective) <= CLOSE * max(1.0, abs(entry.objective))


def checked(entry: Entry, record: dict[str, Any]) -> dict[str, object]:
    """What verify.py says, and whether the certificate is about this entry."""
    ((_, problem),) = ks.family(entry.instance)
    (value, bound), wrong = values(record), ""
    if record["instance"] != json.loads(json.dumps(problem.record())):
        wrong = "it is of another instance"
    elif not is_of(entry, record):
        wrong = f"its value is {value}, the table's {entry.objective}"
    elif record["solvers_word"] is None or bound:
        try:
            verify.verified(record)
        except (verify.Refused, *verify.DAMAGED) as error:
            wrong = str(error)
    same = problem.tolerance_of(value or 0.0)
    whole = entry.bound is None or bound is None or bound >= min(entry.bound, value or 0.0) - same
    return {"problem": entry.problem, "instance": entry.instance, "wrong": wrong, "proven": not wrong and bool(whole),
            "closed": bound is not None and value is not None and value - bound <= same}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--only", nargs="*")
    given = parser.parse_args()
    table, rows, began = BestKnown.read(TABLE), [], time.monotonic()
    for problem in sorted({entry.problem for entry in table.entries.values()}):
        if given.only and problem not in given.only:
            continue
        known = read(problem)
        for mark, entry in table.entries.items():
            if entry.problem != problem:
                continue
            fresh = mark in known and is_of(entry, known[mark])
            if not (given.check or fresh) and time.monotonic() - began < 60 * given.minutes:
                if (made := certificate(entry, given.seconds)) is not None:
                    known[mark] = made
                    write(problem, known)
            if given.check and mark in known:
                rows.append(checked(entry, known[mark]))
    if given.check:
        frame = pd.DataFrame(rows)
        of = pd.Series({p: sum(e.problem == p for e in table.entries.values()) for p in frame["problem"].unique()})
        by = frame.groupby("problem")
        counts = pd.DataFrame({"instances": of, "certificates": by.size()}).join(by[["proven", "closed"]].sum())
        wrong = frame[frame["wrong"] != ""]
        print(markdown(counts.rename_axis("problem").reset_index()))
        print(*(f"{r.instance}: {r.wrong}" for r in wrong.itertuples()), f"{len(frame)} certificates, {len(wrong)} wrong", sep="\n")  # fmt: skip
        raise SystemExit(len(wrong) > 0)


if __name__ == "__main__":
    main()
