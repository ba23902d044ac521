"""Ctrl-C at the shell: SIGINT to the process of a long command ends it soon, and what is there can be gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import keyshift as ks
from keyshift.certificates import verify

WARM = """
import sys
from keyshift.cli import main
main({warm})
sys.stdout.write("go"); sys.stdout.flush()
sys.exit(main(sys.argv[1:]))
"""
SECONDS = 6.0
"""Two for the incumbent; the rest is the interpreter's end on a machine that others use too."""


def interrupted(line, warm, place, after):
    """Run a command in a process of its own, send it SIGINT after this many seconds; code, output, delay."""
    child = subprocess.Popen(
        [sys.executable, "-c", WARM.format(warm=warm), *line],
        cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "100"}, text=True,
    )  # fmt: skip
    try:
        said = ""
        while not said.endswith("go"):
            part = child.stdout.read(1)
            assert part, child.stderr.read()
            said += part
        time.sleep(after)
        assert child.poll() is None, "it ended before Ctrl-C"
        child.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err, time.monotonic() - began
    finally:
        child.kill()
        child.wait()


def workload(p, seed=0):
    rng = np.random.default_rng(seed)
    return ks.Workload(load=rng.random(p), state=rng.random(p), current=np.arange(p) % 7, nodes=7,
                       traffic=rng.random((p, p)) * (rng.random((p, p)) < 0.1))  # fmt: skip


@pytest.mark.slow
def test_replay_ends_and_goes_on(tmp_path):
    (tmp_path / "periods").mkdir()
    for t in range(4):
        ks.write_workload(workload(60, t), tmp_path / "periods" / f"{t}.json")
    ks.write_workload(workload(12), tmp_path / "small.json")
    limits = ["-p", "key-group-allocation", "--max-migrations", "9", "-m", "milp"]
    warm = ["replay", "small.json", *limits, "--periods", "1", "-t", "1"]
    line = ["replay", "periods", *limits, "-t", "4", "--out", "r"]
    code, _, err, delay = interrupted(line, warm, tmp_path, 3.0)
    print(f"replay: {delay:.2f} s")
    assert code in (0, 1)  # whether a period was over
    assert "Traceback" not in err
    assert delay < SECONDS
    done = sorted(f.name for f in (tmp_path / "r").rglob("*.json"))
    assert not [f.name for f in (tmp_path / "r").rglob("*.part")]
    again = subprocess.run(
        [sys.executable, "-m", "keyshift", *line, "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)
    assert set(done) <= {f.name for f in (tmp_path / "r").rglob("*.json")}


@pytest.mark.slow
def test_compare_ends_with_what_it_has(tmp_path):
    ks.write_workload(workload(300), tmp_path / "w.json")
    ks.write_workload(workload(12), tmp_path / "small.json")
    limits = ["-p", "key-group-allocation", "--max-migrations", "30", "-m", "flux", "-m", "milp", "-m", "cp-sat"]
    code, out, err, delay = interrupted(
        ["compare", "w.json", *limits, "--json"], ["compare", "small.json", *limits, "-t", "1"], tmp_path, 3.0
    )
    print(f"compare: {delay:.2f} s")
    assert code == 0, err
    assert "Traceback" not in err
    assert delay < SECONDS
    found = json.loads(out)
    rows = found if isinstance(found, list) else found["solutions"]
    names = [row["method"] for row in rows]
    assert names in (["flux", "milp"], ["flux", "milp", "cp-sat"])  # a quick proof lets cp-sat begin


@pytest.mark.slow
@pytest.mark.parametrize("after", [1.0, 5.0], ids=["while it solves", "while it proves"])
def test_certify_writes_what_is_proven(after, tmp_path):
    ks.write_workload(workload(150), tmp_path / "w.json")
    ks.write_workload(workload(8), tmp_path / "small.json")
    limits = ["-p", "key-group-allocation", "--max-migrations", "20"]
    line = ["certify", "w.json", *limits, "-t", "3", "--out", "c.json"]
    warm = ["certify", "small.json", *limits, "-t", "1", "--proof-time-limit", "1"]
    code, out, err, delay = interrupted(line, warm, tmp_path, after)
    print(f"certify: {delay:.2f} s")
    assert code in (0, 1)  # whether all that was answered is proven
    assert out.replace("go", "", 1).startswith("interrupted; what was found until then: proven: ")
    assert err == ""
    assert delay < 5 * SECONDS  # half of the minute that the proof would take
    assert verify.check_file(str(tmp_path / "c.json"))[0]
