"""A fresh environment with nothing but the package, an empty environment, a PATH of that alone: each command works, or says what it needs.

No PySpark, no Java, no C compiler, no PyArrow, no Matplotlib, no redis, no home.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keyshift.cli import COMMANDS

ROOT = Path(__file__).parents[2]
ENGINES = ROOT / "tests" / "data" / "engines"
PARQUET, PLOT, SPARK = "pip install '.[parquet]'", "pip install '.[plot]'", "pip install '.[spark]'"

WORKS = f"""
methods
families madsen-allocation
generate allocation w.json --nodes 4 --key-groups 24 --seed 1
generate guo-mclb windows.json --nodes 3 --key-groups 12 --windows 4
solve w.json --max-migrations 3 -t 5 --out plan.json --report plan.html
solve keys.txt -p key-splitting --workers 2
compare w.json --max-migrations 3 -t 1 -m milp -m flux -m lp
check w.json -a plain.json
explain w.json --max-migrations 3 -t 5
remedies w.json --max-migrations 3 -t 5
pareto w.json -t 3 --points 3
explore w.json --budgets 3 -t 3 --out explore.html
plan w.json --max-migrations 2 -t 5 --out other.json
diff plan.json other.json
simulate w.json --service-rate 100 --window-seconds 60
import kafka --log-dirs {ENGINES}/kafka-log-dirs.txt --out kafka.json
plan kafka.json -t 5 --out moves.json
export moves.json --to kafka --out reassignment
import flink --saved {ENGINES}/flink --out flink.json
import cruise-control --load {ENGINES}/cruise-control-load.json --partition-load {ENGINES}/cruise-control-partition-load.json --out cc.json
study madsen-allocation --nodes 3 --key-groups 12 -t 1 -m flux --out study --report study.html
replay windows.json -p key-group-allocation --max-migrations 3 -m flux
reproduce --list
model w.json --max-migrations 3 --write m.mps
certify w.json --max-migrations 3 -t 5 --proof-time-limit 2 --out c.json
verify c.json
warm-up stats
warm-up interval-migration --cache cache
"""
NEEDS = {
    "generate allocation folder --nodes 4 --key-groups 24": PARQUET,
    "solve keys.parquet -p key-splitting --workers 2": PARQUET,
    "replay windows.json -p key-group-allocation --max-migrations 3 -m flux --out replayed": PLOT,
    "compare w.json --max-migrations 3 --plot p.png": PLOT,
    "pareto w.json --plot p.png": PLOT,
    "reproduce nasir2015:9": PLOT,
    "stats log.parquet --topology t.yaml --time t --nodes 2 --out statistics": SPARK,
    "study madsen-allocation --nodes 3 --key-groups 12 --spark local": SPARK,
    "demo": "pip install '.[demo]'",
    "import redis 127.0.0.1:9 --out redis.json": "pip install '.[redis]'",
    "run redis moves.json 127.0.0.1:9": "pip install '.[redis]'",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", made / "venv"], check=True)
    pip = [made / "venv/bin/python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, ROOT], check=True)
    (made / "plain.json").write_text(json.dumps([k % 4 for k in range(24)]))
    (made / "keys.txt").write_text("a\nb\na\nc\n")
    (made / "t.yaml").write_text("operators: [{name: a, key: k}]\n")
    (made / "log.parquet").write_text("x")
    return made


def ran(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line with nothing in the environment but where the package is."""
    asked = [folder / "venv/bin/keyshift", *shlex.split(line)]
    given = {"PATH": str(folder / "venv/bin")}
    return subprocess.run(asked, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="folders of a virtual environment")
def test_each_command_works_or_says_in_one_sentence_what_it_needs(folder):
    works = WORKS.strip().splitlines()
    assert {line.split()[0] for line in [*works, *NEEDS]} == set(COMMANDS) - {"grade"}
    for line in works:
        done = ran(folder, line)
        assert done.returncode == 0 or line.startswith("certify"), (line, done.stderr)  # 1: not all of it is proven
        assert done.stdout, line
        assert not done.stderr, line
    for line, extra in NEEDS.items():
        done = ran(folder, line)
        assert done.returncode == 2, (line, done.stdout, done.stderr)
        assert extra in done.stderr, line
        assert done.stderr.startswith("keyshift: ")
        assert done.stderr.count("\n") == 1, done.stderr
        assert not done.stdout, line
    assert not [path for path in folder.iterdir() if path.name in ("folder", "replayed", "statistics", "p.png", "out")]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="folders of a virtual environment")
def test_a_sheet_is_graded_and_uninstalling_leaves_nothing_behind(folder):
    (folder / "sub.py").write_text("def load_distance(load, assignment, nodes):\n    return max(load)\n")
    assert ran(folder, "grade sub.py --sheet 1").returncode == 1  # an answer: not all marks
    assert ran(folder, "warm-up key-splitting").returncode == 0
    assert list((folder / "venv").rglob("keyshift/**/*.nbc"))
    subprocess.run([folder / "venv/bin/python", "-m", "pip", "uninstall", "--quiet", "-y", "keyshift"], check=True)
    assert not list((folder / "venv").rglob("*keyshift*"))
