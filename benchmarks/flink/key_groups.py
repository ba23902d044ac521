"""Do our key groups and subtasks equal those of a running Flink? Every key of 100,000, at parallelisms 1 to 16."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from cluster import HERE, Flink, cluster

from keyshift.engines import flink as ours

MOST = (128, 4096)
PARALLELISMS = 16


def keys(kind: str, count: int) -> list[int] | list[str]:
    """The keys of KeyedOutput.java."""
    numbers = range(count)
    if kind == "int":
        return [(i * 2654435761 + 2**31) % 2**32 - 2**31 for i in numbers]
    if kind == "long":
        return [(i * 6364136223846793005 + 1442695040888963407 + 2**63) % 2**64 - 2**63 for i in numbers]
    return [f"key-{i}" + ("\u00e9" if i % 7 == 0 else "\U0001f600" if i % 11 == 0 else "") for i in numbers]


def compiled(folder: Path, home: Path) -> Path:
    """The job as a jar."""
    if shutil.which("javac") is None:
        sys.exit("javac is missing: install a JDK, such as openjdk-17-jdk-headless")
    classes = folder / "classes"
    classes.mkdir()
    path = ":".join(str(jar) for jar in (home / "lib").glob("*.jar"))
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", classes, HERE / "java/KeyedOutput.java"], check=True)
    jar = folder / "job.jar"
    subprocess.run(["jar", "--create", "--file", jar, "-C", classes, "."], check=True)
    return jar


def compare(flink: Flink, count: int) -> list[str]:
    """Run both jobs; a line for each kind and max parallelism."""
    said = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        jar = compiled(folder, flink.home)
        for most in MOST:
            out = folder / str(most)
            out.mkdir()
            flink.run("-c", "KeyedOutput", str(jar), str(count), str(most), str(PARALLELISMS), str(out), seconds=500)
            for kind in ("int", "long", "string"):
                groups = ours.key_groups(keys(kind, count), most, kind)  # type: ignore[arg-type]
                wrong = 0
                for p in range(1, PARALLELISMS + 1):
                    seen = np.full(count, -1)
                    for i in range(p):
                        got = np.fromfile(out / f"{kind}-{most}-{p}-{i}", dtype=">i4")
                        assert (seen[got] == -1).all(), "a key at two subtasks"
                        seen[got] = i
                    wrong += int((seen != ours.subtasks(groups, p, most)).sum())
                said.append(
                    f"{kind:<7}{most:>6}{PARALLELISMS * count:>12,} keys placed, {wrong} otherwise than predicted"
                )
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    given = parser.parse_args()
    with cluster(slots=PARALLELISMS) as flink:
        said = compare(flink, given.count)
    print(*said, sep="\n")
    return int(any(" 0 otherwise" not in line for line in said))


if __name__ == "__main__":
    sys.exit(main())
