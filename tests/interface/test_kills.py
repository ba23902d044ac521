"""kill -9 at any moment: what is resumed ends with the same bytes as what was never killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time

import pytest

import keyshift as ks

COMMON = """
import sys
import numpy as np
import keyshift as ks

def workloads(periods):
    for t in range(periods):
        rng = np.random.default_rng(t)
        yield ks.Workload(load=rng.random(40), state=rng.random(40), current=np.arange(40) % 4, nodes=4,
                          traffic=rng.random((40, 40)) * (rng.random((40, 40)) < 0.1))
def go():
    sys.stdout.write("go"); sys.stdout.flush()
"""
REPLAY = (
    COMMON
    + """
options = dict(problem="key-group-allocation", max_migrations=5)
ks.replay(workloads(1), ["flux", "potc"], **options)
go()
ks.replay(workloads(60), ["flux", "potc"], checkpoint=sys.argv[1], **options)
"""
)
PARETO = (
    COMMON
    + """
rng = np.random.default_rng(3)
problem = ks.MCLB(ks.Workload(load=rng.random((2, 9)), state=rng.random(9), current=np.arange(9) % 3, nodes=3))
ks.pareto(problem, 2)
go()
ks.pareto(problem, 60, checkpoint=sys.argv[1] + ".json")
"""
)
POLICY = (
    COMMON
    + """
rng = np.random.default_rng(5)
w = ks.Workload(load=rng.random(22), state=rng.random(22), current=np.arange(22) * 3 // 22, nodes=3)
problem = ks.MigrationPolicy(w, {3: {3: .4, 4: .6}, 4: {3: .5, 5: .5}, 5: {4: 1}}, 0.4, 0.99)
ks.solve(problem, "mtm", time_limit=0)
go()
policy = ks.solve(problem, "mtm", checkpoint=sys.argv[1] + ".progress.npz", tolerance=1e-12).details["policy"]
policy.save(sys.argv[1] + ".npz")
"""
)


def run(code, place, kills, seconds, seed):
    """Run a program until it ends, killing it `kills` times on the way; how many kills hit."""
    rng, hit = random.Random(seed), 0
    while True:
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            assert child.stdout.read(2) == b"go", child.stderr.read().decode()
            if hit < kills:
                time.sleep(rng.random() * seconds)
                if child.poll() is None:
                    child.kill()
                    child.wait()
                    hit += 1
                    continue
            assert child.wait(300) == 0, child.stderr.read().decode()
            return hit
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
            child.stderr.close()


def files(folder):
    return {f.name: f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def front(file):
    points = json.loads(file.read_text())["points"]
    return sorted([json.dumps({k: v for k, v in p.items() if k != "seconds"}) for p in points])


@pytest.mark.slow
@pytest.mark.parametrize("kills", [50])
def test_a_killed_replay_ends_with_the_same_bytes(tmp_path, kills):
    run(REPLAY, tmp_path / "whole", 0, 0, 0)
    hit = restarted = 0
    while hit < kills:  # a run that ends early is begun anew elsewhere
        restarted += 1
        hit += run(REPLAY, tmp_path / f"killed-{restarted}", kills - hit, 0.3, seed=restarted)
        assert files(tmp_path / f"killed-{restarted}") == files(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("kills", [50])
def test_a_killed_pareto_ends_with_the_same_front(tmp_path, kills):
    run(PARETO, tmp_path / "whole", 0, 0, 0)
    hit = restarted = 0
    while hit < kills:
        restarted += 1
        hit += run(PARETO, tmp_path / f"killed-{restarted}", kills - hit, 0.3, seed=restarted)
        assert front(tmp_path / f"killed-{restarted}.json") == front(tmp_path / "whole.json")
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".") and f.name.endswith(".part")] == []


@pytest.mark.slow
@pytest.mark.parametrize("kills", [50])
def test_a_killed_policy_iteration_ends_with_the_same_bytes(tmp_path, kills):
    run(POLICY, tmp_path / "whole", 0, 0, 0)
    hit = restarted = 0
    while hit < kills:
        restarted += 1
        hit += run(POLICY, tmp_path / f"killed-{restarted}", kills - hit, 0.3, seed=restarted)
        assert (tmp_path / f"killed-{restarted}.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_a_second_run_into_one_place_is_refused(tmp_path):
    w = ks.Workload(load=[4, 3, 2, 1], state=[1, 1, 1, 1], current=[0, 0, 1, 1], nodes=2)
    options = {"problem": "key-group-allocation"}

    def periods():
        yield w
        with pytest.raises(ks.InputError, match="is being written by another run"):
            ks.replay([w], ["flux"], checkpoint=tmp_path / "r", **options)

    assert len(ks.replay(periods(), ["flux"], checkpoint=tmp_path / "r", **options).rows) == 1

    def watch(now):
        if not seen:
            seen.append(now)
            with pytest.raises(ks.InputError, match=r"f\.json is being written by another run"):
                ks.pareto(ks.MCLB(w), 2, checkpoint=tmp_path / "f.json")

    seen = []
    assert len(ks.pareto(ks.MCLB(w), 2, checkpoint=tmp_path / "f.json", watch=watch)) > 0
    assert seen
    assert sorted(f.name for f in tmp_path.iterdir()) == ["f.json", "r"]
