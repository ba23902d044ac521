"""Best known answers: for each instance the least objective and the highest bound anyone has found, and who did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from keyshift.models import InputError
from keyshift.models.files.writing import write_text
from keyshift.models.solution import ROUNDING
from keyshift.studies.tasks import Row
from keyshift.version import __version__

if TYPE_CHECKING:
    import pandas as pd

HEADINGS = (
    "problem", "family", "instance", "fingerprint", "objective", "objective_by", "bound", "bound_by", "version",
)  # fmt: skip
BETTER = 1e-9
"""Improvements below this share of the value are rounding."""


@dataclass(frozen=True)
class Entry:
    """What is known of one instance; `version` is that of the last improvement."""

    problem: str
    family: str
    instance: str
    fingerprint: str
    objective: float | None = None
    objective_by: str = ""
    bound: float | None = None
    bound_by: str = ""
    version: str = __version__

    def improved(self, row: Row) -> Entry:
        """With what a row has that is better."""
        made = self
        objective, bound = row["objective"], row["bound"]
        if not row["same_problem"]:
            return made
        if objective is not None and (made.objective is None or objective < made.objective - _slack(made.objective)):
            made = replace(made, objective=objective, objective_by=row["method"], version=__version__)
        if bound is not None and (made.bound is None or bound > made.bound + _slack(made.bound)):
            made = replace(made, bound=bound, bound_by=row["method"], version=__version__)
        return made


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
        import pandas as pd

        if not Path(path).exists():
            return cls()
        try:
            frame = pd.read_csv(path, keep_default_na=False, na_values={"objective": [""], "bound": [""]})
        except (ValueError, OSError) as error:
            raise InputError(f"{path} is no readable CSV ({str(error)[:100]})") from None
        if tuple(frame.columns) != HEADINGS:
            raise InputError(f"{path} must have the columns {', '.join(HEADINGS)}")
        made = {}
        for record in frame.to_dict("records"):
            for name in ("objective", "bound"):
                if not isinstance(record[name], float | int):
                    raise InputError(f"{path}: {name} of {record['instance']} is {record[name]!r}, which is no number")
                record[name] = None if pd.isna(record[name]) else float(record[name])
            made[record["fingerprint"]] = Entry(**{str(name): value for name, value in record.items()})
        return cls(made)

    def of(self, fingerprint: str) -> Entry | None:
        """What is known of an instance."""
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
            if entry.bound > entry.objective + max(ROUNDING, BETTER) * max(abs(entry.objective), abs(entry.bound)):
                found.append(
                    f"{entry.instance}: {entry.bound_by} claims the bound {entry.bound:.12g}, but {entry.objective_by} has "
                    f"a checked answer of {entry.objective:.12g}"
                )
        return found

    def write(self, path: str | Path) -> list[str]:
        """Write the table, whole or not at all, sorted so that versions can be compared line by line."""
        frame = self.to_frame().sort_values(["problem", "family", "instance"], kind="stable")
        write_text(path, frame.to_csv(index=False, lineterminator="\n", float_format="%.12g"))
        return list(self.changed)

    def to_frame(self) -> pd.DataFrame:
        """The table as it is written."""
        import pandas as pd

        rows = [{name: getattr(entry, name) for name in HEADINGS} for entry in self.entries.values()]
        return pd.DataFrame(rows, columns=list(HEADINGS))


def _slack(value: float) -> float:
    return BETTER * abs(value)
