"""keyshift study, families, generate, reproduce: methods on whole families of instances, and the papers' figures again."""

from __future__ import annotations

import itertools
import json
import operator
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box

from keyshift.catalogue.families import Draw, Family, find_family, is_instance
from keyshift.catalogue.families import families as listed
from keyshift.catalogue.families import family as draw
from keyshift.catalogue.method import flag, read_option
from keyshift.commands import common
from keyshift.commands.own import RULES, generator, once, parameters, read_own, read_rules
from keyshift.models import BoundError, InputError, Problem, Workload
from keyshift.models.answer import GAP, TIME_LIMIT, Progress
from keyshift.models.base.disk import write_file
from keyshift.models.base.figures import figure
from keyshift.models.base.lazily import pd
from keyshift.models.rules import Rule
from keyshift.terminal import table

if TYPE_CHECKING:
    from rich.table import Table


def study(
    context: typer.Context,
    family: Annotated[
        list[str], typer.Argument(help="Families to draw from, or instances by name; see `keyshift families`.")
    ],
    rules: Annotated[list[str] | None, typer.Option(metavar=RULES["rules"][0], help=RULES["rules"][1])] = None,
    rule: Annotated[list[str] | None, typer.Option(metavar=RULES["rule"][0], help=RULES["rule"][1])] = None,
    count: Annotated[int, typer.Option(help="Instances for each choice of parameters.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first instance.")] = 0,
    method: Annotated[list[str] | None, typer.Option("--method", "-m", help="May be repeated; default: all.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of every method, with seeds 0, 1, ...")] = 1,
    time_limit: common.TimeOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    effort: common.EffortOption = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the results; a killed study continues there.")] = None,
    workers: Annotated[int, typer.Option(help="Processes of this machine.")] = 1,
    spark: Annotated[str | None, typer.Option(help="Run on this Spark master instead, such as local[4].")] = None,
    memory: Annotated[float | None, typer.Option(help="GiB for each solve.")] = None,
    best: Annotated[Path | None, typer.Option(help="A table of best known answers to compare with.")] = None,
    update_best: Annotated[bool, typer.Option("--update-best", help="Write improvements into that table.")] = False,
    report: Annotated[Path | None, typer.Option(help="Also write a page (.html).")] = None,
) -> common.Response:
    """Solve many instances by many methods. A family's parameters are options; 20,40 stands for both values.

    --rules and --rule add rules to every instance.
    """
    if update_best and best is None:
        raise InputError("--update-best needs --best FILE")
    common.expect_places(report, best if update_best else None)
    instances = _drawn(family, count, seed, context.obj, read_rules(rules or (), rule or ()))
    with _session(spark) as session, common.progress("study") as watch:
        from keyshift.studies.study import Study, StudyProgress
        from keyshift.studies.study import study as run
        from keyshift.studies.tables import BestKnown

        taken = 0

        def tell(now: StudyProgress) -> None:
            nonlocal taken
            taken = now.taken
            left = "" if now.left is None else f", about {now.left:,.0f} s to go"
            watch(Progress(note=f"{now.done:,} of {now.expected or '?'} solves{left}"))

        done = run(
            instances, method or None, range(seeds), time_limit, out, workers, session, gap=gap, memory=memory,
            best_known=best, watch=tell, effort=effort,
        )  # fmt: skip
    if wrong := done.contradictions():
        said = "; ".join(wrong[:3])
        if not Study(done.rows, BestKnown()).contradictions():
            raise InputError(f"{best} contradicts what was found: {said}")
        if taken:
            raise InputError(f"{out} holds results that contradict others, so one of its files was changed: {said}")
        raise BoundError(said)
    better = done.update_best(best) if update_best and best is not None else done.improvements()
    if report is not None:
        done.report(report, " ".join(family))
    summary = done.summary()
    record = {"summary": summary.to_dict("records"), "solves": done.to_frame().to_dict("records"), "improved": better}
    shown = [
        summary_as_table(summary, common.console().width),
        *(f"better than known: {sentence}" for sentence in better),
    ]
    return common.Response(record, shown, any(row["objective"] is not None for row in done.rows))


def _drawn(
    names: list[str], count: int, seed: int, own: Mapping[str, Sequence[str]], rules: list[Rule]
) -> Iterator[tuple[str, Problem]]:
    """The instances, the parameters going to every family that has them."""
    functions = {name: find_family(name) for name in names if not is_instance(name)}
    given: dict[str, dict[str, Any]] = {name: {"count": count, "seed": seed} for name in functions}
    for parameter, value in once(own):
        for name, drawn in functions.items():
            if parameter in drawn.parameters:
                parts = [value] if "[" in value else value.split(",")
                given[name][parameter] = [read_option(drawn.function, parameter, part) for part in parts]
    draws = [draw(name, rules=rules, **given.get(name, {})) for name in names]
    return Draw(itertools.chain.from_iterable(draws), sum(map(operator.length_hint, draws)))


def _session(master: str | None) -> AbstractContextManager[Any]:
    """A Spark session on a master, and its end; nothing without one."""
    if master is None:
        return nullcontext()
    from keyshift.spark_stats.session import local_session

    return local_session("keyshift study", master=master)


GAPS = """Gaps to the best bound, in percent of the objective;
of scale: in percent of the mean load, all state or all traffic"""


def summary_as_table(summary: pd.DataFrame, width: int) -> Table:
    """A Rich table, a block for each family; on a terminal of 140 columns and more with every figure.

    Parameters
    ----------
    summary : DataFrame
        As `Study.summary` gives it.
    width : int
        Columns of the terminal.
    """
    counts = ["proven", "wins"] + (["broke_rules", "failed"] if width >= 140 else [])
    gaps = {"gap_mean": "mean", "gap_low": "from", "gap_high": "to", "gap_median": "median", "gap_worst": "worst"}
    gaps = gaps if width >= 140 else {name: gaps[name] for name in ("gap_mean", "gap_worst")}
    gaps["gap_of_scale_mean"] = "of scale"
    numbers = ["solved", *(name.replace("_", " ") for name in counts), *gaps.values(), "seconds"]
    style = {"box": box.SIMPLE_HEAD, "pad_edge": False, "title": GAPS}
    made = table(["family, method", *numbers], (), right=numbers, whole=["family, method", *numbers], **style)
    for family, part in summary.groupby("family", sort=False):
        made.add_row(str(family), style="bold")
        for row in part.to_dict("records"):
            shares = [row[name] for name in gaps]
            cells = [figure(None if v is None or v != v else 100 * v, 100.0, 3) for v in shares]
            counted = [f"{row['solved']:,} of {row['solves']:,}", *(f"{row[name]:,}" for name in counts)]
            made.add_row(f"  {row['method']}", *counted, *cells, figure(row["seconds_median"], digits=3))
        made.add_section()
    return made


# keyshift families: the generators of instances, paper by paper --------------------------------------------------------


def families(
    name: Annotated[str | None, typer.Argument(help="Show this family's parameters.")] = None,
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only families of this problem.")] = None,
) -> common.Response:
    """List the families of instances; with a name, what its parameters are."""
    common.expect_problem(problem)
    chosen = listed(problem) if name is None else [find_family(name)]
    rows = ((family.name, family.problem, f"{family.summary} {family.source}") for family in chosen)
    listing = table(("family", "problem", "what it draws"), rows, whole=("family",))
    shown = [listing] if name is None else _parameters(chosen[0])
    return common.Response([_record(family) for family in chosen], shown)


def _record(family: Family) -> dict[str, object]:
    names = ("name", "problem", "summary", "source", "code", "parameters")
    return {**{n: getattr(family, n) for n in names}, "grid": {n: list(v) for n, v in family.grid.items()}}


def _parameters(family: Family) -> Iterator[str]:
    """A family's parameters with their defaults, and all that is drawn where one is not given."""
    yield f"{family.name}: {family.summary} {family.source}"
    for name, default in family.parameters.items():
        shown = ", ".join(map(str, family.grid[name])) + " (all)" if name in family.grid else default
        yield f"  {flag(name)} {shown}"


# keyshift generate: an instance of a family, as files that the other commands read -------------------------------------


def generate(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="A family, see `keyshift families`; or allocation, a plain workload.")],
    out: Annotated[Path, typer.Argument(help="Where to write it: a folder, or a .json file; a stream is .parquet.")],
) -> common.Response:
    """Write a synthetic instance; the family's parameters are options, such as --nodes 20 --seed 3."""
    function = generator(kind)
    given = read_own(function, context.obj, f"the generator {kind}")
    made = function(**given)
    said = _write_workload(made, out) if isinstance(made, Workload) else _write_problem(made, out)
    shown = [f"{said['workload']} written to {out}", *map(common.Unbroken, filter(None, [said.get("solve")]))]
    return common.Response({"path": str(out), "kind": kind, "parameters": given, **said}, shown)


def _write_workload(workload: Workload, out: Path) -> dict[str, str]:
    from keyshift.files.workload import write_workload

    write_workload(workload, out)
    return {"workload": repr(workload)}


def _write_problem(problem: Problem, out: Path) -> dict[str, str]:
    """Write a problem's data, and say the line that solves it with its parameters."""
    workload = getattr(problem, "workload", None)
    said = _write_stream(problem, out) if workload is None else _write_workload(workload, out)
    return {**said, "problem": problem.name, "solve": _line(problem, out)}


def _write_stream(problem: Any, out: Path) -> dict[str, str]:
    from keyshift.models.base.arrow import pa, pq

    if problem.weights is not None or problem.source_keys is not None:
        raise InputError("a stream with weights, or with keys of its sources, has no file: draw it by ks.family")
    if out.suffix != ".parquet":
        raise InputError(f"{out}: a stream of keys is written as .parquet")
    keys = pa.table({"key": np.concatenate(list(problem.stream.chunks()))})
    write_file(out, lambda stream: pq.write_table(keys, stream))
    return {"workload": f"{keys.num_rows:,} messages"}


def _line(problem: Problem, out: Path) -> str:
    """The command that solves it: every parameter that is not the default."""
    known = parameters(type(problem))
    words = ["keyshift", "solve", str(out), "-p", problem.name]
    for name, value in list(problem.arguments().items())[1:]:
        plain, default = _as_option(value), _as_option(known[name].default)
        if plain in (None, {}, []) or plain == default:
            continue
        words += [flag(name), plain if isinstance(plain, str) else json.dumps(plain, default=str)]
    return shlex.join(words)


def _as_option(value: Any) -> Any:
    """A parameter's value as JSON, a fraction as its text."""
    if isinstance(value, Fraction):
        return str(value)
    return common.plain(dict(value) if hasattr(value, "items") else value)


# keyshift reproduce: a figure, a table or a claim of the five papers, run again ----------------------------------------


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of figures, such as nasir2015:9; see --list.")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List all, with verdicts and seconds.")] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Compute verdicts anew; exit with 1 where one changes.")
    ] = False,
    records: Annotated[
        Path | None, typer.Option(help="Judge the results in this folder of --out, not the stored ones.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run small sizes for a first impression.")] = False,
    out: Annotated[Path, typer.Option(help="A folder for pictures, their data and tables.")] = Path("reproduced"),
) -> common.Response:
    """Run figures, tables or claims of the five papers again; with --list, name all of them; with --judge, check verdicts."""
    from keyshift.papers import registry

    if records is not None and not judge:
        raise InputError("--records says what --judge is to judge: give both")
    if judge:
        judged = registry.judge(names or (), records)
        said = [line for row in judged for line in row.lines()]
        wrong = sum(not row.stands for row in judged)
        said.append(f"{len(judged)} rows: {len(judged) - wrong} as listed" + (f", {wrong} not" if wrong else ""))
        return common.Response([row.to_dict() for row in judged], map(common.Unbroken, said), not wrong)
    if list_all:
        rows = registry.chosen(names or [""])
        return common.Response([row.to_dict() for row in rows], _listed(rows))
    if not names:
        raise InputError("say which figure, such as nasir2015:9; keyshift reproduce --list has all")
    responses, shown = [], []
    for row in map(registry.find, names):
        with common.progress(f"{row.id}: {row.shows}"):
            made = registry.reproduce(row.id, quick=quick, out=out)
        responses.append(made.to_dict())
        columns = list(made.numbers.columns)
        cells = (map(_cell, values) for values in made.numbers.itertuples(index=False))
        numbers = [table(columns, cells, right=columns[1:])] if len(made.numbers) else []
        shown += [common.Unbroken(f"{row.id}: {row.shows}"), *numbers, *map(common.Unbroken, made.lines())]
    return common.Response(responses if len(responses) > 1 else responses[0], shown)


def _cell(value: Any) -> str:
    return "-" if value is None or value != value else f"{value:.4g}" if isinstance(value, float) else str(value)


def _listed(rows: list[Any]) -> Iterator[Any]:
    sizes = ("quick", "full")
    times = ([_cell(row.kept.get("seconds", {}).get(size)) for size in sizes] for row in rows)
    cells = ((row.id, row.shows, row.said, *seconds) for row, seconds in zip(rows, times, strict=True))
    heads = [f"{size}, s" for size in sizes]
    yield table(["name", "what it shows", "verdict", *heads], cells, right=heads, whole=("name",))
    counts = Counter(row.said for row in rows)
    verdicts = ", ".join(f"{count} {said}" for said, count in counts.items())
    yield common.Unbroken(f"{len(rows)} rows: {verdicts}")
