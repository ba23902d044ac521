"""keyshift families: the generators of instances, paper by paper; keyshift generate: an instance of one, as files."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.catalogue.families import FAMILIES, GENERATORS, Family
from keyshift.commands import common
from keyshift.models import InputError, Problem, Workload
from keyshift.models.lazily import load
from keyshift.terminal import table


def families(
    name: Annotated[str | None, typer.Argument(help="Show this family's parameters.")] = None,
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only families of this problem.")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """List the families of instances; with a name, what its parameters are."""
    from keyshift.studies.drawing import families as listed
    from keyshift.studies.drawing import find_family

    common.expect_problem(problem)
    chosen = listed(problem) if name is None else [find_family(name)]
    if as_json:
        common.print_json([_record(family) for family in chosen])
        return
    if name is not None:
        _show(FAMILIES[name])
        return
    rows = ((family.name, family.problem, f"{family.summary} {family.source}") for family in chosen)
    common.console().print(table(("family", "problem", "what it draws"), rows, whole=("family",)))


def _record(family: Family) -> dict[str, object]:
    names = ("name", "problem", "summary", "source", "code", "parameters")
    return {**{n: getattr(family, n) for n in names}, "grid": {n: list(v) for n, v in family.grid.items()}}


def _show(family: Family) -> None:
    """A family's parameters with their defaults, and all that is drawn where one is not given."""
    console = common.console()
    console.print(f"{family.name}: {family.summary} {family.source}")
    for name, default in family.parameters.items():
        shown = ", ".join(map(str, family.grid[name])) + " (all)" if name in family.grid else default
        console.print(f"  --{name.replace('_', '-')} {shown}")


# keyshift generate: an instance of a family, as files that the other commands read -------------------------------------


def generate(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="A family, see `keyshift families`; or allocation, a plain workload.")],
    out: Annotated[Path, typer.Argument(help="Where to write it: a folder, or a .json file; a stream is .parquet.")],
    as_json: common.JsonOption = False,
) -> None:
    """Write a synthetic instance; the family's parameters are options, such as --nodes 20 --seed 3."""
    if kind not in GENERATORS and kind not in FAMILIES:
        raise InputError(f"{kind:.60}: choose one of {', '.join([*GENERATORS, *FAMILIES])}")
    function = load(GENERATORS[kind]) if kind in GENERATORS else FAMILIES[kind].function
    given = common.parse_options(context.args, function, f"generator {kind}")
    made = function(**given)
    said = _write_workload(made, out) if isinstance(made, Workload) else _write_problem(made, out)
    if as_json:
        common.print_json({"path": str(out), "kind": kind, "parameters": given, **said})
    else:
        common.console().print(f"{said['workload']} written to {out}")
        if "solve" in said:
            common.console().print(said["solve"], soft_wrap=True)


def _write_workload(workload: Workload, out: Path) -> dict[str, str]:
    from keyshift.models.files.workload import write_workload

    write_workload(workload, out)
    return {"workload": repr(workload)}


def _write_problem(problem: Problem, out: Path) -> dict[str, str]:
    """Write a problem's data, and say the line that solves it with its parameters."""
    workload = getattr(problem, "workload", None)
    said = _write_stream(problem, out) if workload is None else _write_workload(workload, out)
    return {**said, "problem": problem.name, "solve": _line(problem, out)}


def _write_stream(problem: Any, out: Path) -> dict[str, str]:
    import numpy as np

    from keyshift.models.files.arrow import pa, pq
    from keyshift.models.files.writing import write_file

    if problem.weights is not None or problem.source_keys is not None:
        raise InputError("a stream with weights, or with keys of its sources, has no file: draw it by ks.family")
    if out.suffix != ".parquet":
        raise InputError(f"{out}: a stream of keys is written as .parquet")
    keys = pa.table({"key": np.concatenate(list(problem.stream.chunks()))})
    write_file(out, lambda stream: pq.write_table(keys, stream))
    return {"workload": f"{keys.num_rows:,} messages"}


def _line(problem: Problem, out: Path) -> str:
    """The command that solves it: every parameter that is not the default."""
    import dataclasses

    defaults = {
        f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(problem)  # type: ignore[arg-type]
    }
    words = ["keyshift", "solve", str(out), "-p", problem.name]
    for name, value in list(problem.arguments().items())[1:]:
        plain, default = _as_option(value), _as_option(defaults.get(name))
        if plain in (None, {}, []) or plain == default:
            continue
        words += ["--" + name.replace("_", "-"), plain if isinstance(plain, str) else json.dumps(plain, default=str)]
    return shlex.join(words)


def _as_option(value: Any) -> Any:
    """A parameter's value as JSON, a fraction as its text."""
    return (
        str(value) if isinstance(value, Fraction) else common.plain(dict(value) if hasattr(value, "items") else value)
    )
