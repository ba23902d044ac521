"""From a plan to the files that ``kafka-reassign-partitions`` and ``kafka-leader-election`` read, phase by phase, and back.

Where only leaders are planned, a leader moves in one of three ways, none of which loses or doubles a replica:

1. the target holds a replica: both change places in the list. No data travel, only leadership;
2. with racks known, a follower shares the target's rack: the target takes the follower's place, the old leader stays
   as a follower. The racks of the partition stay the same;
3. else the target takes the old leader's place.

The first of a list is the preferred leader. Where another one leads, and the plan leaves it so, it is put first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from keyshift.engines import kafka_files
from keyshift.engines.formats import as_json, counted, some, with_notes, write_folder
from keyshift.engines.kafka_cluster import listed, refuse_observed, refuse_under_way, under_way_by
from keyshift.engines.kafka_files import ANY, Described, Listed, LogDirs, Partition, Racks, RacksOf, Replicas
from keyshift.engines.kafka_replicas import ALL_REPLICAS, UNPLACED, lists_of_plan, members_of, phases_of, replica_of
from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray
from keyshift.plans.plan import Plan

LEADERS_ONLY = "Leaders only: followers stay where they are, or make room for a leader; disks are not balanced."
"""Outputs about partitions as a whole begin with this."""
DIRECTORIES = "The directories of one broker are planned: replicas stay on it, and no leader changes."
NOT_LOOKED = (
    "Racks are not known here (--racks): whether a partition ends with two replicas in one rack was not looked at."
)

_LABEL = re.compile(r"(?P<partition>[^ ]+) \[(?P<replicas>[0-9]+(,[0-9]+)*)\]")


class Reassignment(NamedTuple):
    """The files of a reassignment.

    Attributes
    ----------
    files : list of Path
        ``STEPS.md``, and for each phase ``NN-reassign.json``, ``NN-rollback.json`` and, unless directories alone change,
        ``NN-elect.json``, NN the plan's number.
    elections, copies, between : int
        Partitions that get another leader without a copy; replicas that are copied to another broker, and to another directory.
    state_copied : float
        State of the latter two, in the workload's unit (bytes).
    followers_left : dict of int to int
        Draining brokers, and how many replicas they keep as followers; 0 if each replica is planned.
    note : str
        What was planned: leaders only, each replica, or the directories of a broker.
    said : tuple of str
        Racks that get two replicas of a partition, or that racks were not checked; further notes for the operator.
    """

    files: list[Path]
    elections: int
    copies: int
    between: int
    state_copied: float
    followers_left: dict[int, int]
    note: str = LEADERS_ONLY
    said: tuple[str, ...] = ()


class _Now(NamedTuple):
    """What the files that were fetched anew say."""

    listed: Mapping[Partition, Listed]
    described: Mapping[Partition, Described]
    logs: LogDirs | None

    @property
    def lists(self) -> dict[Partition, tuple[int, ...]]:
        """The brokers of each partition."""
        known = {p: each.replicas for p, each in self.listed.items()}
        return {**known, **{p: each.replicas for p, each in self.described.items()}}

    @property
    def perhaps_down(self) -> set[int]:
        """Brokers that are in sync nowhere, and have replicas."""
        held = {b for each in self.described.values() for b in each.replicas}
        return held - {b for each in self.described.values() for b in each.in_sync}

    def directory(self, p: Partition, broker: int) -> str:
        """The directory of a replica."""
        if self.logs is not None and (folder := self.logs.directory(p, broker)) != ANY:
            return folder
        return self.listed[p].directories.get(broker, ANY) if p in self.listed else ANY


Directories = Mapping[tuple[Partition, int], str]
"""The directory of a partition's replica on a broker."""


class _Change(NamedTuple):
    """A plan as lists: before it, who leads, after it, and the phase of each partition that changes.

    Beside them the directories of replicas that go into one, and of those that leave one of the same broker.
    """

    before: Replicas
    leader: Mapping[Partition, int]
    after: Replicas
    phase: Mapping[Partition, int]
    into: Directories = MappingProxyType({})
    out_of: Directories = MappingProxyType({})

    @property
    def changed(self) -> list[Partition]:
        """The partitions that change."""
        moved = {p for p, _ in self.out_of}
        return [p for p, r in self.after.items() if r != self.before[p] or p in moved]


def write_reassignment(
    plan: Plan,
    path: str | Path,
    *,
    assignment: str | Path | None = None,
    describe: str | Path | None = None,
    log_dirs: str | Path | None = None,
    racks: Racks | None = None,
) -> Reassignment:
    """Write the files that ``kafka-reassign-partitions`` reads: for each phase the move, the elections, and the way back.

    Parameters
    ----------
    plan : Plan
        Of a workload whose nodes are named by broker ids, or by the directories of one broker.
    path : str or Path
        A folder that does not exist, or is empty.
    assignment, describe : str or Path, optional
        The current assignment, and what ``kafka-topics --describe`` printed, fetched anew: compared with the plan's. One is
        needed if the keys do not list replicas. Directories that `assignment` names are restored on the way back.
    log_dirs : str or Path, optional
        What ``kafka-log-dirs --describe`` printed, fetched anew. Each copy goes into the directory of its broker that has the
        fewest bytes by then, the largest first; the way back leads into the directories of today, also into one that is offline.
    racks : mapping of int to str, or a file or words ``1:a,2:b``, optional
        Rack of each broker. Where two replicas of a partition come into one rack, it is said. Where only leaders are planned,
        a move never brings the replicas of a partition onto fewer racks if it can be avoided.

    Raises
    ------
    InputError
        If a node is not a broker id or a key not a partition, if the assignment is not the one that the plan was made
        for, or if partitions are being reassigned.
    """
    now = _Now(
        {} if assignment is None else kafka_files.read_lists(assignment),
        {} if describe is None else kafka_files.read_topics(describe),
        None if log_dirs is None else kafka_files.read_log_dirs(log_dirs),
    )  # fmt: skip
    keys = [plan.made_for.key(k) for k in range(plan.current.size)]
    given = None if assignment is None and describe is None else now.lists
    known = None if racks is None else kafka_files.read_racks(racks)
    folders = _folders(plan)
    brokers = [] if folders else _brokers(plan)
    members = members_of(keys)
    if folders:
        change, note = _change_of_directories(plan, keys, folders, given, now), DIRECTORIES
        state = dict(zip(change.before, plan.made_for.state.tolist(), strict=True))
    elif members:
        before, after, phase = lists_of_plan(plan, members, brokers)
        leader = {p: brokers[int(plan.current[held[0]])] for p, held in members.items()}
        before = {p: _replicas(p, replicas, given, leader[p], now) for p, replicas in before.items()}
        change, note = _Change(before, leader, after, phase), ALL_REPLICAS
        state = {p: float(plan.made_for.state[held[0]]) for p, held in members.items()}
    else:
        change, note = _change_of_leaders(plan, keys, brokers, now, given, known), LEADERS_ONLY
        state = dict(zip(change.before, plan.made_for.state.tolist(), strict=True))
    if now.logs is not None and not folders:
        change = change._replace(into=_emptiest(change, now.logs))
    refuse_under_way({p: said for p, said in under_way_by(now.described).items() if p in change.before})
    refuse_observed([p for p, d in now.described.items() if d.observers and p in change.before])
    for p, d in now.described.items():
        if p in change.leader and d.leader != change.leader[p]:
            raise InputError(f"{p} is led by broker {d.leader} now, the plan expects {change.leader[p]}: import again")
    return _write(plan, path, _Written(change, state, note, now, known, brokers))


class _Written(NamedTuple):
    """All that is written of a plan."""

    change: _Change
    state: Mapping[Partition, float]
    note: str
    now: _Now
    racks: RacksOf | None
    brokers: Sequence[int | str]


def _write(plan: Plan, path: str | Path, of: _Written) -> Reassignment:
    change, phases = of.change, dict[int, list[Partition]]()
    changed = change.changed
    first = min((change.phase[p] for p in changed if p in change.phase), default=0)
    # What the plan leaves, but is led by another than the first of its list or loses a replica, comes with the first phase.
    for p in changed:
        phases.setdefault(change.phase.get(p, first), []).append(p)
    elections, copied, between, state_copied = 0, 0, 0, 0.0
    files: dict[str, str] = {}
    steps: list[tuple[str, int]] = []  # number, partitions
    for number, partitions in sorted(phases.items()):
        lists = {p: change.after[p] for p in partitions}
        copies = {p: len(set(r) - set(change.before[p])) for p, r in lists.items()}
        elections += sum(copies[p] == 0 and r[0] != change.leader[p] for p, r in lists.items() if p in change.leader)
        copied += sum(copies.values())
        moved = [p for p, _ in change.out_of if p in lists]
        between += len(moved)
        state_copied += sum(of.state[p] * count for p, count in copies.items()) + sum(of.state[p] for p in moved)
        steps.append((f"{number:02}", len(lists)))
        files[f"{number:02}-reassign.json"] = as_json(
            kafka_files.reassignment(lists, lambda p, b: change.into.get((p, b), ANY))
        )
        if of.note != DIRECTORIES:
            files[f"{number:02}-elect.json"] = as_json(kafka_files.election(partitions))
        back = {p: change.before[p] for p in lists}
        held = kafka_files.reassignment(back, lambda p, b: change.out_of.get((p, b)) or of.now.directory(p, b))
        files[f"{number:02}-rollback.json"] = as_json(held)
    leaving = [of.brokers[i] for i in np.flatnonzero(plan.leaving).tolist() if of.brokers[i : i + 1] != [UNPLACED]]
    each = of.note != LEADERS_ONLY
    kept = {int(b): sum(b in r[0 if each else 1 :] for r in change.after.values()) for b in sorted(leaving)}
    said = tuple(_said(plan, of, changed, leaving))
    followers = {b: n for b, n in kept.items() if n}
    made = Reassignment([], elections, copied, between, state_copied, followers, of.note, said)
    count = len(changed) if each else sum(r[0] != change.leader[p] for p, r in change.after.items())
    text = with_notes(_steps(made, count, steps, plan.bandwidth), plan)
    return made._replace(files=write_folder(path, {"STEPS.md": text, **files}))


def _emptiest(change: _Change, logs: LogDirs) -> Directories:
    """The directory of each copy: that of its broker which has the fewest bytes by then; the largest are placed first."""
    held = {b: dict.fromkeys(folders, 0) for b, folders in logs.readable.items()}
    for p, there in logs.directories.items():
        for b, folder in there.items():
            if b in change.after.get(p, (b,)):
                held[b][folder] += logs.sizes[p][b]
    largest = {p: max(logs.sizes.get(p, {}).values(), default=0) for p in change.after}
    copies = [
        (-largest[p], p, b) for p, r in change.after.items() for b in r if b in held and b not in change.before[p]
    ]
    made: dict[tuple[Partition, int], str] = {}
    for _, p, b in sorted(copies):
        made[p, b] = min(held[b], key=lambda folder: (held[b][folder], folder))
        held[b][made[p, b]] += largest[p]
    return made


def _said(plan: Plan, of: _Written, changed: Sequence[Partition], leaving: Sequence[int | str]) -> list[str]:
    """Sentences about racks, about what stands on draining brokers beside the plan, and about brokers that may be down."""
    change, said = of.change, []
    counts = Counter((len(change.before[p]), len(change.after[p])) for p in changed)
    said += [
        f"{counted(n, 'partition')} with {b} replicas before and {a} after."
        for (b, a), n in sorted(counts.items())
        if a != b
    ]
    if UNPLACED in of.brokers and (left := int((plan.assignment == of.brokers.index(UNPLACED)).sum())):
        said.append(f"{counted(left, 'replica')} to be made: the plan has no place for them, and they are not made.")
    if of.note == DIRECTORIES:
        return said
    said += [NOT_LOOKED] if of.racks is None else _about_racks(change, changed, of.racks)
    for b in leaving:
        if beside := [p for p, r in of.now.lists.items() if b in r and p not in change.before]:
            said.append(f"Broker {b} drains, and keeps replicas of {some(beside)}, which the plan does not have.")
    for b in sorted(of.now.perhaps_down):
        if named := [p for p in changed if b in change.after[p]]:
            said.append(
                f"Broker {b} is in sync nowhere: if it is down, Kafka refuses the lists of {some(named)}, which name it "
                "(Unknown broker id); plan with --replicas, so that these replicas leave it."
            )
    if strange := [p for p in changed if change.leader[p] != change.before[p][0]]:
        said.append(f"{some(strange)}: led by another than the first of the list; after the way back the first leads.")
    return said


def _about_racks(change: _Change, changed: Sequence[Partition], racks: RacksOf) -> list[str]:
    """Sentences about the racks of the partitions that change."""
    shared, fewer = [], []
    for p in changed:
        if needed := [b for b in change.after[p] if b not in racks.of]:
            raise InputError(f"{racks.source} does not name broker {needed[0]}, which {p} needs")
        rack, count = Counter(racks.of[b] for b in change.after[p]).most_common(1)[0]
        if count > 1:
            there = [b for b in change.after[p] if racks.of[b] == rack]
            shared.append(f"{p} (brokers {listed(there)} in {rack})")
        if len({racks.of[b] for b in change.after[p]}) < len({racks.of.get(b) for b in change.before[p]}):
            fewer.append(p)
    many = f"Two replicas or more in one rack after the plan: {counted(len(shared), 'partition')}, {some(shared, 5)}."
    said = [many if shared else "No partition that changes ends with two replicas in one rack."]
    return said + (
        [f"On fewer racks than before: {counted(len(fewer), 'partition')}, {some(fewer, 5)}."] if fewer else []
    )


def _change_of_directories(
    plan: Plan,
    keys: Sequence[str | int],
    folders: Sequence[tuple[int, str]],
    given: Mapping[Partition, tuple[int, ...]] | None,
    now: _Now,
) -> _Change:
    """The change of a plan for the directories of a broker: lists stay as they are."""
    before: dict[Partition, tuple[int, ...]] = {}
    for key in keys:
        replica = replica_of(key)
        if replica is None or not replica.today:
            raise InputError(f"the key {str(key)!r:.80} is no replica with a list of brokers, such as orders-3/1 [1,4]")
        p = replica.partition
        before[p] = _replicas(p, replica.today, given, replica.today[0], now)
        broker, folder = folders[int(plan.current[len(before) - 1])]
        if now.logs is not None and now.logs.directory(p, broker) != folder:
            raise InputError(f"{p} is not in {folder} of broker {broker} any more: import again")
    names = list(before)
    into, out_of = {}, {}
    for k in np.flatnonzero(plan.assignment != plan.current).tolist():
        broker, into[names[k], broker] = folders[int(plan.assignment[k])]
        _, out_of[names[k], broker] = folders[int(plan.current[k])]
    return _Change(before, {}, before, phases_of(plan, dict(enumerate(names))), into, out_of)


def _change_of_leaders(
    plan: Plan,
    keys: Sequence[str | int],
    brokers: Sequence[Any],
    now: _Now,
    given: Mapping[Partition, tuple[int, ...]] | None,
    racks: RacksOf | None,
) -> _Change:
    """The lists of a plan for leaders."""
    before: dict[Partition, tuple[int, ...]] = {}
    leader: dict[Partition, int] = {}
    names: list[Partition] = []
    for k, key in enumerate(keys):
        p, known = partition_of(str(key))
        leader[p] = brokers[int(plan.current[k])]
        before[p] = _replicas(p, known, given, leader[p], now)
        if leader[p] not in before[p] or (known is None and p not in now.described and before[p][0] != leader[p]):
            raise InputError(f"{p} is led by broker {before[p][0]}, the plan expects {leader[p]}")
        names.append(p)
    after = {p: (leader[p], *(b for b in r if b != leader[p])) for p, r in before.items()}
    phases: dict[Partition, int] = {}
    for phase in plan.phases:
        for row in phase.moves:
            p = names[int(plan.key_group[row])]
            target, phases[p] = brokers[int(plan.target[row])], phase.number
            after[p] = moved_leader(p, after[p], target, racks and racks.of, now.perhaps_down)
    return _Change(before, leader, after, phases)


def moved_leader(
    partition: Partition,
    replicas: tuple[int, ...],
    target: int,
    racks: Mapping[int, str] | None = None,
    down: set[int] | frozenset[int] = frozenset(),
) -> tuple[int, ...]:
    """Replicas, the leader first, once the target leads: as many as before, each on another broker, on no fewer racks.

    A leader that is down keeps no place, though that may cost a rack.
    """
    leader, *followers = replicas
    if target in followers:
        return (target, *(leader if b == target else b for b in followers))
    if racks is None or leader in down:
        return (target, *followers)
    for broker in (target, *replicas):
        if broker not in racks:
            raise InputError(f"the racks do not name broker {broker}, which {partition} needs")
    shared = next((b for b in followers if racks[b] == racks[target] != racks[leader]), None)
    return (target, *(leader if b == shared else b for b in followers))


def _folders(plan: Plan) -> list[tuple[int, str]]:
    """The broker and the directory that nodes such as ``4:/var/lib/kafka/b`` name; empty where nodes are named otherwise."""
    found = [re.fullmatch("([0-9]{1,9}):(.+)", str(plan.made_for.node(i))) for i in range(plan.capacity.size)]
    return [(int(name[1]), name[2]) for name in found if name] if all(found) else []


def _brokers(plan: Plan) -> list[Any]:
    """The broker that each node is; `UNPLACED` where it is none yet."""
    named = [plan.made_for.node(i) for i in range(plan.capacity.size)]
    if plan.made_for.node_names is None or plan.capacity.size > len(plan.made_for.node_names):
        raise InputError("the plan's nodes have no names: Kafka needs the broker id of each")
    for name in named:
        if name != UNPLACED and not re.fullmatch("0|[1-9][0-9]{0,9}", str(name)):
            raise InputError(f"node {name!r} is not a broker id")
    return [name if name == UNPLACED else int(name) for name in named]


def partition_of(label: str) -> tuple[Partition, tuple[int, ...] | None]:
    """The partition and replicas that a key names: ``orders-3 [2,1,4]``, or ``orders-3`` alone."""
    found = _LABEL.fullmatch(label)
    if found is None:
        return Partition.of(label, "a key of the plan"), None
    replicas = tuple(int(b) for b in found["replicas"].split(","))
    if len(set(replicas)) < len(replicas):
        raise InputError(f"the key {label!r} names a broker twice")
    return Partition.of(found["partition"], "a key of the plan"), replicas


def _replicas(
    p: Partition,
    known: tuple[int, ...] | None,
    given: Mapping[Partition, tuple[int, ...]] | None,
    leader: int,
    now: _Now,
) -> tuple[int, ...]:
    """The list of a partition now; refused where it is another than the plan's."""
    if given is None:
        if known is None:
            raise InputError(f"the key {p} does not list its replicas: give the cluster's, as assignment=")
        return known
    if p not in given:
        raise InputError(f"the assignment does not list {p}, which the plan needs")
    # Another order alone is no other place, if it is certain that the same broker leads.
    same = p in now.described and now.described[p].leader == leader and set(known or ()) == set(given[p])
    if known is not None and known != given[p] and not same:
        raise InputError(f"{p} is on {listed(given[p])} now, the plan was made for {listed(known)}: import again")
    return given[p]


def _steps(made: Reassignment, changed: int, steps: Sequence[tuple[str, int]], bandwidth: FloatArray | None) -> str:
    """The commands to run, in order."""
    within, copies = made.note == DIRECTORIES, counted(made.copies, "replica")
    if within:
        what = f"{counted(made.between, 'replica')} copied from one directory to another"
    elif made.note == ALL_REPLICAS:
        leaders = f"{counted(made.elections, 'leader')} without a copy"
        what = f"Of {counted(changed, 'partition')} the replicas change: {leaders}, {copies} copied"
    else:
        what = f"{counted(changed, 'new leader')}: {made.elections} by election alone, {made.copies} by a copy"
    role = " as a follower" if made.note == LEADERS_ONLY else ""
    lines = ["# Reassignment", "", f"**{made.note}**", "", f"{what} ({made.state_copied:,.0f} of state)."]
    lines += [f"Broker {b} drains, but keeps {counted(n, 'replica')}{role}." for b, n in made.followers_left.items()]
    lines += [""] if made.said else []
    lines += [_bullet(sentence) for sentence in made.said]
    if steps:
        lines += ["", "For each phase, in this order; go on when `--verify` says that all is complete:", ""]
    tool, elect = "kafka-reassign-partitions.sh --bootstrap-server HOST:9092", "kafka-leader-election.sh"
    limit = "--replica-alter-log-dirs-throttle" if within else "--throttle"
    pace = "" if bandwidth is None else f" \\\n  {limit} {max(1, int(bandwidth.min()))}"
    for n, partitions in steps:
        elected = (
            f"{elect} --bootstrap-server HOST:9092 \\\n  --election-type PREFERRED --path-to-json-file {n}-elect.json"
        )
        lines += [
            f"## Phase {int(n)}: {counted(partitions, 'partition')}", "", "```",
            f"{tool} \\\n  --reassignment-json-file {n}-reassign.json --execute{pace}",
            f"{tool} \\\n  --reassignment-json-file {n}-reassign.json --verify",
            *([] if within else [elected]), "```", "",
            f"Back again (later phases first): the same {'two' if within else 'three'} with `{n}-rollback.json` for "
            f"`{n}-reassign.json`.", "",
        ]  # fmt: skip
    if steps:
        lines += map(_bullet, AFTERWARDS)
        lines += ["- `--verify` takes the throttle away, once all is complete."] if pace else []
    return "\n".join(lines).rstrip() + "\n"


def _bullet(sentence: str) -> str:
    return fill(f"- {sentence}", 100, subsequent_indent="  ", break_long_words=False)


AFTERWARDS = [
    "After a break, of the tool or of a broker, `--verify` tells: *in progress* goes on by itself. Where there is no active "
    "reassignment, but the replica set is another than that of the file, or where a replica *is not being moved* to its "
    "directory: the same `--execute` again, with `--additional` if other partitions are under way. An election may be repeated "
    "at any time; of leaders that lead it says *Valid replica already elected*.",
    "`--cancel` in the place of `--execute` stops a phase half-way. The replicas come back, but Kafka may list them in another "
    "order, and so prefer other leaders: execute the rollback file as well, and elect.",
    "Every broker that a file names must be up, even if its replica stays; otherwise `--execute` ends with *Unknown broker id*. "
    "If a broker goes down meanwhile, its reassignments stay *in progress* until it is back.",
]
"""What is true of Kafka 4.3, whatever the plan."""
