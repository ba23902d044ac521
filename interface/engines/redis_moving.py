"""Redis Cluster: carry a plan out, slot by slot, at a bounded pace, so that a run that was killed is simply started again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keyshift.engines.redis import PATIENCE, Shard, Shards, connected, library, piped, refuse_unfinished, slots_of
from keyshift.models.errors import InputError
from keyshift.plans.plan import Plan


class Moved(NamedTuple):
    """The slots and keys that a run moved, or would move.

    Attributes
    ----------
    slots, already : int
        Slots that moved, and slots that were already at their target.
    healed : int
        Slots that an earlier run had left half-way.
    keys : int
    state : float
        Bytes in memory of the keys that moved.
    seconds : float
    dry_run : bool
    """

    slots: int
    already: int
    healed: int
    keys: int
    state: float
    seconds: float
    dry_run: bool


class Pace:
    """A limit on keys and bytes a second, on average."""

    def __init__(self, keys: float | None, state: float | None) -> None:
        self.most = np.array([np.inf if keys is None else keys, np.inf if state is None else state])
        self.sent, self.begun = np.zeros(2), time.monotonic()

    def sent_off(self, keys: int, state: float) -> None:
        """Wait until the average rate is within the limit again."""
        self.sent += keys, state
        ahead = float((self.sent / self.most).max()) - (time.monotonic() - self.begun)
        if ahead > 0:
            time.sleep(ahead)


def execute(
    plan: Plan,
    url: str,
    *,
    dry_run: bool = True,
    keys_per_second: float | None = None,
    bytes_per_second: float | None = None,
    batch: int = 100,
    phases: int | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> Moved:
    """Carry a plan out on a running cluster; started again after an interruption, it continues where it stopped.

    Clients may read and write meanwhile: a key is at its source or its target, and the source redirects clients (ASK).
    If a key is at both after a broken connection, the source's value counts, since clients ask the source first.

    Parameters
    ----------
    plan : Plan
        Of a workload that `keyshift.engines.redis.read_workload` read.
    url : str
        Any node of the cluster.
    dry_run : bool
        Only report what would be moved.
    keys_per_second, bytes_per_second : float, optional
        The pace, on average; bytes are those in memory.
    batch : int
        Keys in one MIGRATE, during which source and target serve no clients.
    phases : int, optional
        Carry out this many phases only.
    watch : callable, optional
        Called after each slot with slots done and slots in all.

    Raises
    ------
    InputError
        Before anything moves: if a slot belongs to another master than the plan's source or target, or if other slots
        are being moved. Later: if a server fails; run it again when the server is back.
    """
    for name, value in (("keys_per_second", keys_per_second), ("bytes_per_second", bytes_per_second), ("batch", batch)):
        if value is not None and not value > 0:
            raise InputError(f"{name} is {value:g}: it must be above 0")
    moves = slots_of(plan)
    wanted = [moves[row] for phase in plan.phases[:phases] for row in phase.moves]
    begun, cluster = time.monotonic(), connected(url)
    try:
        there = planned_places(cluster, moves)
        opened = {slot for one in cluster.masters.values() for slot in one.open}
        todo = [hop for hop in wanted if not there[hop[0]] or hop[0] in opened]
        healed = sum(slot in opened for slot, _, _ in todo)
        sources = {slot: cluster.one(source).client for slot, source, _ in todo}
        if dry_run:
            keys = sum(piped(client, [("CLUSTER COUNTKEYSINSLOT", slot)])[0] for slot, client in sources.items())
            sizes = {moves[row][0]: float(plan.state[row]) for row in range(len(plan))}
            state = sum(sizes[slot] for slot, _, _ in todo)
            return Moved(len(todo), len(wanted) - len(todo), healed, keys, state, time.monotonic() - begun, True)
        pace, keys, state = Pace(keys_per_second, bytes_per_second), 0, 0.0
        for done, hop in enumerate(todo, 1):
            moved = move_slot(cluster, hop, there[hop[0]], batch, pace)
            keys, state = keys + moved[0], state + moved[1]
            if watch is not None:
                watch(done, len(todo))
        return Moved(len(todo), len(wanted) - len(todo), healed, keys, state, time.monotonic() - begun, False)
    except library().RedisError as error:
        raise InputError(f"{error}: the slot is left half-way; run the plan again to go on") from None
    finally:
        cluster.close()


def planned_places(cluster: Shards, moves: list[tuple[int, str, str]]) -> dict[int, bool]:
    """For each slot of a plan, whether its target owns it already; refuse slots on a third master."""
    names, there = list(cluster.masters), {}
    refuse_unfinished(cluster, {slot: True for slot, _, _ in moves})
    for slot, source, target in moves:
        owner = names[cluster.owner[slot]] if cluster.owner[slot] >= 0 else "no master"
        there[slot] = bool(np.isin(slot, cluster.one(target).slots))
        if not there[slot] and not (source in cluster.masters and np.isin(slot, cluster.masters[source].slots)):
            raise InputError(f"slot {slot} is on {owner} now, the plan expects {source}: import again, and plan anew")
    return there


def move_slot(cluster: Shards, hop: tuple[int, str, str], there: bool, batch: int, pace: Pace) -> tuple[int, float]:
    """Move one slot, or finish its move; the keys sent, and their bytes."""
    slot, source, target = hop[0], cluster.one(hop[1]), cluster.one(hop[2])
    keys, state = 0, 0.0
    if not there:
        target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", source.id)
        source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", target.id)
        while names := source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, batch):
            sizes = piped(source.client, [("MEMORY USAGE", key, "SAMPLES", 0) for key in names])
            size = float(sum(s or 0 for s in sizes))
            source.client.execute_command(*migrate(target, names))
            keys, state = keys + len(names), state + size
            pace.sent_off(len(names), size)
        wait_for_epochs(cluster, target)
        target.client.execute_command("CLUSTER SETSLOT", slot, "NODE", target.id)
    try:
        source.client.execute_command("CLUSTER SETSLOT", slot, "NODE", target.id)
    except library().ResponseError:
        if source.client.execute_command("ROLE")[0] == b"master":  # one without slots has become a replica by itself
            raise
    for one in cluster.masters.values():  # the others hear of it from each other as well, only later
        with contextlib.suppress(library().RedisError):
            one.client.execute_command("CLUSTER SETSLOT", slot, "NODE", target.id)
    return keys, state


def wait_for_epochs(cluster: Shards, target: Shard) -> None:
    """Wait until a target has heard of the newest epoch of all, so that its own claim of a slot will be newer.

    A claim that is older than its source's loses the slot again to whatever the source said a moment ago - it may have
    got a new epoch for another slot - and a master that loses a slot deletes the keys in it.
    """
    until = time.monotonic() + PATIENCE
    said = (one.client.execute_command("CLUSTER INFO") for one in cluster.masters.values())
    newest = max(int(about["cluster_my_epoch"]) for about in said)
    while int(target.client.execute_command("CLUSTER INFO")["cluster_current_epoch"]) < newest:
        if time.monotonic() > until:
            raise InputError(f"{target.name} gets no messages from the other masters; run the plan again when it does")
        time.sleep(0.005)


def migrate(target: Any, names: list[bytes]) -> list[Any]:
    """The command that sends keys to a target, with the credentials of its connection."""
    host, _, port = target.name.rpartition(":")
    given = target.client.connection_pool.connection_kwargs
    user, password = given.get("username"), given.get("password")
    secret = ["AUTH2", user, password] if user and password else ["AUTH", password] if password else []
    # Milliseconds that a server may take to send a batch.
    return ["MIGRATE", host, int(port), "", 0, 60_000, "REPLACE", *secret, "KEYS", *names]
