"""Replicas of Kafka's partitions as key groups of their own: labels, loads, the rules that they need, and lists of them again.

The key ``orders-3/1`` is the second replica in the list of partition 3. The leader's key group comes before those of the
followers; as a rule it is ``orders-3/0``, the preferred leader. Where leader and follower change places, two key groups
move, but no data: the reassignment only says who leads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyshift.engines.kafka_files import Partition, Replicas
from keyshift.models.errors import InputError
from keyshift.models.rules import Apart, Never, Pinned, Rule, Spread
from keyshift.models.workload import IntArray, Workload

if TYPE_CHECKING:
    from keyshift.plans.plan import Plan


LEADER, FOLLOWER = "leader", "follower"
ALL_REPLICAS = "Each replica is planned, leaders and followers; where they change places, only leadership moves."
"""Outputs about replicas begin with this."""

_LABEL = re.compile(r"(?P<partition>[^ /]+)/(?P<number>[0-9]{1,9})")


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
    keys = [f"{p}/{lists[p].index(b)}" for p, r in replicas.items() for b in r]
    columns: dict[str, list[str | int]] = {"topic": [], "partition": [], "role": [], "replicas": []}
    for p, r in replicas.items():
        columns["topic"] += [p.topic] * len(r)
        columns["partition"] += [str(p)] * len(r)
        columns["role"] += [LEADER, *[FOLLOWER] * (len(r) - 1)]
        columns["replicas"] += [len(r)] * len(r)
    return keys, columns


WELL, OFFLINE, MOVING = "well", "offline-", "moving"
"""Labels of the column `standing`: a replica whose directory, on the broker that follows, cannot be read; one on its way."""


def standing(broker: int, offline: Iterable[int], moving: Iterable[int]) -> str:
    """The label of a replica on a broker."""
    return f"{OFFLINE}{broker}" if broker in offline else MOVING if tuple(moving) else WELL


def standing_rules(workload: Workload) -> list[Rule]:
    """The rules of a cluster that is not well.

    Replicas in directories that cannot be read leave their broker, and what moves between two directories of a broker stays;
    `read_workload` of `kafka` labels them.
    """
    found = sorted(set(map(str, workload.groups.get("standing", ()))) - {WELL})
    left: list[Rule] = [
        Never({"standing": label}, [label.removeprefix(OFFLINE)]) for label in found if label.startswith(OFFLINE)
    ]
    return left + ([Pinned({"standing": MOVING})] if MOVING in found else [])


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


def replica_of(key: Any) -> tuple[Partition, int] | None:
    """The partition and the number that a key such as ``orders-3/1`` names; None for keys of whole partitions."""
    found = _LABEL.fullmatch(str(key))
    return None if found is None else (Partition.of(found["partition"], "a key"), int(found["number"]))


def members_of(keys: Sequence[Any]) -> dict[Partition, list[int]]:
    """The key groups of each partition, its leader's first; none where keys are of whole partitions."""
    found: dict[Partition, dict[int, int]] = {}
    for k, key in enumerate(keys):
        replica = replica_of(key)
        if replica is None:
            if found:
                raise InputError(f"the key {str(key)!r:.80} is not a replica, such as orders-3/0, and others are")
            continue
        if not found and k:
            raise InputError(f"the key {str(keys[0])!r:.80} is not a replica, such as orders-3/0, and others are")
        found.setdefault(replica[0], {})[replica[1]] = k
    for p, held in found.items():
        if sorted(held) != list(range(len(held))):
            raise InputError(f"the replicas of {p} are not numbered from 0 on: {', '.join(map(str, sorted(held)))}")
    return {p: list(held.values()) for p, held in found.items()}


def lists_of(members: Mapping[Partition, list[int]], nodes: IntArray, brokers: Sequence[int]) -> Replicas:
    """The replicas of each partition for key groups on these nodes, the leader's broker first."""
    return {p: tuple(brokers[i] for i in nodes[held].tolist()) for p, held in members.items()}


def lists_of_plan(
    plan: Plan, members: Mapping[Partition, list[int]], brokers: Sequence[int]
) -> tuple[Replicas, Replicas, dict[Partition, int]]:
    """The lists before a plan, as Kafka has them; those after it, the leader first; and the phase in which each changes.

    A partition changes once, in the phase of its first move: no broker is named twice in between, no rack has replicas of it
    that it has neither before nor after, and what is there already is not copied again.

    Raises
    ------
    InputError
        If the plan leads two replicas of a partition to one broker.
    """
    numbered = {p: sorted(held, key=lambda k: replica_of(plan.made_for.key(k))[1]) for p, held in members.items()}  # type: ignore[index]
    before, after = lists_of(numbered, plan.current, brokers), lists_of(members, plan.assignment, brokers)
    for p, listed in after.items():
        if len(set(listed)) < len(listed):
            said = f"the plan leads two replicas of {p} to one broker: solve with rules (--rules), as imported"
            raise InputError(said)
    partition = {k: p for p, held in members.items() for k in held}
    phases: dict[Partition, int] = {}
    for phase in plan.phases:
        for row in phase.moves:
            phases.setdefault(partition[int(plan.key_group[row])], phase.number)
    return before, after, phases
