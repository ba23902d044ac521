"""keyshift generate: a synthetic workload after one of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyshift.catalogue.generators import GENERATORS
from keyshift.catalogue.method import load
from keyshift.commands import common
from keyshift.models import InputError


def generate(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(GENERATORS)}.")],
    out: Annotated[Path, typer.Argument(help="Where to write it: a folder, or a .json file.")],
    as_json: common.JsonOption = False,
) -> None:
    """Write a synthetic workload; the generator's parameters are options, such as --nodes 20 --key-groups 400."""
    from keyshift.models.files.workload import write_workload

    if kind not in GENERATORS:
        raise InputError(f"{kind}: choose one of {', '.join(GENERATORS)}")
    function = load(GENERATORS[kind])
    given = common.parse_options(context.args, function, f"generator {kind}")
    workload = function(**given)
    write_workload(workload, out)
    if as_json:
        common.print_json({"path": str(out), "kind": kind, "parameters": given, "workload": repr(workload)})
    else:
        common.console().print(f"{workload!r} written to {out}", markup=False, highlight=False)
