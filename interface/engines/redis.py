"""Redis Cluster: from running shards to a workload, and from a plan to slots that move while clients read and write.

A key group is a *slot* - one of 16,384, by CRC16 of a key or of its hash tag - and a node is a *master*; replicas follow
their masters. Any slot may be on any master, so allocation's answers are carried out as they are. Keys that share a
hash tag share a slot: they move together by nature.

A slot moves in four steps, which `keyshift.engines.redis_moving` and the scripts written here take alike: the target
imports it, the source migrates it, its keys travel by MIGRATE, and target, source and the other masters learn the new owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from keyshift.engines.formats import counted, with_notes, write_folder
from keyshift.models.base.disk import MOST_JSON, read_text
from keyshift.models.base.guards import as_number
from keyshift.models.base.names import Names
from keyshift.models.errors import InputError, refusing
from keyshift.models.rules import Rule, Use
from keyshift.models.workload import FloatArray, IntArray, Workload
from keyshift.plans.plan import Plan

SLOTS = 16_384
PATIENCE = 10.0
"""Seconds that a server may be silent."""
LABEL = "slot-"


@dataclass(frozen=True)
class Shard:
    """A master: its name ``host:port``, its id, the slots that it reports, and the slots that it is sending or receiving."""

    name: str
    id: str
    client: Any
    slots: IntArray
    open: Mapping[int, str]


@dataclass(frozen=True)
class Shards:
    """The masters of a running cluster, by name; `owner` is the place of each slot's master among them, -1 if it has none."""

    masters: Mapping[str, Shard]
    owner: IntArray

    def one(self, name: str) -> Shard:
        """A master by name, or `InputError`."""
        if name not in self.masters:
            raise InputError(f"{name} is not a master of the cluster; there are {', '.join(self.masters)}")
        return self.masters[name]

    def close(self) -> None:
        """Close all connections."""
        for master in self.masters.values():
            master.client.close()


def library() -> Any:
    """redis-py, or `InputError` that says how to get it."""
    try:
        import redis
    except ImportError:
        raise InputError("Redis needs redis-py: pip install '.[redis]' in a checkout of keyshift") from None
    return redis


def connected(url: str) -> Shards:
    """Connect to every master of the cluster that one node belongs to.

    Raises
    ------
    InputError
        If redis-py is not installed, the address is none, a server does not answer, or a master with slots is down.
    """
    redis = library()
    given = urlsplit(url if "://" in url else f"redis://{url}")
    said = f"{url:.80}: write an address such as 127.0.0.1:7001 or redis://user:password@host:7001"
    with refusing(said, ValueError):  # a port that is no number
        if given.scheme not in ("redis", "rediss") or not given.hostname or not given.port:
            raise InputError(said)

    def client(host: str, port: int) -> Any:
        """A connection with the credentials of the address."""
        return redis.Redis(
            host=host, port=port, username=given.username, password=given.password, ssl=given.scheme == "rediss",
            socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, protocol=2,
        )  # fmt: skip

    place = f"{given.hostname}:{given.port}"
    another = AttributeError, LookupError, StopIteration, TypeError, ValueError
    with (
        refusing(f"{place} does not answer as Redis Cluster does", *another),
        refusing(f"{place}: {{reason}}", redis.RedisError),
    ):
        with client(given.hostname, given.port) as seed:
            seen = seed.execute_command("CLUSTER NODES")
        masters: dict[str, Shard] = {}
        for name, node in seen.items():
            flags = node["flags"].split(",")
            if "master" not in flags or {"noaddr", "handshake"} & set(flags):
                continue
            if {"fail", "fail?"} & set(flags):
                if node["slots"]:
                    raise InputError(f"{name} is down, and has slots: repair the cluster first")
                continue
            host, _, port = name.rpartition(":")
            reached = client(host or given.hostname, int(port))
            masters[name] = master(reached, name)
    masters = dict(sorted(masters.items()))
    owner = np.full(SLOTS, -1)
    for i, one in enumerate(masters.values()):
        owner[one.slots] = i
    return Shards(masters, owner)


def master(client: Any, name: str) -> Shard:
    """A master's own description of its shard."""
    said = client.execute_command("CLUSTER NODES")
    mine = next(node for node in said.values() if "myself" in node["flags"].split(","))
    slots = [s for span in mine["slots"] for s in range(int(span[0]), int(span[-1]) + 1)]
    opened = {int(way["slot"]): f"{way['state']} {way['node_id']}" for way in mine["migrations"]}
    return Shard(name, mine["node_id"], client, np.array(slots, dtype=np.int64), opened)


# From a cluster to a workload ---------------------------------------------------------------------------------------


def read_workload(
    url: str,
    counts: str | Path | Mapping[str, float] | None = None,
    *,
    sample: int = 10_000,
    draining: Sequence[str] = (),
) -> Workload:
    """Read a workload from a running cluster: a key group for each slot with keys or requests, a node for each master.

    Parameters
    ----------
    url : str
        Any node: ``127.0.0.1:7001``, or ``redis://user:password@host:7001`` (``rediss`` for TLS).
    counts : path or mapping, optional
        Requests by key, as an application counts them: CSV ``key,count``, or the counts themselves. Without it, the
        processor time of each slot since its master began, where servers tell (``CLUSTER SLOT-STATS``, Redis 8.2), else
        the number of keys.
    sample : int
        Keys of a slot whose memory is measured, for its state in bytes; 0 for all of them.
    draining : sequence of str
        Masters to be emptied.

    Returns
    -------
    Workload
        `node_names` are ``host:port``, `keys` are ``slot-0`` to ``slot-16383``; each slot counts as one of the resource
        ``slots``. Slots without keys and requests are left out, unless a master drains, which gives its empty slots away,
        too (`slot_rules` spreads them), or none has any: then a slot is the load.

    Raises
    ------
    InputError
        If the cluster cannot be reached, slots are being moved already, a slot has no master, or the counts are
        invalid.
    """
    asked = None if counts is None else by_slot(counts)
    cluster = connected(url)
    try:
        refuse_unfinished(cluster)
        leaving = [cluster.one(name).name for name in draining]
        if (cluster.owner < 0).any():
            raise InputError(f"slot {int(np.argmin(cluster.owner))} has no master: repair the cluster first")
        keys, state, busy = np.zeros(SLOTS), np.zeros(SLOTS), np.zeros(SLOTS)
        told = True
        for one in cluster.masters.values():
            keys[one.slots] = piped(one.client, [("CLUSTER COUNTKEYSINSLOT", int(s)) for s in one.slots])
            state[one.slots] = measured(one, keys[one.slots].astype(np.int64), sample)
            told = told and asked is None and slot_stats(one, busy)
    finally:
        cluster.close()
    load = asked if asked is not None else busy if told else keys
    names = list(cluster.masters)
    used = (keys > 0) | (load > 0)
    if not used.any():
        load = np.ones(SLOTS)
    slots = np.flatnonzero(used) if used.any() and not leaving else np.arange(SLOTS)
    return Workload(
        load=load[slots], state=state[slots], current=cluster.owner[slots], nodes=len(names),
        draining=[name in leaving for name in names], keys=[f"{LABEL}{s}" for s in slots], node_names=names,
        resources={"slots": np.ones(slots.size)},
        units={"state": "bytes"} if asked is not None or told else {"load": "keys", "state": "bytes"},
    )  # fmt: skip


def slot_rules(workload: Workload) -> list[Rule]:
    """While a master drains, each other one takes at most its share of slots, or as many as the largest has now."""
    if not workload.draining.any():
        return []
    held = np.bincount(workload.current, minlength=workload.nodes)[workload.kept]
    return [Use("slots", float(max(-(-workload.key_groups // held.size), held.max())))]


def refuse_unfinished(cluster: Shards, ours: Mapping[int, object] | None = None) -> None:
    """Refuse slots that are on the way, other than a plan's own."""
    for one in cluster.masters.values():
        for slot in one.open:
            if ours is None or slot not in ours:
                raise InputError(
                    f"slot {slot} is on the way ({one.name}: {one.open[slot].split()[0]}): finish its plan with "
                    "`keyshift run redis`, or repair it with `redis-cli --cluster fix`"
                )


def by_slot(counts: str | Path | Mapping[str, float]) -> FloatArray:
    """Requests by slot, shape (16384,), of requests by key."""
    key_slot, asked = library().crc.key_slot, np.zeros(SLOTS)
    if isinstance(counts, Mapping):
        pairs = list(counts.items())
    else:
        pairs = []
        for number, line in enumerate(read_text(counts, MOST_JSON).splitlines(), 1):
            key, _, often = line.rpartition(",")
            if number == 1 and (key, often) == ("key", "count"):
                continue
            said = f"{counts}: line {number}: {line!r:.60} is not a key, a comma and a number"
            with refusing(said, ValueError):
                pairs.append((key, as_number(often)))
    for key, value in pairs:
        if not 0 <= value < np.inf:
            raise InputError(f"the count of {key!r:.60} is {value:g}: counts are finite, and at least 0")
        asked[key_slot(key.encode())] += value
    return asked


def piped(client: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The answers to commands, many on the way at a time."""
    answers: list[Any] = []
    most = 1_000  # commands sent to a server before its answers are read
    with refusing("{reason}", library().RedisError):
        for begin in range(0, len(commands), most):
            line = client.pipeline(transaction=False)
            for command in commands[begin : begin + most]:
                line.execute_command(*command)
            answers += line.execute()
    return answers


def measured(one: Shard, keys: IntArray, sample: int) -> FloatArray:
    """Bytes in each slot of a master: its number of keys times the mean memory of the sampled keys."""
    held = np.flatnonzero(keys)
    looked = keys[held] if sample <= 0 else np.minimum(keys[held], sample)
    wanted = zip(one.slots[held].tolist(), looked.tolist(), strict=True)
    found = piped(one.client, [("CLUSTER GETKEYSINSLOT", slot, n) for slot, n in wanted])
    sizes = iter(piped(one.client, [("MEMORY USAGE", key, "SAMPLES", 0) for names in found for key in names]))
    state = np.zeros(keys.size)
    for j, names in zip(held, found, strict=True):
        seen = [size for size in (next(sizes) for _ in names) if size is not None]  # a key may have gone meanwhile
        state[j] = keys[j] * float(np.mean(seen)) if seen else 0.0
    return state


def slot_stats(one: Shard, busy: FloatArray) -> bool:
    """Fill in microseconds of processor time by slot; False where the server does not tell."""
    try:
        said = one.client.execute_command("CLUSTER SLOT-STATS", "SLOTSRANGE", 0, SLOTS - 1)
    except library().ResponseError:
        return False
    for slot, fields in said:
        table = {bytes(name): int(value) for name, value in zip(fields[::2], fields[1::2], strict=True)}
        if b"cpu-usec" not in table:
            return False  # cluster-slot-stats-enabled is off
        busy[int(slot)] = table[b"cpu-usec"]
    return True


# From a plan to scripts ---------------------------------------------------------------------------------------------


def slots_of(plan: Plan) -> list[tuple[int, str, str]]:
    """Slot, source and target of each move, in the plan's order; `InputError` where it is not a plan for Redis."""
    names = [str(plan.made_for.node(i)) for i in range(plan.capacity.size)]
    moves = []
    for k, source, target in zip(plan.key_group.tolist(), plan.source.tolist(), plan.target.tolist(), strict=True):
        label = str(plan.made_for.key(k))
        slot = Names("slot", None, SLOTS).find(label.removeprefix(LABEL)) if label.startswith(LABEL) else None
        if slot is None:
            raise InputError(f"{label:.60} is not a slot of Redis Cluster, such as slot-0")
        moves.append((slot, names[source], names[target]))
    return moves


SCRIPT = r"""#!/usr/bin/env bash
# {title}
# Each line may be run again. A password goes into REDISCLI_AUTH. Keys with a line break in their names: `keyshift run redis`.
set -euo pipefail
at() {{ redis-cli -e --raw -h "${{1%:*}}" -p "${{1##*:}}" "${{@:2}}"; }}
auth=(); [ -z "${{REDISCLI_AUTH:-}}" ] || auth=(AUTH "$REDISCLI_AUTH")
owns() {{ # node, slot
  at "$1" CLUSTER NODES | awk -v s="$2" '/myself/ {{ for (i = 9; i <= NF; i++) if ($i !~ /\[/) {{
    n = split($i, r, "-"); if (s + 0 >= r[1] + 0 && s + 0 <= r[n] + 0) found = 1 }} }} END {{ exit !found }}'
}}
epoch() {{ at "$1" CLUSTER INFO | tr -d '\r' | awk -F: -v f="cluster_$2_epoch" '$1 == f {{ print $2 }}'; }}
hear() {{ # node: wait until it has heard of the newest epoch, or its claim loses against what the source said a moment ago
  local newest; newest=$(for node in {masters}; do epoch "$node" my; done | sort -n | tail -1)
  until [ "$(epoch "$1" current)" -ge "$newest" ]; do sleep 0.05; done
}}
move() {{ # slot, source, target
  local to keys; to=$(at "$3" CLUSTER MYID)
  if ! owns "$3" "$1"; then
    at "$3" CLUSTER SETSLOT "$1" IMPORTING "$(at "$2" CLUSTER MYID)"
    at "$2" CLUSTER SETSLOT "$1" MIGRATING "$to"
    while [ "$(at "$2" CLUSTER COUNTKEYSINSLOT "$1")" -gt 0 ]; do
      mapfile -t keys < <(at "$2" CLUSTER GETKEYSINSLOT "$1" 100)
      at "$2" MIGRATE "${{3%:*}}" "${{3##*:}}" "" 0 60000 REPLACE "${{auth[@]}}" KEYS "${{keys[@]}}"
    done
    hear "$3"
    at "$3" CLUSTER SETSLOT "$1" NODE "$to"
  fi
  at "$2" CLUSTER SETSLOT "$1" NODE "$to" || true # a master without slots has become a replica
  for node in {masters}; do at "$node" CLUSTER SETSLOT "$1" NODE "$to" || true; done
}}
"""


def write_slots(plan: Plan, path: str | Path) -> list[Path]:
    """Write a plan as shell scripts of ``redis-cli`` (7.0 or later), two for each phase: one to move, one to move back.

    Parameters
    ----------
    plan : Plan
        Of a workload that `read_workload` read.
    path : str or Path
        A folder that does not exist, or is empty: ``STEPS.md``, ``NN-move.sh`` and ``NN-back.sh``.

    Raises
    ------
    InputError
        If the plan is not one for Redis, or the folder cannot be written.
    """
    moves, files = slots_of(plan), {}
    masters = " ".join(sorted({str(plan.made_for.node(i)) for i in range(plan.capacity.size)}))
    said = f"Moves of {counted(len(plan), 'slot')}, {plan.state_moved:,.0f} bytes. For each phase, in this order:"
    steps = ["# Slots", "", said, ""]
    for phase in plan.phases:
        n, there = f"{phase.number:02}", [moves[row] for row in phase.moves]
        back = [(slot, target, source) for slot, source, target in reversed(there)]
        for way, title, hops in (("move", f": {counted(len(there), 'slot')}", there), ("back", ", the way back", back)):
            lines = "".join(f"move {slot} {source} {target}\n" for slot, source, target in hops)
            files[f"{n}-{way}.sh"] = SCRIPT.format(title=f"Phase {phase.number}{title}", masters=masters) + lines
        steps += [f"    bash {n}-move.sh", ""]
    steps += ["Back again, later phases first: `bash NN-back.sh`. After a break, run the same script once more."]
    return write_folder(path, {"STEPS.md": with_notes("\n".join(steps) + "\n", plan), **files})
