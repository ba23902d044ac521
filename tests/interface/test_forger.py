"""A forger changes honest certificates of every problem and kind of proof: nothing false is accepted, nothing small is expensive."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from draws import rest_slow
from hostile import forgery
from hostile.bombs import bombs
from hostile.solving import MODULES, spec_of

import keyshift as ks
from keyshift.certificates import Proven, certificate, verify

PROGRAM = Path(verify.__file__)
DATA = Path(__file__).parent.parent / "data" / "honest_certificates.jsonl.gz"
"""Of version 1, as `drawn` made them: four of each problem, kind of proof and claim."""
KINDS = {
    "all", "filled", "forced", "forest", "moves", "none", "prices", "semidefinite", "tree", "values", "windows"
}  # fmt: skip
GIBIBYTE = 2**30
BOMBS = list(bombs())


@pytest.fixture(scope="module")
def honest():
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def said(record):
    """What the checker says of a record; None where it refuses, in one sentence and never with a traceback."""
    try:
        return verify.verified(record)
    except (verify.Refused, *verify.DAMAGED):
        return None


def kind_of(record):
    return record["problem"], record["proof"]["kind"], record["claim"]["infeasible"]


def accepted(changed, kind, seen):
    """Whether a false claim is accepted; counts the claims of each kind of proof, false or not."""
    found = said(changed)
    try:
        false = forgery.is_false(changed)
    except forgery.Undecided:
        return False
    seen[kind, false] += 1
    return false and found is not None


def test_honest_certificates_are_accepted_and_true(honest):
    assert {record["proof"]["kind"] for record in honest} == KINDS
    assert {record["problem"] for record in honest} == set(verify.CASES)
    for record in honest:
        assert said(record) is not None, kind_of(record)
        assert not forgery.is_false(record), kind_of(record)


@pytest.mark.parametrize("most", [2, pytest.param(10**9, marks=pytest.mark.slow)])
def test_every_field_changed_proves_nothing_false(honest, most):
    """Of a list the first few entries, and all of them where it is slow."""
    rng, seen = random.Random(5), Counter()
    for record in {kind_of(record): record for record in honest}.values():
        parts = (p for p in forgery.places(record) if p[0] in ("instance", "claim", "proof", "assignment"))
        for path in parts:
            if any(type(key) is int and key >= most for key in path):
                continue
            changed = forgery.forged(record, rng, path)
            assert not accepted(changed, record["proof"]["kind"], seen), (path, changed)
    assert sum(n for (_, false), n in seen.items() if false) > 500


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_five_thousand_forgeries(name, honest, monkeypatch):
    rng, seen = random.Random(f"forger/{name}"), Counter()
    records = [record for record in honest if record["problem"] == name]
    records += drawn(name, 91, 12, monkeypatch)
    wrong = []
    while sum(n for (_, false), n in seen.items() if false) < 1000:
        record = rng.choice(records)
        changed = forgery.forged(record, rng)
        if accepted(changed, record["proof"]["kind"], seen):
            wrong.append(changed)
    print(name, len(records), dict(seen))
    assert wrong == []


def drawn(name, seed, number, monkeypatch):
    """Certificates of drawn instances, with the formulation's own proof even where all assignments could be tried."""
    made = []
    for index in range(number):
        problem = MODULES[name].build(spec_of(name, seed, index))
        solution = ks.solve(problem, time_limit=2)
        for trial in (certificate._by_trial, lambda case, value: Proven()):
            monkeypatch.setattr(certificate, "_by_trial", trial)
            try:
                record = ks.certify(solution, time_limit=2).record
            except ks.InputError:
                continue
            if record["proof"] is not None:
                made.append(json.loads(json.dumps(record)))
        monkeypatch.undo()
    return made


@pytest.mark.parametrize("problem", ["key-group-allocation", "collocated-allocation", "mclb", "interval-migration"])
def test_no_key_group_runs_on_a_node_that_does_not_exist(problem, honest):
    record = next(r for r in honest if r["problem"] == problem and not r["claim"]["infeasible"])
    record = {**record, "instance": {**record["instance"], "places": record["instance"]["nodes"] + 1}}
    assert said(record) is None


def test_a_node_with_two_intervals_is_refused(honest):
    """Its state would count as two nodes', and more would have to move than must."""
    for record in honest:
        if record["problem"] == "interval-migration" and len(record["instance"]["current"]) > 2:
            torn = [0, *[1] * (len(record["instance"]["current"]) - 2), 0]
            changed = {**record, "instance": {**record["instance"], "nodes": 3, "places": 3, "current": torn}}
            assert said(changed) is None


@pytest.mark.parametrize("problem", ["interval-migration", "migration-sequence", "migration-policy"])
def test_a_value_above_the_true_one_is_refused_or_said_to_be_at_most(problem, honest):
    for record in (r for r in honest if r["problem"] == problem and not r["claim"]["infeasible"]):
        exact = said(record)
        above = json.loads(json.dumps(record))
        above["claim"]["value"] = above["assignment"]["values"][0] = 10**30
        told = said(above)
        if problem == "migration-policy":
            assert "state moved is at most about 1e+30" in told
        else:
            assert "state moved is" in exact
            assert "at most" not in exact
            assert told is None


def test_a_policy_that_moves_nothing_is_worth_nothing():
    w = ks.Workload(load=[1, 1, 1], state=[0, 0, 0], current=[0, 0, 1], nodes=2)
    policy = ks.MigrationPolicy(w, transitions={2: {2: 0.5, 3: 0.5}, 3: {2: 1.0}}, tau=1, discount=0.9)
    c = ks.certify(ks.solve(policy, time_limit=5), time_limit=5)
    assert c.value == 0
    assert "state moved is 0" in c.proven


# Files ---------------------------------------------------------------------------------------------------------------


def run(file, *, seconds=60.0):
    """Exit code, output and the most memory of the checker on its own."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", LAUNCH, sys.executable, str(PROGRAM), str(file), str(int(seconds))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    out, err = process.communicate(timeout=seconds + 10)
    *told, code, memory = out.split("\n")
    assert err == ""
    return int(code), "\n".join(told), 1024 * int(memory)


LAUNCH = """
import os, resource, signal, sys
python, program, file, seconds = sys.argv[1:]
child = os.posix_spawn(python, [python, "-I", "-S", program, file], os.environ)
signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
signal.alarm(int(seconds))
_, status, used = os.wait4(child, 0)
sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\\n{used.ru_maxrss}")
"""
"""A small process between: the memory of a child that is forked begins with its parent's."""


@pytest.mark.parametrize(("name", "text"), rest_slow(5, BOMBS), ids=[name for name, _ in BOMBS])
def test_small_files_take_little_memory(name, text, tmp_path):
    file = tmp_path / "c.json"
    file.write_text(text)
    assert file.stat().st_size < 10**6
    code, told, memory = run(file)
    assert code == 1, told
    assert told.startswith("not proven: ")
    assert told.count("\n") == 0
    assert memory < GIBIBYTE


def test_what_is_no_file_is_refused(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", tmp_path):
        assert run(path, seconds=20.0)[:2] == (1, "not proven: it is no file")
