"""study: instances x methods x seeds, each solved in its own process, and the table of results."""

from __future__ import annotations

import json
import operator
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from keyshift.catalogue import FORMULATIONS, formulation_of, registered
from keyshift.catalogue.families import family, family_of
from keyshift.files.problem import problem_fingerprint
from keyshift.models import InputError, Problem
from keyshift.models.answer import GAP, TIME_LIMIT
from keyshift.models.base.disk import digest, make_folder, only_writer, read_json, write_text
from keyshift.models.base.guards import real, whole
from keyshift.models.base.lazily import pd
from keyshift.models.base.schema import FileModel, Finite, Whole, validated
from keyshift.studies.tables import BestKnown, gap_table, latex_table, profile_table, summary_table, write_study_report
from keyshift.studies.tasks import Guard, GuardedPool, Row, SolveTask, run_on_spark

if TYPE_CHECKING:
    from keyshift.figures.notebook_figure import Figure


Instances = str | Mapping[str, Problem] | Iterable[tuple[str, Problem]]


@dataclass(frozen=True)
class StudyProgress:
    """The progress of a study.

    Attributes
    ----------
    done, taken : int
        Solves that have ended in this run or before, and how many of them an earlier run made.
    expected : int or None
        The expected number of solves, from the solves per instance so far; None if the number of instances is unknown.
    seconds : float
        Of this run.
    """

    done: int
    taken: int
    expected: int | None
    seconds: float

    @property
    def left(self) -> float | None:
        """Estimated seconds left, from the pace of this run; None before the first solve has ended."""
        made = self.done - self.taken
        return None if self.expected is None or made == 0 else self.seconds / made * (self.expected - self.done)


@dataclass(frozen=True)
class Study:
    """The result of `study`: a row for every solve, whether or not it found an answer.

    Attributes
    ----------
    rows : tuple of dict
        In the order of instances, methods and seeds, in whatever order they ran.
    known : BestKnown
        The table of best known answers that was given; empty if none was.
    """

    rows: tuple[Row, ...]
    known: BestKnown

    def to_frame(self) -> pd.DataFrame:
        """One row a solve.

        Returns
        -------
        DataFrame
            ``best_known`` is the least objective and ``best_bound`` the highest bound on that instance, of this
            study and of the table of best known answers. ``gap_abs`` is objective - best_bound in the objective's unit,
            ``gap`` the same as a share of the objective, ``gap_of_scale`` as a share of `Problem.scale` (the mean load, all
            the state, all the traffic); both are 0 for a proven optimum, which may be nearly 0 itself. An answer
            that breaks rules has no objective: its value is ``offered``, and ``violations`` says how many rules,
            ``worst_violation`` which.
        """
        return gap_table(self.rows, self.known)

    def summary(self, seed: int = 0, by: str = "family") -> pd.DataFrame:
        """A table with a row for each family and method: solves, how they ended, gaps with a bootstrap interval, wins, times.

        Parameters
        ----------
        seed : int, default 0
            Of the bootstrap.
        by : {"family", "problem", "instance"}, default "family"
            What the solves are grouped by: "problem" summarises over all families.
        """
        return summary_table(self.to_frame(), seed, by)

    def profile(self, over: str = "time") -> pd.DataFrame:
        """The performance profile of Dolan and More (2002): on what share of the instances a method is within a factor.

        Parameters
        ----------
        over : {"time", "objective", "gap"}
            "objective": an objective within ``factor`` times the best that any method found. "time": within ``factor``
            times the seconds of the fastest method that reached the best objective, for methods that reached it.
            "gap": a gap of at most ``factor``.

        Returns
        -------
        DataFrame
            Columns ``problem``, ``method``, ``factor``, ``share``: a step for each value that occurs.
        """
        return profile_table(self.to_frame(), over)

    def contradictions(self) -> list[str]:
        """Bounds that lie above a checked objective of the same instance, one sentence each. Each is a defect."""
        return self.known.contradictions(self.rows)

    def improvements(self) -> list[str]:
        """Improvements on the table of best known answers, one sentence each."""
        return list(self.known.updated(self.rows).changed)

    def update_best(self, path: str | Path) -> list[str]:
        """Write the improvements of this study into the table of best known answers, and return them."""
        return self.known.updated(self.rows).write(path)

    def plot(self, path: str | Path | None = None, width: float = 88.0) -> Figure:
        """Draw the performance profile over objectives and the profile of gaps of each problem, with a line for every method.

        Parameters
        ----------
        path : str or Path, optional
            Where to write it: .pdf and .svg are vectors, .png is not.
        width : float, default 88
            In millimetres: a column of a paper.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from keyshift.figures.comparison import study_figure

        profiles = {over: self.profile(over) for over in ("objective", "gap")}
        return study_figure(profiles, self.to_frame(), path, real("width", width, above=True, optional=False))

    def to_latex(self, by: str = "family") -> str:
        """The summary as a LaTeX table for the package booktabs, its columns explained in a comment above it."""
        return latex_table(self.summary(by=by), by)

    def report(self, path: str | Path, title: str = "A study") -> None:
        """Write one self-contained HTML page: profiles, gaps, the worst instances by name, every number."""
        curves = {measure: self.profile(measure) for measure in ("time", "objective", "gap")}
        write_study_report(self.to_frame(), self.summary(), curves, path, title)

    def __repr__(self) -> str:
        instances = len({row["instance"] for row in self.rows})
        return f"<Study: {len(self.rows)} solves on {instances} instances>"


def study(
    instances: Instances,
    methods: str | Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    seeds: Sequence[int] = (0,),
    time_limit: float | None = TIME_LIMIT,
    out: str | Path | None = None,
    workers: int = 1,
    spark: Any = None,
    *,
    gap: float = GAP,
    memory: float | None = None,
    patience: float = 60.0,
    best_known: str | Path | None = None,
    watch: Callable[[StudyProgress], None] | None = None,
    family: str | Mapping[str, str] | None = None,
    effort: float | None = None,
    **options: Any,
) -> Study:
    """Run methods on many instances.

    Parameters
    ----------
    instances : mapping of str to Problem, iterable of (str, Problem), or str
        Names and problems, which may be of different kinds, such as those that `family` draws. A str is the name of a
        family.
    methods : str, sequence of str, or mapping of str to sequence of str, optional
        None: every method of each problem. A sequence: those among them that a problem has. A mapping: the methods of
        each problem, by its name.
    seeds : sequence of int, default (0,)
        Every method runs once with each.
    time_limit : float or None, default 60.0
        Seconds for each solve; None: no limit.
    out : path, optional
        A folder with one file a result. A study that was killed continues where it stopped.
    workers : int, default 1
        Processes on this machine. Even a single worker is a separate process, so that a solve that crashes does not end
        the study.
    spark : SparkSession, optional
        Run the solves as tasks of a Spark job, on any master, in place of `workers`.
    gap : float, default 1e-4
        As in `solve`.
    memory : float, optional
        The largest address space of a process, in GiB; a method that needs more ends in a row that says so.
    patience : float, default 60
        A solve is killed this many seconds after one and a half times its limit; a unit of effort counts as a second.
    best_known : path, optional
        A table of best known answers to compare with.
    watch : callable, optional
        Called with a `StudyProgress` after every solve.
    family : str, or mapping of str to str, optional
        The family of all instances, or of each by its name. None: the family that it was drawn from, else the part of
        its name before "/", else its problem.
    effort : float, optional
        As in `solve`: limits work instead of seconds, so that rows are the same with any number of workers.
    **options
        Passed to every method that has an option of that name.

    Returns
    -------
    Study

    Raises
    ------
    InputError
        Before anything is run: for unknown methods and options, bad limits, two instances with the same name, a folder
        with another study.
    """
    effort = real("effort", effort)
    limit = real("time_limit", time_limit if effort is None else None)
    guard = Guard(limit, real("patience", patience, optional=False), real("memory", memory), effort)
    share = real("gap", gap, optional=False)
    chosen = _Methods(methods, options)
    numbers = [whole("seeds", seed, optional=False) for seed in seeds]
    workers = whole("workers", workers, least=1, most=1024, optional=False)
    known = BestKnown.read(best_known) if best_known is not None else BestKnown()
    asked = {
        "time_limit": guard.time_limit,
        "memory": guard.memory,
        "options": {k: repr(v) for k, v in options.items()},
        **({"gap": share} if share else {}),
        **({} if effort is None else {"effort": effort}),
    }
    results = ResultFolder(None if out is None else Path(out), asked)
    drawn = _Tasks(instances, chosen, numbers, guard.time_limit, share, effort, results, family)
    began = time.perf_counter()
    with results.locked(), ExitStack() as stack:
        if spark is None:
            finished = stack.enter_context(GuardedPool(workers, guard)).run(drawn)
        else:
            finished = run_on_spark(drawn, spark, guard)
        told = 0

        def tell() -> None:
            nonlocal told
            if watch is not None:
                told = len(results.rows)
                watch(StudyProgress(told, drawn.taken, drawn.expected, time.perf_counter() - began))

        for task, row in finished:
            results.put(task.key, row)
            tell()
        if 0 < told < len(results.rows):  # results that were known followed the last that was made
            tell()
    return Study(tuple(results.rows[key] for key in drawn.keys), known)


class _Methods:
    """Which methods run on a problem, with which options."""

    def __init__(
        self, asked: str | Sequence[str] | Mapping[str, Sequence[str]] | None, options: Mapping[str, Any]
    ) -> None:
        asked = [asked] if isinstance(asked, str) else asked
        self.asked, self.options = asked, options
        all_names = {m.name for f in FORMULATIONS.values() for m in f.methods}
        if isinstance(asked, Mapping) and (unknown := set(asked) - set(FORMULATIONS)):
            said = "a mapping gives the methods of each problem, and no problem is called"
            raise InputError(f"methods: {said} {min(unknown)!r}; there are {', '.join(FORMULATIONS)}")
        named = [n for names in asked.values() for n in names] if isinstance(asked, Mapping) else list(asked or [])
        for name in named:
            if callable(name):
                raise InputError(
                    f"{name!r:.60} is a function: register it (`keyshift.catalogue.register`) and give its name"
                )
            if name not in all_names:
                raise InputError(f"no problem has a method {name!r}; see `keyshift methods`")

    def of(self, problem: Problem) -> list[tuple[str, dict[str, Any]]]:
        """Names with the options that they take."""
        known = formulation_of(problem).methods
        wanted = self.asked.get(problem.name) if isinstance(self.asked, Mapping) else self.asked
        taken = [m for m in known if wanted is None or m.name in wanted]
        if not taken:
            raise InputError(f"{problem.name} has none of the methods {', '.join(wanted or ())}")
        own = {m.name: {k: v for k, v in self.options.items() if k in m.options} for m in taken}
        for name in self.options:
            if not any(name in o for o in own.values()):
                raise InputError(f"none of the methods of {problem.name} has an option {name!r}")
        return [(m.name, m.checked(own[m.name])) for m in taken]


class _Tasks:
    """The tasks of a study that have no result yet, drawn one by one."""

    def __init__(
        self, instances: Instances, methods: _Methods, seeds: list[int], limit: float | None, gap: float,
        effort: float | None, results: ResultFolder, groups: str | Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        if isinstance(instances, str):
            instances = family(instances)
        self.groups = groups
        self._pairs = iter(instances.items() if isinstance(instances, Mapping) else instances)
        self._to_come = operator.length_hint(instances, -1)
        self.methods, self.seeds, self.limit, self.gap, self.results = methods, seeds, limit, gap, results
        self.effort = effort
        self.keys: list[str] = []
        self.instances, self.solves, self.taken = 0, 0, 0

    @property
    def expected(self) -> int | None:
        """Solves in all, as far as one can tell."""
        if self._to_come < 0 or self.instances == 0:
            return None
        return round(self.solves * max(self._to_come, self.instances) / self.instances)

    def _group(self, name: str, problem: Problem) -> str:
        if isinstance(self.groups, str):
            return self.groups
        if self.groups is not None and name not in self.groups:
            raise InputError(f"family has no entry for the instance {name!r:.60}")
        return str(self.groups[name]) if self.groups is not None else family_of(name) or problem.name

    def __iter__(self) -> Iterator[SolveTask]:
        seen: set[str] = set()
        for name, problem in self._pairs:
            if not isinstance(name, str) or not isinstance(problem, Problem):
                raise InputError("instances must be pairs of a name and a problem")
            if name in seen:
                raise InputError(f"two instances are called {name!r}")
            seen.add(name)
            mark = problem_fingerprint(problem)
            chosen = self.methods.of(problem)
            self.instances, self.solves = self.instances + 1, self.solves + len(chosen) * len(self.seeds)
            for method, options in chosen:
                group, own = self._group(name, problem), registered(problem.name, method)
                for seed in self.seeds:
                    about = (name, group, problem, mark, method, seed)
                    task = SolveTask(*about, self.limit, self.gap, options, own, self.effort)
                    self.keys.append(task.key)
                    if self.results.has(task.key):
                        self.taken += 1
                    else:
                        yield task


# A study's folder: what was asked, and one file for each result, so that a killed study goes on where it stopped.

ASKED, RESULTS, VERSION = "study.json", "results", 1


class StudyFile(FileModel):
    """The settings of a study."""

    version: Annotated[int, Field(ge=1, le=VERSION)]
    time_limit: Finite | None
    memory: Finite | None
    options: dict[str, str]
    gap: Finite = 0.0
    effort: Finite | None = None


class ResultFile(FileModel):
    """A row: the outcome of one solve. Its file is named after the task and has no version: a row of another is made anew."""

    instance: str
    family: str
    problem: str
    fingerprint: str
    method: str
    kind: str
    seed: Whole
    status: str
    termination: str
    objective: Finite | None
    bound: Finite | None
    tolerance: Finite
    scale: Finite | None = None
    offered: Finite | None
    violations: Whole
    worst_violation: str | None
    same_problem: bool
    seconds: Finite
    wall: Finite
    message: str
    metrics: dict[str, Finite | None]
    assignment: list[Any] | None


class ResultFolder:
    """Where a study keeps its rows; without a folder, in memory.

    Parameters
    ----------
    folder : Path or None
    asked : dict
        What must be the same for results to be taken over: limits and options.
    """

    def __init__(self, folder: Path | None, asked: dict[str, Any]) -> None:
        self.folder, self.asked = folder, {"version": VERSION, **asked}
        self.rows: dict[str, Row] = {}
        if folder is None:
            return
        make_folder(folder / RESULTS)
        known = folder / ASKED
        if not os.path.lexists(known):
            write_text(known, json.dumps(self.asked, sort_keys=True) + "\n")
            return
        found = _read(known, StudyFile)
        differ = [name for name in {**self.asked, **found} if digest(found.get(name)) != digest(self.asked.get(name))]
        if differ:
            raise InputError(f"{folder} holds a study with other settings ({', '.join(differ)}): choose another folder")

    def locked(self) -> AbstractContextManager[None]:
        """Refuse a second study in the same folder while this one runs."""
        return nullcontext() if self.folder is None else only_writer(self.folder, str(self.folder))

    def has(self, key: str) -> bool:
        """Whether the result of a task is there and complete."""
        if key not in self.rows and self.folder is not None:
            file = self._file(key)
            if os.path.lexists(file):
                self.rows[key] = _read(file, ResultFile)
        return key in self.rows

    def put(self, key: str, row: Row) -> None:
        """Keep a row; its file appears whole or not at all."""
        if self.folder is not None:
            write_text(self._file(key), json.dumps(row, allow_nan=False) + "\n")
        self.rows[key] = row

    def _file(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / RESULTS / f"{key}.json"


def _read(file: Path, schema: type[Any]) -> dict[str, Any]:
    try:
        content: dict[str, Any] = read_json(file, 64 * 2**20)
        validated(schema, content, str(file))
    except InputError as error:
        raise InputError(f"{error}: remove it, and the study makes it anew") from None
    return content
