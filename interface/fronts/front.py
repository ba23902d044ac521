"""Front and pareto: the trade-off between a problem's two objectives, as a front of checked solutions."""

from __future__ import annotations

import glob
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from keyshift.catalogue import FORMULATIONS, find_method, formulation_of
from keyshift.catalogue.method import Trade
from keyshift.figures.comparison import front_figure
from keyshift.files.problem import problem_fingerprint
from keyshift.fronts.tracing import TracedPoint, Tracer, as_solution, find_trade
from keyshift.models import Answer, Budget, InputError, Problem, Solution
from keyshift.models.answer import GAP, TIME_LIMIT, Progress
from keyshift.models.base.disk import only_writer
from keyshift.models.base.figures import figure, percent
from keyshift.models.base.guards import real, whole
from keyshift.models.base.lazily import pd
from keyshift.models.base.schema import Count, FileFormat, FileModel, Whole, Wholes
from keyshift.models.errors import naming
from keyshift.replays.results import fingerprint
from keyshift.solving import MOST_SEED, interruptible, make_ready
from keyshift.terminal import printed, table
from keyshift.terminal import progress as showing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class Distance:
    """How far a solution is from a front.

    Attributes
    ----------
    imbalance : float
        The objective (for `MCLB`, the imbalance) minus that of the best front point that costs no more. It is negative only
        if the solution lies between two points of a coarse front and beats the cheaper one: pass it in `starts`.
    state_moved : float or None
        The second objective minus that of the cheapest front point that is at least as good; None if
        no point is as good.
    relative : float
        Euclidean distance to the nearest front point, with both axes scaled to the extent of the front.
    """

    imbalance: float
    state_moved: float | None
    relative: float

    @property
    def objective(self) -> float:
        """Another name of `imbalance`, which suits every front."""
        return self.imbalance

    @property
    def second(self) -> float | None:
        """Another name of `state_moved`, which suits every front."""
        return self.state_moved


@dataclass(frozen=True)
class Front:
    """The solutions of a front, ordered by the second objective; none dominates another. It prints as a table.

    Attributes
    ----------
    problem : Problem
    solutions : tuple of Solution
        Each answers the problem with a different limit on the second objective, and has its own bound and gap.
    trade : Trade
        What the second objective is.
    """

    problem: Problem
    solutions: tuple[Solution, ...]
    trade: Trade

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, position: int) -> Solution:
        return self.solutions[position]

    @property
    def second(self) -> np.ndarray:
        """The second objective of each point in ascending order, shape (points,)."""
        return np.array([s.metrics[self.trade.metric] for s in self.solutions])

    @property
    def objective(self) -> np.ndarray:
        """The problem's own objective of each point in descending order, shape (points,)."""
        return np.array([s.objective for s in self.solutions], dtype=float)

    @property
    def state_moved(self) -> np.ndarray:
        """State moved by each point, shape (points,)."""
        return np.array([s.metrics["state_moved"] for s in self.solutions])

    @property
    def imbalance(self) -> np.ndarray:
        """Another name of `objective`, as `MCLB` calls it."""
        return self.objective

    def hypervolume(self, reference: tuple[float, float] | None = None) -> float:
        """The area that the front dominates, up to a reference point (second objective, objective).

        Parameters
        ----------
        reference : (float, float), optional
            By default the extremes of the front itself; its end points then contribute no area.
        """
        if not self.solutions:
            return 0.0
        right, top = reference or (float(self.second[-1]), float(self.objective[0]))
        ends = np.minimum(np.append(self.second[1:], right), right)
        widths = np.maximum(ends - np.minimum(self.second, right), 0.0)
        return float((widths * np.maximum(top - self.objective, 0.0)).sum())

    def knee(self) -> Solution:
        """The point farthest below the straight line between the extremes, both axes scaled to the front's extent."""
        if len(self.solutions) < 3:
            return self.solutions[-1]
        x, y = self._scaled(self.second, self.objective)
        return self.solutions[int(np.argmin(x + y))]

    def distance(self, solution: Solution) -> Distance:
        """How far a solution of the same problem, with any budget, is from the front."""
        self.refuse_other_problem(solution)
        if solution.assignment is None or solution.objective is None:
            raise InputError(f"the solution holds no assignment: {solution!r}")
        moved, value = solution.metrics[self.trade.metric], solution.objective
        cheaper = self.objective[self.second <= moved * (1 + 1e-9)]
        balanced = self.second[self.objective <= value + self.problem.tolerance]
        x, y = self._scaled(self.second, self.objective)
        u, v = self._scaled(np.array([moved]), np.array([value]))
        return Distance(
            imbalance=value - float(cheaper.min(initial=np.inf)),
            state_moved=max(0.0, moved - float(balanced.min())) if balanced.size else None,
            relative=float(np.hypot(x - u, y - v).min()),
        )

    def refuse_other_problem(self, solution: Solution) -> None:
        """Raise `InputError` for an answer to another problem, for which the front is no bound."""
        asked, front = solution.problem, self.problem
        if type(asked) is not type(front):
            raise InputError(f"the solution answers {asked.name}, the front belongs to {front.name}")
        mine, theirs = getattr(front, "workload", None), getattr(asked, "workload", None)
        if mine is None or theirs is None:
            if problem_fingerprint(_free(asked, self.trade)) != problem_fingerprint(_free(front, self.trade)):
                raise InputError("the solution answers another problem than the front's")
            return
        for name in ("load", "state", "current", "draining"):
            if not np.array_equal(getattr(theirs, name), getattr(mine, name)):
                raise InputError(f"the solution answers another workload than the front's: {name} differs")

    def _scaled(self, moved: np.ndarray, imbalance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        width = float(np.ptp(self.second)) or 1.0
        height = float(np.ptp(self.objective)) or 1.0
        return (moved - self.second[0]) / width, (imbalance - self.objective[-1]) / height

    def to_frame(self) -> pd.DataFrame:
        """A table with a row for each point: both objectives, bound, gap, status, seconds."""
        first = "imbalance" if self.problem.name == "mclb" else "objective"
        rows = [
            {
                self.trade.metric: s.metrics[self.trade.metric], "share_moved": s.metrics.get("share_moved"),
                first: s.objective, "bound": s.bound, "gap": s.gap, "status": s.status, "seconds": s.seconds,
            }
            for s in self.solutions
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def to_table(self) -> Table:
        """The same as a Rich table."""
        scale = self.problem.scale
        numbers = [self.trade.label, self.problem.objective_name, "bound", "gap (% of objective)"]
        rows = (
            (figure(s.metrics[self.trade.metric]), figure(s.objective, scale), figure(s.bound or 0.0, scale), percent(s.gap),
             s.status, f"{s.seconds:.2f}")
            for s in self.solutions
        )  # fmt: skip
        title = f"{self.problem.name}: {self.problem.objective_name} against {self.trade.label}"
        near = any(s.termination == "gap" and s.status == "feasible" for s in self.solutions)
        said = "feasible points may be within the gap asked for; a gap of 0 asks for proofs" if near else None
        return table([*numbers, "status", "seconds"], rows, right=[*numbers, "seconds"], title=title, caption=said)

    def plot(self, path: str | Path | None = None, others: Sequence[Solution] = ()) -> Figure:
        """Draw the front with its bounds, and other solutions beside it.

        Parameters
        ----------
        path : str or Path, optional
            Also write the figure there.
        others : sequence of Solution
            Heuristics' answers, labelled by method.
        """
        for solution in others:
            self.refuse_other_problem(solution)
        return front_figure(self.problem, self.trade, list(self), path, others)

    def __str__(self) -> str:
        return printed(self.to_table(), 120)


def pareto(
    problem: Problem,
    points: int | None = 10,
    *,
    against: str | None = None,
    time_limit: float | None = TIME_LIMIT,
    gap: float = GAP,
    seed: int = 0,
    workers: int = 1,
    starts: Sequence[Any] = (),
    checkpoint: str | Path | None = None,
    watch: Callable[[Progress], None] | None = None,
    progress: bool = True,
) -> Front:
    """Trace a problem's Pareto front.

    Parameters
    ----------
    problem : Problem
        A problem with a second objective. If the problem already limits it, the front ends at that limit.
    points : int or None, default 10
        Number of points, at most 10,000, evenly spaced in the second objective and including the extremes; None: every
        point of the front.
    against : str, optional
        The second objective. `MCLB`: "state-moved"; `KeyGroupAllocation`: "migrations" (the default) or "state-moved";
        `CollocatedAllocation`: "migrations"; `MixedRouting`: "table-size" or "theta"; `IntervalMigration`: "tau";
        `KeySplitting`: "counters", one point for each number of choices.
    time_limit : float or None, default 60.0
        Seconds for the whole front; None: no limit. An unfinished point has the bound that was reached.
    gap : float, default 1e-4
        For each point, as in `solve`.
    seed : int, default 0
    workers : int, default 1
        Points solved at a time, for `MCLB`. With a time limit, more than one may change what is found.
    starts : sequence of array_like or Solution
        Known assignments, such as heuristics' answers. The state that each of them moves is used as a budget, too, so
        that no point of the front is worse than one of them.
    checkpoint : str or Path, optional
        A .json file that each finished point is written to, and from which an interrupted run continues. Two runs
        cannot write to the same file at the same time.
    watch : callable, optional
        Called with a `Progress` while it runs.
    progress : bool, default True
        As in `solve`.

    Returns
    -------
    Front
        Each point is a checked `Solution` with its bound and gap; no point is dominated by another.

    Raises
    ------
    InputError
        For a problem without a second objective, a bad number, or a checkpoint of another problem.
    """
    trades = formulation_of(problem).trades
    if not trades:
        having = ", ".join(name for name, f in FORMULATIONS.items() if f.trades)
        raise InputError(f"{problem.name} has no front to trace; these have: {having}")
    trade = find_trade(trades, against, problem.name)
    points = whole("points", points, least=2, most=10_000)  # more than a figure can show
    workers = whole("workers", workers, least=1, most=1024, optional=False)
    seed = whole("seed", seed, most=MOST_SEED, optional=False)
    limit, share = real("time_limit", time_limit), real("gap", gap, optional=False)
    known = [problem.canonical(s.assignment if isinstance(s, Solution) else s) for s in starts]
    memory = FrontCheckpoint(problem, trade, None if checkpoint is None else Path(checkpoint), points, seed)
    with memory.open(), showing(f"{problem.name}: the front", limit, watch, progress) as watching:
        make_ready(problem, find_method(problem, None), None)
        budget = Budget(limit, watching, share)
        with interruptible(budget.interrupt):
            tracer = Tracer(problem, trade, budget, seed, memory.keep, memory.points, known, workers)
            made = tracer.run(points)
    return Front(problem, tuple(as_solution(point) for point in made), trade)


def _free(problem: Problem, trade: Trade) -> Problem:
    """The problem without the limit that a front varies."""
    return problem.changed(**{trade.limit: None})


# The checkpoint of a front: one JSON file, replaced in one step after every finished point ---------------------------


Limit = int | float | str | None
"""A limit as JSON holds it: a fraction is a text."""


class PointPart(FileModel):
    """A finished point: its limit on the second objective, and the answer under it."""

    limit: Limit
    assignment: Wholes
    bound: float | None
    termination: str
    seconds: float


class AboutPart(FileModel):
    """The problem of the front."""

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
        about = {"against": "state-moved", **_renamed(about)}
        return {**content, "about": about, "points": list(map(_renamed, points))}


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
        posed = self.problem.changed(**{self.trade.limit: record.limit})
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
        """Add a finished point and write the file anew."""
        with self.one_at_a_time:
            self.points = [*self.points, point]
            if self.file is None:
                return
            limits = [(p, self._limit(p.problem)) for p in self.points]
            records = [PointPart.content(p.answer, limit=limit, seconds=p.seconds) for p, limit in limits]
            FrontFile.write(self.file, {"about": self.about, "points": records})
