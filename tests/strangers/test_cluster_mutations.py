"""Files of clusters, mutated: refused in one sentence, or read as a reader of our own reads them; and nothing in flight moves."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from strangers import cluster_draws as draws
from strangers import own_reader as own

import keyshift as ks
from keyshift.engines import cruise_control, kafka, kafka_files
from keyshift.engines.formats import read_model

HEAD = "Querying brokers for log directories information\nReceived log directory information from brokers 1,2\n"
CURRENT = "Current partition replica assignment\n"
PROPOSED = "\nProposed partition reassignment configuration\n"


def read_dirs(file: Path) -> Any:
    found = kafka_files.read_log_dirs(file)
    moving = {((p.topic, p.number), b) for p, held in found.moving.items() for b in held}
    sizes = {(p.topic, p.number): dict(held) for p, held in found.sizes.items()}
    return {
        "brokers": list(found.brokers),
        "sizes": sizes,
        "offline": {b: len(d) for b, d in found.offline.items()},
        "moving": moving,
    }


def read_lists(file: Path) -> Any:
    return {(p.topic, p.number): (x.replicas, dict(x.directories)) for p, x in kafka_files.read_lists(file).items()}


def read_topics(file: Path) -> Any:
    return {(p.topic, p.number): tuple(x)[:5] for p, x in kafka_files.read_topics(file).items()}


def read_growth(file: Path) -> Any:
    found = kafka_files.read_offsets(file, file, 1)
    return {**{tuple(p): 0 for p in found.loads}, **{tuple(p): None for p in found.without}}


def own_growth(content: bytes) -> Any:
    found = own.offsets(content)
    own.need(any(v is not None for v in found.values()))
    return {p: None if v is None else 0 for p, v in found.items()}


def own_loads(content: bytes) -> Any:
    text = own.decoded(content)
    signs = sorted(",;\t", key=text.split("\n", 1)[0].count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=signs[-1], strict=True)
    made: dict[Any, Any] = {}
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        rest = [place for place, name in enumerate(names) if name not in ("topic", "partition", "", "unnamed: 0")]
        rest = [place for place in rest if names[place] == "value"] or rest
        own.need(names.count("topic") == names.count("partition") == len(rest) == 1)
        for row in filter(None, rows):
            own.need(len(row) == len(names))
            p = own.part(f"{row[names.index('topic')].strip()}-{row[names.index('partition')].strip()}")
            own.need(p not in made)
            made[p] = (own.number(float(row[rest[0]])),)
    except (csv.Error, ValueError):
        raise own.UnreadableError from None
    own.need(made)
    return made


def own_capacities(content: bytes) -> Any:
    made = own.capacity(content)
    own.need("7" in made or "-1" in made)
    found = made.get("7", made.get("-1"))
    return {name: found[name] for name in cruise_control.RESOURCES}


def read_records(file: Path) -> Any:
    records = read_model(file, cruise_control.PartitionLoadFile).records
    made = {
        (r.topic, r.partition): ((r.leader, *r.followers), (r.cpu, r.networkInbound, r.networkOutbound, r.disk))
        for r in records
    }
    if len(made) < len(records) or any(len(set(held)) < len(held) for held, _ in made.values()):
        raise ks.InputError("a partition, or a broker of one, twice: the importer refuses it")
    return made


JSON_KINDS: dict[str, tuple[Callable[[draws.Truth], Any], str, Any, Any]] = {
    "log directories": (draws.Truth.log_dirs, HEAD, read_dirs, own.log_dirs),
    "assignment": (draws.Truth.assignment, CURRENT, read_lists, own.lists),
    "load of Cruise Control": (
        draws.Truth.cc_load, "",
        lambda file: {b.Broker: (b.BrokerState, b.Rack) for b in read_model(file, cruise_control.LoadFile).brokers}, own.cc_load,
    ),
    "partitions of Cruise Control": (draws.Truth.cc_partitions, "", read_records, own.cc_partitions),
    "capacities": (
        draws.Truth.capacity, "",
        lambda file: {name: held[7] for name, held in cruise_control.read_capacities(file, [7]).items()}, own_capacities,
    ),
}  # fmt: skip
TEXT_KINDS: dict[str, tuple[Callable[[draws.Truth], str], Any, Any]] = {
    "topics": (draws.Truth.topics, read_topics, own.topics),
    "reassignments": (
        draws.Truth.under_way, lambda file: {tuple(p) for p in kafka_files.read_under_way(file)}, own.under_way,
    ),
    "offsets": (draws.Truth.offsets, read_growth, own_growth),
    "loads": (draws.Truth.loads, lambda file: {tuple(p): v for p, v in kafka_files.read_loads(file).items()}, own_loads),
}  # fmt: skip


def mutated(kind: str, rng: random.Random) -> tuple[bytes, bool]:
    """A file of a kind, and whether all that happened to it is harmless."""
    truth, harmless = draws.drawn(rng), rng.random() < 0.4
    while kind == "offsets" and not any(truth.leader.values()):  # nothing is to be read
        truth = draws.drawn(rng)
    if kind in TEXT_KINDS:
        text = TEXT_KINDS[kind][0](truth)
        if kind == "offsets" and rng.random() < 0.5:
            text = "".join(rng.sample(text.splitlines(keepends=True), text.count("\n")))
        text = text if harmless else draws.scratched(rng, text)
        text = text if kind == "loads" else draws.noisy(rng, text)
        return draws.coded(rng, text), harmless
    print_of, head, *_ = JSON_KINDS[kind]
    content = draws.shuffled(rng, json.loads(json.dumps(print_of(truth))))
    by_text = not harmless and rng.random() < 0.5
    if not harmless and not by_text:
        content = draws.spoilt(rng, content)
    text = draws.written(rng, content, head)
    if kind == "assignment" and rng.random() < 0.5:
        text += PROPOSED + json.dumps(truth.assignment()) + "\n"
    text = draws.scratched(rng, text) if by_text else text
    text = draws.as_people_write(rng, text) if kind == "capacities" else draws.noisy(rng, text)
    return draws.coded(rng, text), harmless


def hold(kind: str, seed: int, folder: Path) -> str:
    """One mutation: "read" or "refused", with what our own reader says."""
    content, harmless = mutated(kind, random.Random(f"{kind} {seed}"))
    (folder / "file").write_bytes(content)
    read, theirs = (JSON_KINDS[kind][2:] if kind in JSON_KINDS else TEXT_KINDS[kind][1:])[:2]
    found, said = read_or_said(lambda: read(folder / "file"))
    if said:
        assert not harmless, f"{kind} {seed}: {said}"
        return "refused"
    try:
        expected = theirs(content)
    except own.UnreadableError:
        raise AssertionError(f"{kind} {seed}: read, though it is not what the tool prints: {found}") from None
    assert found == expected, f"{kind} {seed}"
    return "read"


def read_or_said(read: Callable[[], Any]) -> tuple[Any, str]:
    """What is read, or the one sentence that refuses it."""
    try:
        return read(), ""
    except ks.InputError as error:
        said = str(error)
    assert said
    assert "\n" not in said
    return None, said


@pytest.mark.parametrize("kind", [*JSON_KINDS, *TEXT_KINDS])
def test_a_mutated_file_is_read_as_our_own_reader_reads_it_or_refused(kind, tmp_path):
    seen = [hold(kind, seed, tmp_path) for seed in range(150)]
    assert min(seen.count("read"), seen.count("refused")) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*JSON_KINDS, *TEXT_KINDS])
def test_many_mutated_files(kind, tmp_path):
    assert {hold(kind, seed, tmp_path) for seed in range(150, 2_150)} == {"read", "refused"}


# Clusters as a whole ------------------------------------------------------------------------------------------------


def expected(truth: draws.Truth, draining: list[int], describe: bool) -> dict[str, dict[Any, Any]]:
    """Where each replica is, its bytes and its leader, by key; for what can be planned."""
    made: dict[str, dict[Any, Any]] = {"at": {}, "size": {}, "role": {}}
    for (t, n), r in truth.lists.items():
        leader = truth.leader[t, n] if describe else r[0]
        if leader is None:
            continue
        seen = {b: truth.bytes_of((t, n), b) for b in r if truth.seen((t, n), b)}
        for j, b in enumerate(r):
            key = f"{t}-{n}/{j}"
            made["at"][key] = b
            made["size"][key] = seen.get(b, seen.get(leader, max(seen.values(), default=0)))
            made["role"][key] = "leader" if b == leader else "follower"
    return made


def a_cluster(seed: int, folder: Path) -> str:
    """One cluster of several files: refused where something is in flight, else read as it is."""
    rng = random.Random(f"cluster {seed}")
    truth = draws.drawn(rng)
    describe, listing = rng.random() < 0.6, rng.random() < 0.2
    given: dict[str, Any] = {}
    (folder / "dirs").write_bytes(
        draws.coded(rng, draws.noisy(rng, draws.written(rng, draws.shuffled(rng, truth.log_dirs()), HEAD)))
    )
    if describe:
        (folder / "topics").write_bytes(draws.coded(rng, draws.noisy(rng, truth.topics())))
        given["describe"] = folder / "topics"
    if not describe or rng.random() < 0.5:
        (folder / "now").write_bytes(draws.coded(rng, draws.noisy(rng, CURRENT + json.dumps(truth.assignment()))))
        given["assignment"] = folder / "now"
    if listing:
        (folder / "list").write_bytes(draws.coded(rng, draws.noisy(rng, truth.under_way())))
        given["reassigning"] = folder / "list"
    draining = [rng.choice(sorted({*truth.brokers} - truth.down))] if rng.random() < 0.3 else []
    notes: list[str] = []
    w, said = read_or_said(
        lambda: kafka.read_workload(folder / "dirs", replicas=True, draining=draining, notes=notes, **given)
    )
    if said and truth.adding:
        assert any(f"{t}-{n}" in said for t, n in truth.adding) or "no partition to plan" in said, f"{seed}: {said}"
        return "refused in flight"
    if said:
        reason = ("may be under way", "moves between two directories", "no partition to plan", "ask kafka-log-dirs")
        assert any(words in said for words in reason), f"{seed}: {said}"
        return "refused"
    want = expected(truth, draining, describe)
    told = describe or listing
    in_flight = {f"{t}-{n}" for t, n in truth.adding} & {key.rpartition("/")[0] for key in w.keys}
    if in_flight:  # without a tool that tells, one list alone is no sign, and neither are logs that cannot be seen
        assert not told, f"{seed}: {in_flight} moves"
        return "not to be seen"
    assert dict(zip(w.keys, (w.node_names[i] for i in w.current), strict=True)) == want["at"], seed
    assert dict(zip(w.keys, w.state.tolist(), strict=True)) == want["size"], seed
    assert dict(zip(w.keys, w.groups["role"], strict=True)) == want["role"], seed
    down = {b for b in truth.down if any(b in r for r in truth.lists.values())}
    assert {n for n, d in zip(w.node_names, w.draining, strict=True) if d} == {*draining, *down}, seed
    assert set(w.node_names) == {*(set(truth.brokers) - truth.down), *down}, seed
    rules = {str(rule) for rule in kafka.replica_rules(w)}
    for (t, n), r in truth.lists.items():
        for b in r:
            if not truth.seen((t, n), b) and f"{t}-{n}/0" in w.keys:
                assert any(f"roker {b} " in note for note in notes), f"{seed}: {b} is not named"
                closed = [
                    rule.partition("nodes=")[2] for rule in rules if rule.startswith("Never(key_groups={'standing'")
                ]
                assert b in down or any(f"'{b}'" in nodes for nodes in closed), seed
    for (t, n), _ in truth.moving:
        assert any(f"{t}-{n}" in note for note in notes), seed
    return "read"


def test_a_cluster_that_is_not_well_is_read_as_it_is_and_nothing_in_flight_moves(tmp_path):
    seen = [a_cluster(seed, tmp_path) for seed in range(200)]
    assert seen.count("read") >= 60
    assert seen.count("refused in flight") >= 20
    assert seen.count("not to be seen") <= 2


@pytest.mark.slow
def test_many_clusters(tmp_path):
    seen = [a_cluster(seed, tmp_path) for seed in range(200, 2_200)]
    assert seen.count("read") >= 600
    assert seen.count("not to be seen") <= 20
