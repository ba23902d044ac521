"""keyshift certify: an answer with its proof, in one file that anybody can check; keyshift verify: does it prove that?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common
from keyshift.models import Solution
from keyshift.models.answer import TIME_LIMIT


def certify(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="A workload, which is solved first; or a solution's file.")],
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    method: common.MethodOption = None,
    time_limit: common.TimeOption = TIME_LIMIT,
    seed: common.SeedOption = 0,
    proof_time_limit: Annotated[float, typer.Option(help="Seconds for the search for a proof.")] = TIME_LIMIT,
    out: Annotated[Path, typer.Option(help="The certificate's file.")] = Path("certificate.json"),
) -> None:
    """Solve a problem and write the answer with its proof to a file that verify.py checks. Exit code 0: all is proven.

    The problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help lists them.
    """
    from keyshift.certificates.certificate import certify as made
    from keyshift.models import Budget
    from keyshift.solving import interruptible

    common.expect_places(out)
    budget, console = Budget(), common.console()
    with interruptible(budget.interrupt):  # around both: what stops the first leaves no time for the second
        solution = _solution(context, path, problem, last, method, time_limit, seed)
        if solution.assignment is None and solution.status != "infeasible":
            console.print(f"there is nothing to certify: {solution!r}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1)
        certificate = made(solution, out, time_limit=0.0 if budget.interrupted else proof_time_limit)
    early = "interrupted; what was found until then: " if budget.interrupted else ""
    console.print(f"{early}{certificate}\nwritten to {out}", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(0 if certificate.complete else 1)


def _solution(
    context: typer.Context,
    path: Path,
    problem: str,
    last: int | None,
    method: str | None,
    time_limit: float | None,
    seed: int,
) -> Solution:
    from keyshift.models.files.reading import read_json
    from keyshift.models.files.solution import SolutionFile, read_solution
    from keyshift.solving import solve

    if path.suffix == ".json" and path.is_file():
        content = read_json(path)
        if isinstance(content, dict) and content.get("format") == SolutionFile.kind:
            return read_solution(path)
    posed = common.read_problem(path, problem, context.args, last)
    with common.progress(f"{posed.name}: solving") as watch:
        return solve(posed, method, time_limit=time_limit, gap=0.0, seed=seed, watch=watch)


# keyshift verify: does a certificate prove what it claims? -------------------------------------------------------------


def verify(file: Annotated[Path, typer.Argument(help="A certificate.")], as_json: common.JsonOption = False) -> None:
    """Check a certificate: one sentence says what is proven, or what is wrong. Exit code 0: proven; 1: not.

    The same program stands alone, for those who do not trust keyshift: python -I -S verify.py FILE, with the standard
    library and no package. `python -c "import keyshift.certificates.verify as v; print(v.__file__)"` says where it is.
    """
    from keyshift.certificates.verify import check_file
    from keyshift.models.files.reading import MOST_JSON, expect_holdable, read_bytes

    expect_holdable(read_bytes(file, MOST_JSON).decode("latin-1"), str(file))
    proven, said = check_file(str(file))
    if as_json:
        print(json.dumps({"proven": proven, "message": said}))  # noqa: T201  # the shell's output
    else:
        common.console().print(said, soft_wrap=True)
    raise typer.Exit(0 if proven else 1)
