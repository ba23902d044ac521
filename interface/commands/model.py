"""keyshift model: the declarative model of a problem - printed as algebra, written to a file, solved; certify, verify: proofs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

from keyshift.catalogue import FORMULATIONS
from keyshift.commands import common, showing
from keyshift.commands.own import AskedArgument, CertifiedArgument
from keyshift.models import InputError, Solution
from keyshift.models.answer import TIME_LIMIT

KindOption = Annotated[str, typer.Option("--kind", "-k", help="The kind of model: pyomo, cp-sat, ...; see --list.")]


def model(
    asked: AskedArgument,
    kind: KindOption = "pyomo",
    shown: Annotated[bool, typer.Option("--print", help="Print it as algebra, the first rows of each family.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Print every row.")] = False,
    write: Annotated[
        Path | None, typer.Option(help="Write it to this file: .mps, .lp or .nl; .pb or .txt for cp-sat.")
    ] = None,
    solve: Annotated[bool, typer.Option("--solve", help="Solve it.")] = False,
    solver: Annotated[str | None, typer.Option(help="The solver to use; default: one that suits the model.")] = None,
    relax: Annotated[bool, typer.Option("--relax", help="Use the model's linear relaxation.")] = False,
    read: Annotated[Path | None, typer.Option(help="Read a solver's solution file for it, and check that.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the kinds that the problem has.")] = False,
    time_limit: common.TimeOption = None,
    seed: common.SeedOption = 0,
) -> common.Reply:
    """Open the declarative model of a problem: print it, write it to a file for any solver, solve it, read an answer."""
    posed = asked.read(beside=False)
    if listed:
        entries = FORMULATIONS[asked.problem].statements
        return common.Reply(
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
            reply = _answered(made.solve(solver, time_limit, seed))
        return reply._replace(shown=itertools.chain(map(common.Unbroken, algebra.splitlines()), reply.shown))
    about = {"model": f"{posed.name} in {kind}" + (", relaxed" if relax else ""), "size": made.size,
             "variables": made.about.summary, "explained in": made.about.source,
             **({} if write is None else {"written to": str(write)})}  # fmt: skip
    if algebra:
        return common.Reply({**about, "algebra": algebra}, map(common.Unbroken, algebra.splitlines()))
    return common.Reply(about, showing.lines(about.items()))


def _answered(answer: Solution) -> common.Reply:
    broken = (f"  breaks: {violation}" for violation in answer.violations[:3])
    shown = itertools.chain(showing.figures_of(answer), broken)
    return common.Reply(common.as_record(answer), shown, common.has_answer(answer))


# keyshift certify: an answer with its proof, in one file that anybody can check --------------------------------------


def certify(
    asked: CertifiedArgument,
    method: common.MethodOption = None,
    time_limit: common.TimeOption = TIME_LIMIT,
    seed: common.SeedOption = 0,
    proof_time_limit: Annotated[float, typer.Option(help="Seconds for the search for a proof.")] = TIME_LIMIT,
    out: Annotated[Path, typer.Option(help="The certificate's file.")] = Path("certificate.json"),
) -> common.Reply:
    """Solve a problem and write the answer with its proof to a file that verify.py checks. Exit code 0: all is proven."""
    from keyshift.certificates.certificate import certify as made
    from keyshift.models import Budget
    from keyshift.solving import interruptible, solve

    common.expect_places(out)
    budget = Budget()
    with interruptible(budget.interrupt):  # around both: what stops the first leaves no time for the second
        solution = showing.saved_solution(asked.path)
        if solution is None:
            posed = asked.read(beside=False)
            with common.progress(f"{posed.name}: solving") as watch:
                solution = solve(posed, method, time_limit=time_limit, gap=0.0, seed=seed, watch=watch)
        if solution.assignment is None and solution.status != "infeasible":
            said = common.Unbroken(f"there is nothing to certify: {solution!r}")
            return common.Reply(common.as_record(solution), [said], False)
        certificate = made(solution, out, time_limit=0.0 if budget.interrupted else proof_time_limit)
    early = "interrupted; what was found until then: " if budget.interrupted else ""
    shown = map(common.Unbroken, [f"{early}{certificate}", f"written to {out}"])
    record = {"complete": certificate.complete, "message": str(certificate), "path": str(out)}
    return common.Reply(record, shown, certificate.complete)


# keyshift verify: does a certificate prove what it claims? -------------------------------------------------------------


def verify(file: Annotated[Path, typer.Argument(help="A certificate.")]) -> common.Reply:
    """Check a certificate: one sentence says what is proven, or what is wrong. Exit code 0: proven; 1: not.

    The same program runs without keyshift: python -I -S verify.py FILE needs only the standard library.
    `python -c "import keyshift.certificates.verify as v; print(v.__file__)"` says where it is.
    """
    from keyshift.certificates.verify import check_file
    from keyshift.models.base.disk import MOST_JSON, expect_holdable, read_bytes

    expect_holdable(read_bytes(file, MOST_JSON).decode("latin-1"), str(file))
    proven, said = check_file(str(file))
    return common.Reply({"proven": proven, "message": said}, [common.Unbroken(said)], proven)
