"""keyshift simulate: queues at the nodes, before, during and after a plan. A simulation, never a measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.commands import common


def simulate(
    path: common.PathArgument,
    service_rate: Annotated[float, typer.Option(help="Tuples a second that a node of capacity 1 serves.")],
    window_seconds: Annotated[float, typer.Option(help="How long a window of the workload is, in seconds.")],
    last: common.LastOption = None,
    plan: Annotated[
        Path | None, typer.Option(help="Carry out this saved plan, which was made with a bandwidth.")
    ] = None,
    at: Annotated[float, typer.Option(min=0.0, help="When the plan begins, in seconds.")] = 0.0,
    pause: Annotated[
        str, typer.Option(help="Who stops while state travels: keys (those that move), nodes (theirs), or all.")
    ] = "keys",
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Hold all moved key groups from the start of the plan.")
    ] = False,
    service: Annotated[str, typer.Option(help="deterministic or exponential.")] = "deterministic",
    arrivals: Annotated[str, typer.Option(help="poisson or even.")] = "poisson",
    queue: Annotated[int | None, typer.Option(help="Most tuples at a node: then the source stops.")] = None,
    method: Annotated[str, typer.Option(help="events, fluid or auto.")] = "auto",
    seed: common.SeedOption = 0,
    as_json: common.JsonOption = False,
) -> None:
    """Simulate throughput and latency of a workload on its nodes, and what a plan does to them."""
    from keyshift.models.files.plan import read_plan
    from keyshift.models.files.workload import read_workload
    from keyshift.models.simulation import Migration
    from keyshift.models.simulation import simulate as run

    chosen: dict[str, Any] = {"arrivals": arrivals, "service": service, "method": method}
    how = Migration(pause=pause, progressive=not at_once)  # type: ignore[arg-type]  # it says what it may be
    w, changes = read_workload(path, last=last), [] if plan is None else [(at, read_plan(plan))]
    found = run(
        w,
        None,
        changes,
        service_rate=service_rate,
        window_seconds=window_seconds,
        migration=how,
        queue=queue,
        seed=seed,
        **chosen,
    )
    if as_json:
        common.print_json(found.as_record())
    else:
        common.console().print(str(found))
