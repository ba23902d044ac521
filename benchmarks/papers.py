"""Every figure, table and claim of the papers that `keyshift reproduce --list` names, one after the other, seed by seed.

    python benchmarks/papers.py [--quick] [--only nasir2015:9 ...] [--keep] --out DIR

Rows that are read off the same run take it once. A run is a seed, whose tables stay in DIR: a killed one continues with the next. With
--keep, of the seeds that are there, the tables that checks and figures are read from go into benchmarks/papers/records, and into
benchmarks/papers/figures.json which checks hold, of how many seeds, and the seconds of one: by the clock of a quick run, by the processor
of a full one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from pathlib import Path

import page  # where the folder of data is
import pandas as pd

import keyshift as ks
from keyshift.papers import registry
from keyshift.papers.checks import holds


def processor() -> float:
    """Processor seconds of this process and of its children, those that still run (Java) included where the system tells."""
    total, ticks = sum(os.times()[:4]), os.sysconf("SC_CLK_TCK")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            said = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        total += sum(map(int, said[11:15])) / ticks if int(said[1]) == os.getpid() else 0.0
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", nargs="+", help="names, or their beginnings")
    parser.add_argument("--seeds", type=int, default=registry.SEEDS, help="no more than these")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks") / page.__name__)
    given = parser.parse_args()
    size, failed = "quick" if given.quick else "full", 0
    groups: dict[str, list[registry.PaperFigure]] = {}
    for row in registry.figures().values():
        if row.run:
            groups.setdefault(json.dumps(row.run), []).append(row)
    for rows in groups.values():
        if given.only and not any(row.id.startswith(tuple(given.only)) for row in rows):
            continue
        seeds = range(1 if given.quick else min(given.seeds, max(row.seeds for row in rows)))
        try:
            made = [run(rows[0], seed, given.out / size / str(seed), given.quick) for seed in seeds]
        except ks.InputError as left_out:  # its data is not there
            print(f"== {left_out}", flush=True)
            continue
        except Exception:
            traceback.print_exc()
            failed = 1
            continue
        if given.keep:
            keep(rows, size, made, [given.out / size / str(seed) for seed in seeds])
    return failed


def run(row: registry.PaperFigure, seed: int, folder: Path, quick: bool) -> float:
    """What a row's run takes with a seed; if it is there already, what it took."""
    took = folder / f"{registry.stem(row.id)}.seconds"
    if not took.exists():
        before = processor()
        made = registry.reproduce(row.id, quick=quick, out=folder, seeds=(seed,), say=lambda text: None)
        took.write_text(str(made.seconds if quick else processor() - before))
        print(f"== {row.id}, seed {seed}: {made.seconds:.0f} s\n{made.numbers.to_string()}", flush=True)
    return float(took.read_text())


def keep(rows: list[registry.PaperFigure], size: str, seconds: list[float], folders: list[Path]) -> None:
    """Put what was seen of the rows of a run into the registry's own record."""
    kept = json.loads(registry.KEPT.read_text())
    parts = [
        {name: frame for row in rows for name, frame in registry.tables(row, folder).items()} for folder in folders
    ]
    tables = {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}
    for row in rows:
        kept.setdefault(row.id, {}).setdefault("seconds", {})[size] = round(seconds[0], 1)
        if size == "full":
            kept[row.id] |= {"seeds": len(folders), "holds": [holds(check, tables) for check in row.checks]}
            print(f"== {row.id}: {row.judged(kept[row.id]['holds'], len(folders))}", flush=True)
    for name, frame in tables.items() if size == "full" else ():
        registry.RECORDS.mkdir(exist_ok=True)
        frame.to_csv(registry.RECORDS / f"{registry.stem(rows[0].id)}_{name}.csv", index=False, float_format="%.6g")
    registry.KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True, default=float) + "\n")


if __name__ == "__main__":
    sys.exit(main())
