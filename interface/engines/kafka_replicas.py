"""Replicas of Kafka's partitions as key groups of their own: labels, loads, the rules that they need, and lists of them again.

The key ``orders-3/1`` is the second replica in the list of partition 3. The leader's key group comes before those of the
followers; as a rule it is ``orders-3/0``, the preferred leader. Where leader and follower change places, two key groups
move, but no data: the reassignment only says who leads.

Where the plan is to change how many replicas there are, keys end with the list of today: ``orders-3/2 [1,4]`` is a replica that
is to be made, which the node ``unplaced`` has until then, and no key has the place of one that is to go.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keyshift.engines.kafka_files import Partition, Replicas
from keyshift.models.errors import InputError
from keyshift.models.rules import Apart, Moves, Never, Only, Pinned, Rule, Spread
from keyshift.models.workload import IntArray, Workload
from keyshift.plans.plan import Plan

LEADER, FOLLOWER = "leader", "follower"
ALL_REPLICAS = "Each replica is planned, leaders and followers; where they change places, only leadership moves."
"""Outputs about replicas begin with this."""

UNPLACED = "unplaced"
"""The node, which drains, of replicas that are to be made."""

_LABEL = re.compile(r"(?P<partition>[^ /]+)/(?P<number>[0-9]{1,9})( \[(?P<replicas>[0-9]+(,[0-9]+)*)\])?")


class Shares(NamedTuple):
    """The load of each partition's leader, and that of each of its followers, in the order of the partitions."""

    leader: Sequence[float]
    follower: Sequence[float]

    def of(self, replicas: Replicas) -> list[float]:
        """One value for each replica."""
        each = zip(replicas.values(), self.leader, self.follower, strict=True)
        return [x for r, leads, follows in each for x in (leads, *[follows] * (len(r) - 1))]


def traffic(replicas: Replicas, come: Sequence[float], go: Sequence[float]) -> dict[str, Shares]:
    """Network in and out of leader and follower, of what clients write and read each second: a leader feeds its followers."""
    fed = [i * (len(r) - 1) for r, i in zip(replicas.values(), come, strict=True)]
    out = [o + i for o, i in zip(go, fed, strict=True)]
    return {"network_in": Shares(come, come), "network_out": Shares(out, [0.0] * len(out))}


def labels(replicas: Replicas, lists: Replicas) -> tuple[list[str], dict[str, list[str | int]]]:
    """The key of each replica, by its place in Kafka's list, and what rules may name it by; leaders come first."""
    keys, columns = [], {"topic": [], "partition": [], "role": [], "replicas": []}  # type: ignore[var-annotated]
    for p, r in replicas.items():
        more = itertools.count(len(lists[p]))
        said = "" if len(r) == len(lists[p]) else f" [{','.join(map(str, lists[p]))}]"
        keys += [f"{p}/{next(more) if str(b) == UNPLACED else lists[p].index(b)}{said}" for b in r]
        columns["topic"] += [p.topic] * len(r)
        columns["partition"] += [str(p)] * len(r)
        columns["role"] += [LEADER, *[FOLLOWER] * (len(r) - 1)]
        columns["replicas"] += [len(r)] * len(r)
    return keys, columns


WELL, OFFLINE, MOVING, ANYWHERE, EXCLUDED = "well", "offline-", "moving", "anywhere", "EXCLUDED"
"""Labels. Of the column `standing`: partitions with replicas that the brokers that follow cannot read; those on their way. Of the
column `allowed`, which else names brokers. Of the domain `state`: brokers that get nothing more."""


def standing(offline: Collection[int], moving: Collection[int]) -> str:
    """The label of all replicas of a partition: Kafka makes none on a broker where one cannot be read."""
    return OFFLINE + ",".join(map(str, sorted(offline))) if offline else MOVING if moving else WELL


def standing_rules(workload: Workload) -> list[Rule]:
    """The rules that follow from the labels of `kafka.read_workload`, for every problem.

    Partitions with replicas in directories that cannot be read have none on that broker, and what moves between two directories
    of a broker stays. Leaders stay among the brokers that they are allowed. Excluded brokers get nothing more.
    """

    def there(brokers: str) -> list[str]:
        return [b for b in brokers.split(",") if workload.names_of_nodes.find(b) is not None]

    marks, allowed = (sorted(set(map(str, workload.groups.get(name, ())))) for name in ("standing", "allowed"))
    offline = {mark: there(mark.removeprefix(OFFLINE)) for mark in marks if mark.startswith(OFFLINE)}
    made: list[Rule] = [Never({"standing": mark}, brokers) for mark, brokers in offline.items() if brokers]
    made += [Pinned({"standing": MOVING})] if MOVING in marks else []
    made += [Only({"allowed": brokers}, there(brokers)) for brokers in allowed if brokers != ANYWHERE]
    return made + ([Moves(0, into={"state": EXCLUDED})] if EXCLUDED in workload.domains.get("state", ()) else [])


def replica_rules(workload: Workload) -> list[Rule]:
    """The rules of a cluster of replicas, for the parameter `rules` of a problem.

    Replicas of a partition are on different brokers and, where racks are known, on different racks; where there are fewer racks
    than replicas, each rack has its share. Brokers that drain keep none, and demoted ones (of Cruise Control) no leader;
    those of `standing_rules` are added.

    Parameters
    ----------
    workload : Workload
        As `read_workload` of this module or of `cruise_control` makes it with ``replicas=True``.
    """
    if not {"partition", "replicas"} <= set(workload.groups):
        raise InputError("the workload has no replicas: read it with replicas=True")
    counts = sorted(map(int, set(workload.groups["replicas"]) - {1}))
    staying = {label for label, kept in zip(workload.domains.get("rack", ()), workload.kept, strict=False) if kept}
    made: list[Rule] = []
    if len(staying) < max(counts, default=0):
        made.append(Apart(by="partition"))
    if few := [c for c in counts if c <= len(staying)]:
        made.append(Apart(None if few == counts else {"replicas": few}, domain="rack", by="partition"))
    for c in counts[len(few) :] if len(staying) > 1 else ():
        chosen = None if counts == [c] else {"replicas": c}
        least = c // len(staying)
        made.append(Spread(chosen, "rack", at_least=least, at_most=least + (c % len(staying) > 0), by="partition"))
    if workload.draining.any():
        made.append(Never(None, [str(workload.node(i)) for i in np.flatnonzero(workload.draining)]))
    if "DEMOTED" in workload.domains.get("state", ()):
        made.append(Never({"role": LEADER}, {"state": "DEMOTED"}))
    return made + standing_rules(workload)


# From assignments to lists of replicas --------------------------------------------------------------------------------


class Replica(NamedTuple):
    """What a key such as ``orders-3/1`` names, and the list of today if it follows."""

    partition: Partition
    number: int
    today: tuple[int, ...]


def replica_of(key: Any) -> Replica | None:
    """The replica that a key names; None for keys of whole partitions."""
    found = _LABEL.fullmatch(str(key))
    if found is None:
        return None
    today = tuple(map(int, (found["replicas"] or "").split(","))) if found["replicas"] else ()
    return Replica(Partition.of(found["partition"], "a key"), int(found["number"]), today)


def members_of(keys: Sequence[Any]) -> dict[Partition, list[int]]:
    """The key groups of each partition, its leader's first; none where keys are of whole partitions."""
    found: dict[Partition, dict[int, int]] = {}
    listed: set[Partition] = set()
    for k, key in enumerate(keys):
        replica = replica_of(key)
        if replica is None:
            if found:
                raise InputError(f"the key {str(key)!r:.80} is not a replica, such as orders-3/0, and others are")
            continue
        if not found and k:
            raise InputError(f"the key {str(keys[0])!r:.80} is not a replica, such as orders-3/0, and others are")
        found.setdefault(replica.partition, {})[replica.number] = k
        if replica.today:
            listed.add(replica.partition)
    for p, held in found.items():
        if p not in listed and sorted(held) != list(range(len(held))):
            raise InputError(f"the replicas of {p} are not numbered from 0 on: {', '.join(map(str, sorted(held)))}")
    return {p: list(held.values()) for p, held in found.items()}


def lists_of(members: Mapping[Partition, list[int]], nodes: IntArray, brokers: Sequence[Any]) -> Replicas:
    """The replicas of each partition for key groups on these nodes, the leader's broker first, without new replicas."""
    return {p: tuple(brokers[i] for i in nodes[held].tolist() if brokers[i] != UNPLACED) for p, held in members.items()}


def lists_of_plan(
    plan: Plan, members: Mapping[Partition, list[int]], brokers: Sequence[Any]
) -> tuple[Replicas, Replicas, dict[Partition, int]]:
    """The lists before a plan, as Kafka has them; those after it, the leader first; and the phase in which each changes.

    A partition changes once, in the phase of its first move: no broker is named twice in between, no rack has replicas of it
    that it has neither before nor after, and what is there already is not copied again.

    Raises
    ------
    InputError
        If the plan leads two replicas of a partition to one broker.
    """
    named = {p: {k: replica_of(plan.made_for.key(k)) for k in held} for p, held in members.items()}
    numbered = {p: sorted(held, key=lambda k: held[k].number) for p, held in named.items()}  # type: ignore[union-attr]
    before, after = lists_of(numbered, plan.current, brokers), lists_of(members, plan.assignment, brokers)
    before = {p: next(iter(named[p].values())).today or r for p, r in before.items()}  # type: ignore[union-attr]
    for p, listed in after.items():
        if len(set(listed)) < len(listed):
            said = f"the plan leads two replicas of {p} to one broker: solve with rules (--rules), as imported"
            raise InputError(said)
    return before, after, phases_of(plan, {k: p for p, held in members.items() for k in held})


def phases_of(plan: Plan, partition: Mapping[int, Partition]) -> dict[Partition, int]:
    """The phase in which each partition changes, that of its first move."""
    found: dict[Partition, int] = {}
    for phase in plan.phases:
        for row in phase.moves:
            found.setdefault(partition[int(plan.key_group[row])], phase.number)
    return found
