"""keyshift model, certify, verify: statements and proofs; methods: the catalogue; warm-up: compile ahead; grade: mark a sheet."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.catalogue import FORMULATIONS
from keyshift.catalogue.method import Formulation, Method
from keyshift.commands import common, showing
from keyshift.commands.own import CertifiedArgument, RequestArgument
from keyshift.models import Budget, InputError, Solution
from keyshift.models.answer import TIME_LIMIT
from keyshift.models.base.disk import MOST_JSON, expect_holdable, expect_place, make_folder, read_bytes
from keyshift.models.base.kernel_cache import list_installed
from keyshift.models.errors import MissingDependencyError
from keyshift.terminal import table

KindOption = Annotated[str, typer.Option("--kind", "-k", help="The kind of model: pyomo, cp-sat, ...; see --list.")]


def model(
    request: RequestArgument,
    kind: KindOption = "pyomo",
    shown: Annotated[bool, typer.Option("--print", help="Print it as algebra, the first rows of each family.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Print every row.")] = False,
    write: Annotated[
        Path | None, typer.Option(help="Write it to this file: .mps, .lp or .nl; .pb or .txt for cp-sat.")
    ] = None,
    solve: Annotated[bool, typer.Option("--solve", help="Solve it.")] = False,
    solver: Annotated[str | None, typer.Option(help="The solver to use; default: one that suits the model.")] = None,
    relax: Annotated[bool, typer.Option("--relax", help="Use the model's linear relaxation.")] = False,
    read: Annotated[
        Path | None, typer.Option(help="Read a solver's solution file of this model, and check the answer.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the kinds that the problem has.")] = False,
    time_limit: common.TimeOption = None,
    seed: common.SeedOption = 0,
) -> common.Response:
    """Open the declarative model of a problem: print it, write it to a file for any solver, solve it, read an answer."""
    posed = request.read(beside=False)
    if listed:
        entries = FORMULATIONS[request.problem].statements
        return common.Response(
            {entry.kind: entry.summary for entry in entries}, showing.lines((e.kind, e.summary) for e in entries)
        )
    if solver is not None and not solve:
        raise InputError(f"--solver {solver}: add --solve")
    if read is not None and (relax or solve or shown or every or write is not None):
        raise InputError(f"--read {read}: it checks that answer and does nothing else, so give no option for another")
    from keyshift.modelling.opening import model as opened

    made = opened(posed, kind)
    if read is not None:
        return _answered(made.read(read))
    made = made.relax() if relax else made
    algebra = made.algebra(every) if shown or every else ""
    if write is not None:
        made.write(write)
    if solve:
        with common.progress(f"{posed.name}: {kind}"):
            response = _answered(made.solve(solver, time_limit, seed))
        return response._replace(shown=itertools.chain(map(common.Unbroken, algebra.splitlines()), response.shown))
    about = {"model": f"{posed.name} in {kind}" + (", relaxed" if relax else ""), "size": made.size,
             "variables": made.about.summary, "explained in": made.about.source,
             **({} if write is None else {"written to": str(write)})}  # fmt: skip
    if algebra:
        return common.Response({**about, "algebra": algebra}, map(common.Unbroken, algebra.splitlines()))
    return common.Response(about, showing.lines(about.items()))


def _answered(answer: Solution) -> common.Response:
    broken = (f"  breaks: {violation}" for violation in answer.violations[:3])
    shown = itertools.chain(showing.figures_of(answer), broken)
    return common.Response(common.as_record(answer), shown, common.has_answer(answer))


# keyshift certify: an answer with its proof, in one file that verify.py can check --------------------------------------


def certify(
    request: CertifiedArgument,
    method: common.MethodOption = None,
    time_limit: common.TimeOption = TIME_LIMIT,
    seed: common.SeedOption = 0,
    proof_time_limit: Annotated[float, typer.Option(help="Seconds for the search for a proof.")] = TIME_LIMIT,
    out: Annotated[Path, typer.Option(help="The certificate's file.")] = Path("certificate.json"),
) -> common.Response:
    """Solve a problem and write the answer with its proof to a file that verify.py checks. Exit code 0: all is proven."""
    from keyshift.certificates.certificate import certify as made
    from keyshift.solving import interruptible, solve

    common.expect_places(out)
    budget = Budget()
    with interruptible(budget.interrupt):  # around both: what stops the first leaves no time for the second
        solution = showing.saved_solution(request.path)
        if solution is None:
            posed = request.read(beside=False)
            with common.progress(f"{posed.name}: solving") as watch:
                solution = solve(posed, method, time_limit=time_limit, gap=0.0, seed=seed, watch=watch)
        if solution.assignment is None and solution.status != "infeasible":
            said = common.Unbroken(f"there is nothing to certify: {solution!r}")
            return common.Response(common.as_record(solution), [said], False)
        certificate = made(solution, out, time_limit=0.0 if budget.interrupted else proof_time_limit)
    early = "interrupted; what was found until then: " if budget.interrupted else ""
    shown = map(common.Unbroken, [f"{early}{certificate}", f"written to {out}"])
    record = {"complete": certificate.complete, "message": str(certificate), "path": str(out)}
    return common.Response(record, shown, certificate.complete)


# keyshift verify: does a certificate prove what it claims? -------------------------------------------------------------


def verify(file: Annotated[Path, typer.Argument(help="A certificate.")]) -> common.Response:
    """Check a certificate: one sentence says what is proven, or what is wrong. Exit code 0: proven; 1: not.

    The same program runs without keyshift: python -I -S verify.py FILE needs only the standard library.
    `python -c "import keyshift.certificates.verify as v; print(v.__file__)"` says where it is.
    """
    from keyshift.certificates.verify import check_file

    expect_holdable(read_bytes(file, MOST_JSON).decode("latin-1"), str(file))
    proven, said = check_file(str(file))
    return common.Response({"proven": proven, "message": said}, [common.Unbroken(said)], proven)


# keyshift methods: which problems there are, and which methods answer them; warm-up: compile them ahead; grade: mark a


def methods(
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only this problem.")] = None,
) -> common.Response:
    """List problems and methods; the first method of each problem is its default."""
    common.expect_problem(problem)
    chosen = [(f, m) for name, f in FORMULATIONS.items() if problem in (None, name) for m in f.methods]
    rows = ((f.name, m.name, m.kind, m.source + (f" (for {m.limits})" if m.limits else "")) for f, m in chosen)
    shown = table(("problem", "method", "kind", "source"), rows)
    return common.Response([as_row(formulation, method) for formulation, method in chosen], [shown])


def as_row(formulation: Formulation, method: Method) -> dict[str, Any]:
    """All that the catalogue says of a method."""
    return {
        "problem": formulation.name,
        "method": method.name,
        "kind": method.kind,
        "guarantee": method.guarantee,
        "limits": method.limits,
        "options": {name: repr(default) for name, default in method.options.items()},
        "source": method.source,
        "code": place(method.code),
        "lesson": method.lesson or formulation.lesson,
    }


def place(code: str) -> str:
    """Where in the repository ``"module:attribute"`` stands."""
    module, _, attribute = code.partition(":")
    inside = module.removeprefix("keyshift.")
    floors = ("models", "solvers", "heuristics", "spark_stats")
    folder = "" if inside.partition(".")[0] in floors else "interface/"
    return f"{folder}{inside.replace('.', '/')}.py: {attribute}"


# keyshift warm-up: compile ahead ---------------------------------------------------------------------------------------

STATISTICS = "stats"
"""The warm-up of `keyshift stats`: Java's, and no problem's."""
SHORT_JOB = """
import sys
from keyshift.cli import main
code = main(sys.argv[1:])
from pyspark import SparkContext
java = SparkContext._gateway.proc
java.stdin.close()  # Java ends, and writes down on its way what it had loaded
sys.exit(java.wait() or code)
"""


def warm_up(
    problem: Annotated[
        str | None, typer.Argument(help="Compile only for this problem's methods; stats: only for `keyshift stats`.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for the compiled code; later runs use it if NUMBA_CACHE_DIR names this folder."),
    ] = None,
) -> common.Response:
    """Compile ahead what methods need: for images and CI."""
    if cache is not None:
        make_folder(cache)
        expect_place(cache / "kernels")
        os.environ["NUMBA_CACHE_DIR"] = str(cache.absolute())
    from keyshift.solving import warm_up as run

    with common.progress("warming up"):
        seconds = 0.0 if problem == STATISTICS else run(problem)
        archive = _note_classes() if problem in (None, STATISTICS) else ""
    where = "" if cache is None else f" and kept in {cache}: set NUMBA_CACHE_DIR={cache.absolute()}"
    said = f"compiled in {seconds:.0f} s{where}" if seconds else "all was compiled before"
    sentences = list(filter(None, ["" if problem == STATISTICS else said, archive]))
    return common.Response({"seconds": seconds, "message": sentences}, map(common.Unbroken, sentences))


def _note_classes() -> str:
    """Run `keyshift stats` on a short log, and keep the classes that Java loaded for it; what there is to say."""
    from keyshift.spark_stats.session import BRIEF, RARELY, check_java, class_archive

    try:
        import pyarrow as pa
        from pyarrow import parquet

        archive = class_archive(check_java())
    except (ImportError, MissingDependencyError):
        return "Spark or its Java is not installed: nothing to keep for `keyshift stats`"
    if archive.exists():
        return f"Java's classes for `keyshift stats` were kept before: {archive}"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "t.yaml").write_text(
            "operators: [{name: a, key: k}, {name: b, key: k, filter: d > 0}]\nedges: [[a, b]]\n"
        )
        rows = {"t": pa.array(range(0, 10**12, 10**10), pa.timestamp("us")), "k": list("ab" * 50), "d": [0.5] * 100}
        parquet.write_table(pa.table(rows), Path(folder, "log.parquet"))
        made = Path(folder, "classes.jsa")
        line = "stats log.parquet --topology t.yaml --time t --nodes 2 --key-groups 4 --out out --window '1 week'"
        java = f"spark.driver.extraJavaOptions={BRIEF} {RARELY} -XX:ArchiveClassesAtExit={made}"
        words = [*shlex.split(line), "--conf", java]
        done = subprocess.run(
            [sys.executable, "-c", SHORT_JOB, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        try:
            if done.returncode or not made.exists():
                return "Java's classes for `keyshift stats` cannot be kept: it did not write them down"
            archive.parent.mkdir(parents=True, exist_ok=True)
            part = archive.with_suffix(f".{os.getpid()}")
            shutil.copyfile(made, part)
            part.replace(archive)
        except OSError as error:
            return f"Java's classes for `keyshift stats` cannot be kept: {error.strerror}"
    list_installed(archive.parent, archive.name)
    return f"Java's classes for `keyshift stats`: {archive}, {archive.stat().st_size / 1e6:.0f} MB"


# keyshift grade: the marks of a student's solutions of an exercise sheet -----------------------------------------------


def grade(
    submission: Annotated[Path, typer.Argument(help="A Python file with the functions of the sheet. It is run.")],
    sheet: Annotated[int, typer.Option(help="Which exercise sheet, 1 to 8.")],
    first: Annotated[int, typer.Option(min=0, help="First seed of the instances; for the final marks a new one.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Instances of each exercise.")] = 100,
    time_limit: Annotated[float, typer.Option("--time-limit", "-t", min=0.01, help="Seconds for each call.")] = 5.0,
) -> common.Response:
    """Mark a file of solutions of an exercise sheet. Exit code 0: all marks; 1: not all.

    A submission is a program, and it is run: in a process of its own, with limits on time and memory, unable to write to
    files. That stops accidents, not malice: it can read and delete whatever you can. Mark strangers' files in a container, or
    as a user without rights.
    """
    from keyshift.exercises import exercise as grading

    with common.progress(f"sheet {sheet}: trying the exercises"):
        result = grading.grade(submission, sheet, seeds=seeds, first=first, time_limit=time_limit)
    rows = []
    for name, verdict in result.verdicts.items():
        failed = f"fails on instance {verdict.tried}" if verdict.tried else "not tried"
        said = f"passed on {verdict.tried} instances" if verdict else failed
        rows.append((name, f"{result.marks[name]} of {result.sheet.marks[name]}", said))
    head = common.Unbroken(f"Sheet {sheet}: {result.sheet.title} - {result.total} of {result.most} marks")
    failed_ones = (common.Unbroken(verdict) for verdict in result.verdicts.values() if not verdict)
    shown = [head, table(("exercise", "marks", "result"), rows, right=("marks",)), *failed_ones]
    return common.Response({"submission": str(submission), **result.to_dict()}, shown, result.total == result.most)
