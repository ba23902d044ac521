"""keyshift demo: real flights through Spark into a proven allocation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the tables and the picture.")] = Path("out"),
    time_limit: common.TimeOption = 10.0,
    seed: common.SeedOption = 0,
    as_json: common.JsonOption = False,
) -> None:
    """Rebalance a real stream: New York's flights of 2013 on 20 nodes (needs pip install '.[demo]' and Java)."""
    from keyshift.demo import closing_sentence, run_demo

    with common.progress("demo: flights through Spark, then every method") as watch:
        comparison = run_demo(out, time_limit=time_limit, seed=seed, watch=watch)
    if as_json:
        common.print_json([common.as_record(s) for s in comparison])
        return
    console = common.console()
    console.print(comparison.to_table(console.width))
    console.print(closing_sentence(comparison))
    console.print(
        f"Written to {out}/: comparison.csv, comparison.txt, comparison.png, plan.json, plan.csv, plan.html, "
        "statistics/, workload/, flights.parquet, topology.yaml",
        markup=False,
    )
