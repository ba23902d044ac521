"""Best known answers: for each instance the least objective and the highest bound anyone has found, and who did."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.catalogue.families import family
from keyshift.files.problem import problem_fingerprint
from keyshift.models import InputError
from keyshift.models.base.disk import MOST_JSON, read_json, read_text, shown, write_text
from keyshift.models.problem import SLACK
from keyshift.studies.tasks import Row
from keyshift.version import __version__

if TYPE_CHECKING:
    import pandas as pd

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
        """With what a row has that is better."""
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
        text = read_text(path, MOST_JSON)
        try:
            heads, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        except (ValueError, csv.Error) as error:  # ValueError: no line at all
            raise InputError(f"{path} is no readable CSV ({str(error)[:100]})") from None
        if tuple(heads) != HEADINGS:
            raise InputError(f"{path} must have the columns {', '.join(HEADINGS)}")
        beside = Path(path).with_suffix(ANSWERS)
        answers = read_json(beside) if os.path.lexists(beside) else {}
        if not isinstance(answers, dict):
            raise InputError(f"{beside} must hold one JSON object: an answer for each fingerprint")
        made = {}
        for number, row in enumerate(filter(None, rows), start=2):
            if len(row) != len(HEADINGS):
                raise InputError(f"{path}: row {number} has {len(row)} entries, expected {len(HEADINGS)}")
            record: dict[str, Any] = dict(zip(HEADINGS, row, strict=True))
            for name in ("objective", "bound"):
                record[name] = _number(f"{path}: {name} of {shown(record['instance'])}", record[name])
            made[record["fingerprint"]] = Entry(**record, answer=answers.get(record["fingerprint"]))
        return cls(made)

    def of(self, fingerprint: str) -> Entry | None:
        """The entry of an instance; None without one."""
        return self.entries.get(fingerprint)

    def updated(self, rows: Iterable[Row]) -> BestKnown:
        """The table with what a study found better, and with its new instances."""
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
        import pandas as pd

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
