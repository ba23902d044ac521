"""Flink: its arithmetic against Flink's own classes, the REST API's answers, advice with a proof, and routing."""

from __future__ import annotations

import hashlib
import json
import shlex
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keyshift as ks
from keyshift.cli import main
from keyshift.engines import flink
from keyshift.engines.flink_partitioner import Routing
from keyshift.engines.flink_rest import CheckpointsFile
from keyshift.engines.formats import read_model
from keyshift.models.intervals.flink_ranges import default_ranges

DATA = Path(__file__).parents[1] / "data" / "engines"
JOB, VERTEX, SOURCE = "a" * 32, "b" * 32, "c" * 32


# Printed by Flink 2.3's own KeyGroupRangeAssignment.assignToKeyGroup, at 128 and at 4,096 key groups.
TEXTS = {"": (94, 2526), "a": (81, 3025), "hello": (35, 2723), "user-17": (49, 1841), "\u00e9\u00df": (119, 247),
         "\U0001f600x": (60, 1980), "polygenelubricants": (108, 2156)}  # fmt: skip
INTS = {0: (94, 2526), 1: (86, 4054), -1: (80, 2896), 2**31 - 1: (62, 3262), -(2**31): (108, 2156), 12345: (1, 3585)}
LONGS = {
    0: (94, 2526),
    1: (86, 4054),
    -1: (94, 2526),
    2**63 - 1: (108, 2156),
    -(2**63): (108, 2156),
    12345678901: (38, 1446),
}


@pytest.mark.parametrize(("kind", "known"), [("string", TEXTS), ("int", INTS), ("long", LONGS)])
def test_key_groups_are_those_of_flinks_classes(kind, known):
    for column, most in enumerate((128, 4096)):
        assert flink.key_groups(list(known), most, kind).tolist() == [groups[column] for groups in known.values()]


def java_hash(key, kind):
    if kind == "string":
        code, units = 0, key.encode("utf-16-be")
        for i in range(0, len(units), 2):
            code = (31 * code + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
        return code
    bits = key & 0xFFFFFFFFFFFFFFFF
    return (key if kind == "int" else bits ^ (bits >> 32)) & 0xFFFFFFFF


def murmur(code):
    """Flink's MathUtils.murmurHash, word for word, in Python's whole numbers."""

    def left(v, by):
        return ((v << by) | (v >> (32 - by))) & 0xFFFFFFFF

    h = left(code * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    h = (left(h, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h if h < 2**31 else 0 if h == 2**31 else 2**32 - h


@settings(max_examples=60, deadline=None)
@given(
    keys=st.one_of(
        st.tuples(st.just("string"), st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1)),
        st.tuples(st.just("int"), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1)),
        st.tuples(st.just("long"), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)),
    ),
    most=st.integers(1, 32768),
)
def test_key_groups_are_javas_arithmetic(keys, most):
    kind, listed = keys
    expected = [murmur(java_hash(key, kind)) % most for key in listed]
    assert flink.key_groups(listed, most, kind).tolist() == expected
    rows = [murmur((java_hash(key, kind) + 62) & 0xFFFFFFFF) % most for key in listed]
    assert flink.key_groups(listed, most, kind, row=True).tolist() == rows


@pytest.mark.parametrize(
    ("keys", "kind", "said"),
    [([1, None], "int", r"keys\[1\] is null"), (["a", 3], "string", "the key 3 is not a string"), ([2**31], "int", "is not an int"),
     ([1.5], "long", "the key 1.5 is not a long"), (["7"], "int", "the key '7' is not an int"), ([1], "float", "must be one of")],
)  # fmt: skip
def test_other_keys_are_refused(keys, kind, said):
    with pytest.raises(ks.InputError, match=said):
        flink.key_groups(keys, 128, kind)


@pytest.mark.parametrize("most", [1, 7, 128, 200, 4096])
def test_subtasks_are_the_ranges(most):
    for p in {1, 2, 3, min(7, most), min(16, most), most}:
        if p <= most:
            expected = [i for i, (a, b) in enumerate(default_ranges(p, most)) for _ in range(a, b + 1)]
            assert flink.subtasks(np.arange(most), p, most).tolist() == expected


def test_defaults_are_flinks():
    # printed by KeyGroupRangeAssignment.computeDefaultMaxParallelism
    known = {1: 128, 85: 128, 86: 256, 100: 256, 128: 256, 129: 256, 200: 512, 30_000: 32_768}
    assert {p: flink.default_max_parallelism(p) for p in known} == known


def test_a_default_may_be_a_third_above_the_mean():
    table = flink.max_parallelism_options(85).set_index("max_parallelism")
    assert table.loc[128].tolist() == [2, 1, pytest.approx(2 / (128 / 85) - 1)]
    assert table.loc[170, "imbalance"] == 0


# The REST API ----------------------------------------------------------------------------------------------------


def answers(records=(10, 20, 30), states=(100, 200, 300), most=8) -> dict[str, object]:
    """What Flink says of a job, in the shape of the sample in tests/data/engines/flink."""
    vertices = [{"id": SOURCE, "name": "Source: numbers", "maxParallelism": 128, "parallelism": 1},
                {"id": VERTEX, "name": "count", "maxParallelism": most, "parallelism": len(records)}]  # fmt: skip
    made: dict[str, object] = {
        "job": {"jid": JOB, "name": "j", "state": "RUNNING", "vertices": vertices, "now": 1},
        "vertex": {"id": VERTEX, "name": "count", "parallelism": len(records), "maxParallelism": most, "subtasks": [
            {"subtask": i, "status": "RUNNING", "metrics": {"read-records": r, "accumulated-busy-time": "NaN" if i else 5.0}}
            for i, r in enumerate(records)]},
        "checkpoints": {"counts": {"completed": 1}, "latest": {"completed": {"id": 3}}},
    }  # fmt: skip
    if states:
        subtasks = [{"index": i, "status": "completed", "state_size": s} for i, s in enumerate(states)]
        made["checkpoint"] = {"id": 3, "subtasks": subtasks}
    return made


def saved(folder: Path, content: dict[str, object]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, answer in content.items():
        (folder / f"{name}.json").write_text(json.dumps(answer))
    return folder


def test_a_workload_of_saved_answers(tmp_path):
    w = flink.read_workload(saved=saved(tmp_path / "s", answers()))
    assert w.current.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert np.bincount(w.current, w.last_load).tolist() == pytest.approx([10, 20, 30])
    assert np.bincount(w.current, w.state).tolist() == pytest.approx([100, 200, 300])
    busy = flink.read_workload(saved=tmp_path / "s", load="busy")
    assert np.bincount(busy.current, busy.last_load).tolist() == pytest.approx([5, 0, 0])
    shares = [1, 0, 3, 0, 0, 0, 2, 2]
    shared = flink.read_workload(saved=tmp_path / "s", shares=shares)
    assert shared.last_load.tolist() == pytest.approx([2.5, 0, 7.5, *[20 / 3] * 3, 15, 15])


def test_the_sample_of_a_real_flink_is_read():
    w = flink.read_workload(saved=DATA / "flink", vertex="work")
    assert (w.key_groups, w.nodes, w.last_load.sum()) == (128, 8, 0)  # the job had only begun
    assert flink.read_workload(saved=DATA / "flink").current.tolist() == w.current.tolist()
    about = read_model(DATA / "flink/checkpoints.json", CheckpointsFile)
    assert about.latest is not None
    assert about.latest.completed is None


@pytest.fixture
def content():
    return answers()


@pytest.fixture
def server(content):
    """A REST API that answers as Flink does."""
    paths = {f"/jobs/{JOB}": "job", f"/jobs/{JOB}/vertices/{VERTEX}": "vertex", f"/jobs/{JOB}/checkpoints": "checkpoints",
             f"/jobs/{JOB}/checkpoints/details/3/subtasks/{VERTEX}": "checkpoint"}  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.path in paths
            body = json.dumps(content[paths[self.path]] if known else {"errors": ["not found"]}).encode()
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


@pytest.mark.parametrize(("latest", "read"), [
    ({"completed": {"id": 1}, "savepoint": {"id": 3}}, True), ({"completed": {"id": 3}, "savepoint": {"id": 2}}, True),
    ({"completed": None, "savepoint": {"id": 3}}, True), ({"completed": None, "savepoint": None}, False),
])  # fmt: skip
def test_the_later_of_checkpoint_and_savepoint_is_read(server, content, latest, read):
    content["checkpoints"]["latest"] = latest
    assert flink.read_workload(server, JOB).state.sum() == (pytest.approx(600) if read else 0)


def test_a_running_job_is_read_and_kept(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(f"import flink --rest {server} --job {JOB} --out w --keep kept --advise 2,3,4")) == 0
    said = capsys.readouterr().out
    assert flink.SPREAD.split(":")[0] in said
    assert max(map(len, said.splitlines())) <= 120
    asked, kept = ks.read_workload("w"), flink.read_workload(saved="kept", vertex="count")
    assert asked.last_load.tolist() == kept.last_load.tolist()
    assert main(shlex.split(f"import flink --rest {server} --job {'d' * 32} --out v")) == 2
    assert "answers 404" in capsys.readouterr().err


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_advice_is_flinks_own_ranges_beside_a_proven_optimum(seed):
    rng = np.random.default_rng(seed)
    groups, now = int(rng.integers(2, 24)), int(rng.integers(1, 5))
    now = min(now, groups)
    w = ks.Workload(load=rng.integers(0, 9, groups), state=rng.integers(0, 9, groups), nodes=now,
                    current=flink.subtasks(np.arange(groups), now, groups))  # fmt: skip
    counts = sorted({int(c) for c in rng.integers(1, groups + 1, 3)})
    table = flink.advise(w, counts)
    assert table["parallelism"].tolist() == counts
    for row in table.itertuples():
        after = np.array(
            [i for i, (a, b) in enumerate(default_ranges(row.parallelism, groups)) for _ in range(a, b + 1)]
        )
        loads = np.bincount(after, w.last_load, minlength=row.parallelism)
        assert row.max_load == loads.max()
        assert row.state_moved == w.state[after != w.current].sum()
        assert row.least_state_moved <= row.state_moved
        if row.parallelism == now:
            assert row.state_moved == row.least_state_moved == 0


# Routing ----------------------------------------------------------------------------------------------------------


def test_a_table_routes_its_keys_and_the_hash_all_others():
    table, labels = ks.RoutingTable([0, 2], [3, 1]), ["a", "b", "c", "d"]
    rule = flink.routing(table, labels=labels)
    home = flink.homes(labels, 4)
    first = [hashlib.blake2b(k.encode(), digest_size=8, key=b"0").digest() for k in labels]
    assert [int.from_bytes(digest, "big") % 4 for digest in first] == home.tolist()
    assert [rule.partition(k, 4) for k in labels] == table.assignment(home).tolist()
    with pytest.raises(ValueError, match="the table sends 'a' to subtask 3: there are 2"):
        rule.partition("a", 2)


def test_a_solution_routes_by_its_table(tmp_path):
    rng = np.random.default_rng(4)
    keys = [f"k{i}" for i in range(60)]
    home = flink.homes(keys, 5)
    w = ks.Workload(load=rng.integers(1, 60, 60), state=np.ones(60), current=home, home=home, nodes=5, keys=keys)
    solution = ks.solve(ks.MixedRouting(w, theta_max=0.1), "mixed")
    flink.write_routing(solution, tmp_path / "r.json")
    rule = Routing.load(str(tmp_path / "r.json"))
    assert [rule.partition(k, 5) for k in keys] == solution.assignment.tolist()
    assert rule.entries == flink.routing(solution).entries


def test_schemes_are_those_of_the_paper():
    stream = [f"k{i}" for i in np.random.default_rng(1).zipf(1.5, 20_000).clip(max=500)]
    turns = flink.routing("shuffle")
    assert [turns.partition(k, 3) for k in stream[:7]] == [0, 1, 2, 0, 1, 2, 0]
    spread = {}
    for scheme in ("hash", "pkg", "shuffle"):
        rule = flink.routing(scheme)
        spread[scheme] = max(Counter(rule.partition(k, 8) for k in stream).values()) / (len(stream) / 8)
    assert spread["shuffle"] == 1
    assert spread["pkg"] < spread["hash"]
    pkg, sent = flink.routing("pkg", seed=3), [0] * 8
    for key in stream[:500]:
        one, two = pkg.candidates(key, 8)
        expected = two if sent[two] < sent[one] else one
        assert pkg.partition(key, 8) == expected
        sent[expected] += 1
    assert len(set(flink.routing("greedy-d", choices=4).candidates("x", 1000))) == 4
    pairs = {tuple(pkg.candidates(f"k{i}", 8)) for i in range(2_000)}
    assert len(pairs) == 64, "the second candidate must not follow from the first"


@pytest.mark.parametrize(("exponent", "workers"), [(1.5, 8), (2.2, 12), (1.2, 20)])
def test_d_choices_are_the_partitioners(exponent, workers):
    keys = (
        np.random.default_rng(7).zipf(exponent, 25_000).clip(max=60)
    )  # every key has a counter: both sketches are exact
    rule, ours = flink.routing("d-choices"), ks.Partitioner("d-choices", workers)
    for chunk in np.split(keys, 5):
        for key in chunk:
            rule.partition(f"k{key}", workers)
        ours.feed(chunk)
        assert rule.heavy.found == ours.head_choices[0]
    assert max(rule.sent) < 1.1 * keys.size / workers
    assert max(rule.sent) == pytest.approx(ours.loads.max(), rel=0.1)
    assert rule.heavy.counts == {f"k{key}": n for key, n in Counter(keys.tolist()).items()}


def test_heavy_keys_outlive_a_long_tail():
    rule = flink.routing("d-choices")
    for i in range(6_000):
        rule.partition("heavy" if i % 3 == 0 else f"tail-{i}", 10)
    assert len(rule.heavy.counts) == 100
    assert 2_000 <= rule.heavy.counts["heavy"] <= 2_000 + 60
    assert rule.heavy.found > 3


def test_a_partitioner_needs_pyflink_only_when_it_is_made():
    with pytest.raises(ks.models.MissingDependencyError, match="pip install apache-flink"):
        flink.partitioner("pkg")
    with pytest.raises(
        ks.InputError, match="must be a routing table, or one of hash, shuffle, pkg, greedy-d, d-choices"
    ):
        flink.routing("random")
    assert Path(flink.partitioner_file()).read_text().count("import keyshift") == 0
    assert isinstance(flink.advise(ks.Workload(load=[1, 2], state=[1, 1], current=[0, 1], nodes=2), [1]), pd.DataFrame)
