"""Certificates: the share that verify.py proves, their size, and the seconds to make and to check them.

    python benchmarks/certificates.py --out FILE [--count 10]

Every answer is solved within 10 seconds; a proof is looked for within 20; verify.py runs as a program of its own, `python -I -S`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from markdown_table import markdown

import keyshift as ks
from keyshift.certificates import verify

FAMILIES = {
    "nasir-splitting": {"messages": 2000, "keys": 300},
    "nasir-placement": {"messages": 2000, "keys": 100},
    "fang-routing": {"keys": [500, 1000], "nodes": 5, "theta_max": [0.02, 0.08], "max_table_size": 300},
    "hard-movement": {"kind": ["ties", "giant"]},
    "ding-step": {"tasks": [32, 64]},
    "hard-sequence": {"kind": ["ties", "giant"]},
    "ding-policy": {"tasks": 12},
}


def row(name: str, problem: ks.Problem, file: Path) -> dict[str, object]:
    solution = ks.solve(problem, time_limit=10)
    began = time.perf_counter()
    certificate = ks.certify(solution, file, seconds=20)
    made = time.perf_counter()
    run = subprocess.run([sys.executable, "-I", "-S", verify.__file__, file], capture_output=True, check=False)
    return {"family": name, "optimal": solution.status == "optimal", "verified": run.returncode == 0,
            "tight": certificate.value == certificate.bound, "complete": certificate.complete, "bytes": file.stat().st_size,
            "make, s": made - began, "verify, s": time.perf_counter() - made}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=10)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, parameters in FAMILIES.items():
            for _, problem in ks.family(name, **parameters, count=given.count):
                rows.append(row(name, problem, Path(folder) / "c.json"))
            by = pd.DataFrame(rows).groupby("family", sort=False)
            sums = by[["optimal", "verified", "complete", "tight"]].sum()
            table = sums.assign(instances=by.size()).join(by[["bytes", "make, s", "verify, s"]].median().round(2))
            given.out.write_text(
                f"# Certificates\n\n{__doc__}\nMedians over the instances.\n\n{markdown(table.reset_index())}\n"
            )


if __name__ == "__main__":
    main()
