"""The checkpoint of a front: one JSON file, replaced in one step after every finished point."""

from __future__ import annotations

import dataclasses
import glob
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from keyshift.catalogue.method import Trade
from keyshift.fronts.tracing import TracedPoint
from keyshift.models import Answer, InputError, Problem
from keyshift.models.files.problem import problem_fingerprint
from keyshift.models.files.schema import Count, FileFormat, FileModel, Whole, Wholes, naming
from keyshift.models.files.writing import only_writer
from keyshift.replays.checkpoint import fingerprint

Limit = int | float | str | None
"""A limit as JSON holds it: a fraction is a text."""


class PointPart(FileModel):
    """A finished point: its limit on the second objective, and what was found."""

    limit: Limit
    assignment: Wholes
    bound: float | None
    termination: str
    seconds: float


class AboutPart(FileModel):
    """Whose front it is."""

    keyshift_pareto: int | None = None
    workload: Annotated[str, Field(description="SHA-256 of the data, or of the whole problem")]
    against: str
    limit: Limit
    points: Count | None
    seed: Whole | None = None


class FrontFile(FileFormat, kind="keyshift-front", newest=3, bare=True, verified=("points",)):
    """The checkpoint of a front."""

    about: AboutPart
    points: list[PointPart]
    digest: Annotated[str | None, Field(description="SHA-256 of the points; version 1 had none")] = None

    @classmethod
    def todays(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Versions 1 and 2 are about the front of MCLB alone, and called its limit by its name."""
        about, points = content.get("about"), content.get("points")
        if content["version"] >= 3 or not isinstance(about, dict) or not isinstance(points, list):
            return content
        return {
            **content,
            "about": {"against": "state-moved", **_renamed(about)},
            "points": list(map(_renamed, points)),
        }


def _renamed(part: Any) -> Any:
    old = "max_state_moved"
    return {"limit" if name == old else name: v for name, v in part.items()} if isinstance(part, dict) else part


class FrontCheckpoint:
    """The finished points in a file. They are checked anew when read; only their bounds are taken on trust."""

    def __init__(self, problem: Problem, trade: Trade, file: Path | None, points: int | None, seed: int) -> None:
        self.problem, self.trade, self.file = problem, trade, file
        self.about = {
            # Of MCLB the workload and the limit are all there is: files of earlier versions stay valid.
            "workload": fingerprint(problem.workload) if problem.name == "mclb" else problem_fingerprint(problem),  # type: ignore[attr-defined]
            "against": trade.name,
            "limit": self._limit(problem),
            "points": points,
            "seed": seed,
        }
        self.points: list[TracedPoint] = []
        self.one_at_a_time = threading.Lock()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Read what is there, and keep other runs out."""
        if self.file is None:
            yield
            return
        if self.file.is_dir():
            raise InputError(f"{self.file} is a folder, not a file for checkpoints")
        if not self.file.absolute().parent.is_dir():
            raise InputError(f"{self.file}: the folder {self.file.absolute().parent} does not exist")
        with only_writer(self.file.with_name(f".{self.file.name}.lock"), str(self.file)):
            for left in self.file.absolute().parent.glob(f".{glob.escape(self.file.name)}-*.part"):
                left.unlink(missing_ok=True)  # of a killed run
            if self.file.exists() or self.file.is_symlink():
                self.points = [self._read(record) for record in self._records(self.file)]
            yield

    def _records(self, file: Path) -> list[PointPart]:
        content = FrontFile.read(file)
        for name, mine in self.about.items():
            theirs = getattr(content.about, name)
            if theirs != mine and not (name == "seed" and theirs is None):  # version 1 did not say it
                raise InputError(f"{file} holds a front with another {name}")
        return content.points

    def _read(self, record: PointPart) -> TracedPoint:
        posed = dataclasses.replace(self.problem, **{self.trade.limit: record.limit})  # type: ignore[type-var]
        with naming(str(self.file)):
            report = posed.check(record.assignment)
        if not report.feasible:
            raise InputError(f"{self.file} holds a point that breaks a rule: {report.violations[0]}")
        if record.bound is not None and not record.bound <= report.objective + posed.tolerance:
            raise InputError(f"{self.file} holds a bound of {record.bound:g} for a point worth {report.objective:g}")
        answer = Answer(posed.canonical(record.assignment), record.bound, record.termination)  # type: ignore[arg-type]
        return TracedPoint(posed, answer, record.seconds)

    def _limit(self, problem: Problem) -> Limit:
        value = getattr(problem, self.trade.limit)
        return str(value) if isinstance(value, Fraction) else value

    def keep(self, point: TracedPoint) -> None:
        """Take note of a finished point, and write all of them down."""
        with self.one_at_a_time:
            self.points = [*self.points, point]
            if self.file is None:
                return
            records = [
                PointPart.content(p.answer, limit=self._limit(p.problem), seconds=p.seconds) for p in self.points
            ]
            FrontFile.write(self.file, {"about": self.about, "points": records})
