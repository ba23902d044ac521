"""Every figure, table and claim of the papers that `keyshift reproduce --list` names, one after the other.

    python benchmarks/papers.py [--quick] [--only nasir2015:9 ...] [--keep] --out DIR

Figures that are read off the same runs take them once. With --keep, seconds and figures go into the registry's own record,
benchmarks/papers/figures.json, which the pages and the list show: seconds of the clock of a quick run, of the processor of a full one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from pathlib import Path

import page  # where the folder of data is

import keyshift as ks
from keyshift.papers import registry


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
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks") / page.__name__)
    given = parser.parse_args()
    size, done, failed = "quick" if given.quick else "full", {}, 0
    for name, figure in registry.figures().items():
        if not figure.run or (given.only and not name.startswith(tuple(given.only))):
            continue
        runs, before = json.dumps(figure.run), processor()
        try:
            made, took = done.get(runs) or (
                registry.reproduce(name, quick=given.quick, out=given.out),
                processor() - before,
            )
        except ks.InputError as left_out:  # its data is not there
            print(f"== {left_out}", flush=True)
            continue
        except Exception:
            traceback.print_exc()
            failed = 1
            continue
        done[runs] = made, took
        ours = [registry.value(made.tables, where) for _, _, where in figure.numbers]
        print(f"== {name}: {made.seconds:.0f} s\n{registry.compared(figure, ours).to_string()}", flush=True)
        if given.keep:
            kept = json.loads(registry.KEPT.read_text()) if registry.KEPT.exists() else {}
            kept.setdefault(name, {})[size] = {"seconds": round(made.seconds if given.quick else took, 1), "ours": ours}
            registry.KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True, default=float) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
