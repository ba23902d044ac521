"""keyshift export: a saved plan as the files that an engine's tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.commands import common, showing
from keyshift.commands.importing import pairs
from keyshift.models import InputError
from keyshift.models.figures import figure
from keyshift.models.plans.plan import Plan

ENGINES = ("kafka", "kafka-streams", "storm")


def export(
    plan: Annotated[Path, typer.Argument(help="A plan that `keyshift plan --out` wrote.")],
    to: Annotated[str, typer.Option(help=f"The engine: {', '.join(ENGINES)}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder that does not exist yet, or is empty.")],
    assignment: Annotated[
        Path | None, typer.Option(help="kafka: the current assignment, to make sure that it is still the plan's.")
    ] = None,
    racks: Annotated[
        str | None, typer.Option(help="kafka: racks of all brokers, such as 1:a,2:b; none loses one.")
    ] = None,
    topology: Annotated[str | None, typer.Option(help="storm: the topology's name.")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Write a plan as the files that an engine's own tools read, phase by phase, with the way back."""
    from keyshift.models.files.plan import read_plan

    if to not in ENGINES:
        raise InputError(f"--to {to:.60}: choose one of {', '.join(ENGINES)}")
    own = (("--assignment", assignment, "kafka"), ("--racks", racks, "kafka"), ("--topology", topology, "storm"))
    for name, value, engine in own:
        if value is not None and to != engine:
            raise InputError(f"{name} is for {engine} alone")
    made = read_plan(plan)
    if to == "kafka":
        figures, files = _kafka(made, out, assignment, racks)
    else:
        figures, files = {"note": "", "phases": len(made.phases)}, _assignments(made, out, to, topology)
    if as_json:
        common.print_json({"engine": to, "path": str(out), **figures, "files": [file.name for file in files]})
        return
    console = common.console()
    said = figures.pop("note")
    if said:
        console.print(said)
    showing.lines(console, [(name.replace("_", " "), _shown(value)) for name, value in figures.items()])
    console.print(f"{len(files)} files written to {out}; begin with {files[0].name}")


def _kafka(made: Plan, out: Path, assignment: Path | None, racks: str | None) -> tuple[dict[str, Any], list[Path]]:
    from keyshift.engines import kafka

    named = pairs("--racks", racks, "1:a,2:b")
    found = kafka.write_reassignment(made, out, assignment=assignment, racks=named or None)
    figures = {
        "note": kafka.LEADERS_ONLY,
        "phases": len(made.phases),
        "leaders_elected": found.elections,
        "replicas_copied": found.copies,
        "state_copied": found.state_copied,
        "followers_left": found.followers_left,
    }
    return figures, found.files


def _assignments(made: Plan, out: Path, to: str, topology: str | None) -> list[Path]:
    if to == "kafka-streams":
        from keyshift.engines import kafka_streams

        return kafka_streams.write_assignment(made, out)
    if topology is None:
        raise InputError("--to storm needs --topology, the topology's name")
    from keyshift.engines import storm

    return storm.write_assignment(made, out, topology)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} on broker {broker}, which drains" for broker, count in value.items()) or "none"
    return figure(value)
