"""Redis Cluster without a server: masters that keep their slots in memory, and can be cut off after any command."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import redis

import keyshift as ks
from keyshift.engines import redis as engine
from keyshift.engines.redis_moving import execute


class CutOff(BaseException):
    """The runner is killed here."""


class Servers:
    """Masters on ports 7000 and on: who owns which slot by whose word, keys and their bytes, how many commands are left."""

    def __init__(self, masters: int, keys: dict[str, int], last: int = 4096) -> None:
        bounds = np.append(np.linspace(0, 16384 - last, masters).astype(int), 16384)
        self.view = [np.repeat(np.arange(masters), np.diff(bounds)) for _ in range(masters)]
        self.open: list[dict[int, tuple[str, int]]] = [{} for _ in range(masters)]
        self.keys: list[dict[bytes, int]] = [{} for _ in range(masters)]
        self.slot = {key.encode(): redis.crc.key_slot(key.encode()) for key in keys}
        for key, size in keys.items():
            self.keys[self.view[0][self.slot[key.encode()]]][key.encode()] = size
        self.names: dict[int, list[bytes]] = {}
        for key, slot in sorted(self.slot.items()):
            self.names.setdefault(slot, []).append(key)
        self.left, self.flags, self.stats, self.said = np.inf, ["master"] * masters, None, []
        self.deaf, self.heard, self.talks = -1, 0, False

    def client(self, host, port, **settings):
        return Client(self, port - 7000, settings)

    def gossip(self):
        """Everyone hears who owns a slot, where one master says so."""
        for slot in np.flatnonzero(np.ptp(self.view, axis=0)):
            claim = [i for i, view in enumerate(self.view) if view[slot] == i]
            for view in self.view if len(claim) == 1 else []:
                view[slot] = claim[0]

    def all_keys(self) -> dict[bytes, int]:
        return {key: size for held in self.keys for key, size in held.items()}


class Client:
    """What one master answers, as redis-py hands it over."""

    def __init__(self, servers: Servers, me: int, settings: dict) -> None:
        self.all, self.me, self.waiting = servers, me, []
        self.connection_pool = SimpleNamespace(connection_kwargs=settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        pass

    def pipeline(self, transaction):
        line = Client(self.all, self.me, {})
        line.execute_command = lambda *command: line.waiting.append(command)
        line.execute = lambda: [self.execute_command(*command) for command in line.waiting]
        return line

    def execute_command(self, name, *given):
        if self.all.left <= 0:
            raise CutOff
        self.all.left -= name.startswith(("CLUSTER SETSLOT", "MIGRATE"))
        self.all.said.append((name, *given))
        return getattr(self, name.replace(" ", "_").replace("-", "_").lower())(*given)

    def cluster_nodes(self):
        return {
            f"10.0.0.{i}:{7000 + i}": {
                "node_id": f"{i:040}", "flags": ("myself," if i == self.me else "") + self.all.flags[i], "slots": self.spans(i),
                "migrations": [
                    {"slot": str(s), "state": state, "node_id": f"{other:040}"} for s, (state, other) in self.all.open[i].items()
                ] if i == self.me else [],
            }
            for i in range(len(self.all.view))
        }  # fmt: skip

    def cluster_info(self):
        self.all.heard += self.me == self.all.deaf
        return {"cluster_my_epoch": str(10 + self.me), "cluster_current_epoch": "13" if self.all.heard >= 0 else "5"}

    def spans(self, i):
        mine = np.flatnonzero(self.all.view[self.me] == i)
        parts = np.split(mine, np.flatnonzero(np.diff(mine) > 1) + 1) if mine.size else []
        return [[str(p[0])] if p.size == 1 else [str(p[0]), str(p[-1])] for p in parts]

    def in_slot(self, slot):
        return [key for key in self.all.names.get(slot, ()) if key in self.all.keys[self.me]]

    def cluster_countkeysinslot(self, slot):
        return len(self.in_slot(slot))

    def cluster_getkeysinslot(self, slot, most):
        return self.in_slot(slot)[:most]

    def memory_usage(self, key, *_):
        return self.all.keys[self.me].get(key)

    def cluster_slot_stats(self, *_):
        if self.all.stats is None:
            raise redis.ResponseError("unknown subcommand 'SLOT-STATS'")
        return [
            [s, [b"key-count", 1, b"cpu-usec", self.all.stats]]
            for s in np.flatnonzero(self.all.view[self.me] == self.me)
        ]

    def role(self):
        return [b"master" if "master" in self.all.flags[self.me] else b"slave"]

    def cluster_setslot(self, slot, what, node):
        if "master" not in self.all.flags[self.me]:
            raise redis.ResponseError("Please use SETSLOT only with masters.")
        mine, other = self.all.view[self.me][slot] == self.me, int(node)
        if (what == "IMPORTING" and mine) or (what == "MIGRATING" and not mine):
            raise redis.ResponseError("I'm (not) the owner of hash slot")
        if what != "NODE":
            self.all.open[self.me][slot] = (what.lower(), other)
            return
        if mine and other != self.me and self.in_slot(slot):
            raise redis.ResponseError("Can't assign hashslot to a different node while I still hold keys")
        self.all.view[self.me][slot] = other
        self.all.open[self.me].pop(slot, None)
        if what == "NODE" and other == self.me:  # the others hear of it at once, if told to
            for i, view in enumerate(self.all.view if self.all.talks else []):
                view[slot] = other
                if not (view == i).any():
                    self.all.flags[i] = "slave"
        if mine and not (self.all.view[self.me] == self.me).any():
            self.all.flags[self.me] = "slave"

    def migrate(self, host, port, key, database, wait, replace, *rest):
        self.all.secret, names = rest[: rest.index("KEYS")], rest[rest.index("KEYS") + 1 :]
        for name in names:
            if replace != "REPLACE" and name in self.all.keys[port - 7000]:
                raise redis.ResponseError("BUSYKEY Target key name already exists.")
            self.all.keys[port - 7000][name] = self.all.keys[self.me].pop(name)


KEYS = {f"user:{i}": 50 + i for i in range(120)} | {f"{{cart:{i // 20}}}:{i}": 100 for i in range(80)}
URL = "10.0.0.0:7000"


@pytest.fixture
def servers(monkeypatch):
    made = Servers(4, KEYS)
    monkeypatch.setattr(redis, "Redis", made.client)
    return made


ASKED = {key: float(1 + i % 17) ** 2 for i, key in enumerate(KEYS)}


def planned(servers, moves: int = 8) -> ks.Plan:
    """A plan that brings the slots most asked for to the next master."""
    w = engine.read_workload(URL, ASKED)
    assignment = w.current.copy()
    assignment[np.argsort(-w.last_load)[:moves]] += 1
    return ks.plan(ks.KeyGroupAllocation(w), assignment % 4, phase_moves=3)


def test_slots_that_hold_or_are_asked_for_something_are_key_groups(servers):
    w = engine.read_workload(URL)
    assert w.load.sum() == len(KEYS)
    assert w.state.sum() == sum(KEYS.values())
    assert w.node_names == tuple(f"10.0.0.{i}:{7000 + i}" for i in range(4))
    family = w.keys.index(f"slot-{redis.crc.key_slot(b'cart:0')}")
    assert (w.last_load[family], w.state[family]) == (20, 2000)  # one hash tag, one slot
    asked = engine.read_workload(URL, {"user:1": 5, "never set": 2})
    assert asked.load.sum() == 7
    tagged = engine.by_slot({"{cart:0}:1": 2, "{cart:0}:2": 3})
    assert tagged.max() == tagged.sum() == 5
    assert asked.key_groups == w.key_groups + 1
    assert engine.read_workload(URL, draining=["10.0.0.1:7001"]).key_groups > 4096  # its empty slots leave as well


def test_empty_slots_of_a_master_that_drains_are_spread(servers):
    w = engine.read_workload(URL, draining=["10.0.0.1:7001"])
    assert w.key_groups == engine.SLOTS
    assert w.resources["slots"].sum() == engine.SLOTS
    (rule,) = engine.slot_rules(w)
    most = max(np.bincount(w.current, minlength=4)[[0, 2, 3]].max(), -(-engine.SLOTS // 3))
    assert (rule.resource, rule.at_most) == ("slots", most)
    others = np.flatnonzero(w.kept)
    crowded = np.where(w.current == 1, others[0], w.current)
    shared = w.current.copy()
    shared[shared == 1] = np.resize(others, (shared == 1).sum())
    problem = ks.KeyGroupAllocation(w, rules=[rule])
    assert problem.check(shared).feasible
    assert not problem.check(crowded).feasible
    assert engine.slot_rules(engine.read_workload(URL)) == []


def test_a_cluster_without_keys_is_balanced_by_slots(monkeypatch):
    empty = Servers(4, {})
    monkeypatch.setattr(redis, "Redis", lambda **settings: empty.client(**settings))
    w = engine.read_workload(URL)
    assert w.last_load.tolist() == [1.0] * engine.SLOTS
    assert w.state.sum() == 0


def test_counts_come_from_a_file(servers, tmp_path):
    (tmp_path / "counts.csv").write_text("key,count\nuser:1,5\n{cart:0},x:7,2.5\n")
    w = engine.read_workload(URL, tmp_path / "counts.csv")
    assert w.last_load[w.keys.index(f"slot-{redis.crc.key_slot(b'cart:0')}")] == 2.5
    (tmp_path / "counts.csv").write_text("user:1,many\n")
    with pytest.raises(ks.InputError, match="line 1"):
        engine.read_workload(URL, tmp_path / "counts.csv")
    with pytest.raises(ks.InputError, match="at least 0"):
        engine.read_workload(URL, {"user:1": -1.0})


def test_servers_that_count_by_slot_say_the_load(servers):
    servers.stats = 7
    assert set(engine.read_workload(URL).last_load.tolist()) == {7.0}


def test_a_plan_is_carried_out_and_only_once(servers):
    plan, held = planned(servers), servers.all_keys()
    dry = execute(plan, URL)
    assert dry.dry_run
    assert dry.slots == len(plan) > 5
    assert dry.state == plan.state_moved
    assert servers.all_keys() == held
    assert not any(name == "MIGRATE" for name, *_ in servers.said)
    done = execute(plan, URL, dry_run=False)
    assert (done.slots, done.state) == (len(plan), plan.state_moved)
    after = engine.read_workload(URL, ASKED)
    assert np.array_equal(np.bincount(after.current, after.last_load, 4), plan.loads_after)
    assert servers.all_keys() == held
    again = execute(plan, URL, dry_run=False)
    assert (again.slots, again.already) == (0, len(plan))
    execute(plan.undo(), URL, dry_run=False)
    assert all((view == servers.view[0]).all() for view in servers.view)


def test_a_run_that_is_killed_after_any_command_goes_on(servers, monkeypatch):
    plan, held, commands = planned(servers, 3), servers.all_keys(), 0
    while True:
        fresh = Servers(4, KEYS)
        monkeypatch.setattr(redis, "Redis", fresh.client)
        fresh.left = commands
        try:
            execute(plan, URL, dry_run=False, batch=7)
            break
        except CutOff:
            pass
        fresh.left = np.inf
        fresh.gossip()
        execute(plan, URL, dry_run=False, batch=7)
        owner = fresh.view[0][[int(str(key).removeprefix("slot-")) for key in plan.moves["key"]]]
        assert np.array_equal(owner, plan.target), commands
        assert not any(fresh.open), commands
        assert fresh.all_keys() == held, commands
        assert all((view == fresh.view[0]).all() for view in fresh.view)
        commands += 1
    assert commands >= 3 * 8


def test_what_has_changed_since_the_plan_is_refused_before_anything_moves(servers):
    plan = planned(servers)
    slot, wrong = (
        int(str(plan.moves["key"].iloc[-1]).removeprefix("slot-")),
        next(i for i in range(4) if i not in (plan.source[-1], plan.target[-1])),
    )
    for view in servers.view:
        view[slot] = wrong
    with pytest.raises(ks.InputError, match=f"slot {slot} is on .*import again"):
        execute(plan, URL, dry_run=False)
    assert not any(name == "MIGRATE" for name, *_ in servers.said)


def test_a_target_claims_a_slot_once_it_has_heard_of_the_newest_epoch(servers):
    """Else its claim loses against what the source said a moment ago, and it deletes the slot's keys."""
    plan = planned(servers, 1)
    servers.deaf, servers.heard = int(plan.target[0]), -5
    execute(plan, URL, dry_run=False)
    said = [(name, *given[1:2]) for name, *given in servers.said]
    assert servers.heard >= 0
    assert said.index(("CLUSTER SETSLOT", "NODE")) > max(j for j, c in enumerate(said) if c[0] == "CLUSTER INFO")


@pytest.mark.parametrize("talks", [False, True])
def test_a_master_that_is_emptied_becomes_a_replica_and_the_plan_still_counts_as_done(monkeypatch, talks):
    servers = Servers(4, KEYS, last=5)
    servers.talks = talks
    monkeypatch.setattr(redis, "Redis", servers.client)
    w = engine.read_workload(URL, draining=["10.0.0.3:7003"])
    assert (w.current == 3).sum() == 5
    plan = ks.plan(ks.KeyGroupAllocation(w), np.where(w.current == 3, 0, w.current))
    assert execute(plan, URL, dry_run=False).slots == 5
    assert servers.flags[3] == "slave"
    assert execute(plan, URL, dry_run=False).already == 5


def test_a_run_of_some_phases_stops_after_them(servers):
    problem = ks.KeyGroupAllocation(engine.read_workload(URL, ASKED))
    plan = ks.plan(problem, ks.solve(problem, "flux"), phase_moves=3)
    assert execute(plan, URL, dry_run=False, phases=1).slots == len(plan.phases[0].moves) < len(plan)


def test_a_master_that_refuses_its_new_owner_is_told(servers, monkeypatch):
    plan, honest = planned(servers, 1), Client.cluster_setslot

    def refusing(self, slot, what, node):
        if what == "NODE" and self.me == plan.source[0]:
            raise redis.ResponseError("Can't assign hashslot to a different node while I still hold keys")
        honest(self, slot, what, node)

    monkeypatch.setattr(Client, "cluster_setslot", refusing)
    with pytest.raises(ks.InputError, match="run the plan again"):
        execute(plan, URL, dry_run=False)


def test_a_key_that_is_at_both_ends_is_the_sources(servers):
    """As a connection leaves it that broke between the target's copy and the source's deletion."""
    plan = planned(servers, 1)
    slot, target = int(str(plan.moves["key"][0]).removeprefix("slot-")), int(plan.target[0])
    key = servers.names[slot][0]
    size = servers.all_keys()[key]
    servers.keys[target][key] = 1
    execute(plan, URL, dry_run=False)
    assert servers.keys[target][key] == size
    assert sum(key in held for held in servers.keys) == 1


def test_slots_on_the_way_are_refused(servers):
    plan = planned(servers)
    free = next(s for s in range(16384) if s not in engine.by_slot(dict.fromkeys(KEYS, 1.0)).nonzero()[0])
    servers.open[0][free] = ("migrating", 1)
    for act in (lambda: engine.read_workload(URL), lambda: execute(plan, URL)):
        with pytest.raises(ks.InputError, match=f"slot {free} is on the way"):
            act()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"keys_per_second": 0}, "keys_per_second is 0"),
        ({"bytes_per_second": -1}, "above 0"),
        ({"batch": 0}, "batch is 0"),
    ],
)
def test_a_pace_is_above_nothing(servers, settings, said):
    with pytest.raises(ks.InputError, match=said):
        execute(planned(servers), URL, **settings)


def test_the_pace_is_kept(servers, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr("keyshift.engines.redis_moving.time.sleep", slept.append)
    plan = planned(servers)
    execute(plan, URL, dry_run=False, bytes_per_second=plan.state_moved / 100)
    assert slept
    assert 95 < slept[-1] <= 100


def test_passwords_go_with_the_keys_and_are_not_said(servers):
    execute(planned(servers), "redis://ann:secret@10.0.0.0:7000", dry_run=False)
    assert servers.secret == ("AUTH2", "ann", "secret")
    servers.flags[2] = "master,fail"
    with pytest.raises(ks.InputError, match="is down") as refused:
        engine.read_workload("redis://ann:secret@10.0.0.0:7000")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["", "7000", "http://h:7000", "h:port", "redis://:7000"])
def test_what_is_no_address_is_said(servers, url):
    with pytest.raises(ks.InputError, match="write an address"):
        engine.read_workload(url)


def test_what_answers_otherwise_is_no_cluster(servers, monkeypatch):
    monkeypatch.setattr(Client, "cluster_nodes", lambda self: {"a:1": {"flags": "master", "slots": []}})
    with pytest.raises(ks.InputError, match="does not answer as Redis Cluster does"):
        engine.read_workload(URL)


def test_another_plan_is_none_for_redis():
    w = ks.Workload(load=[3, 1, 2], state=[1, 1, 1], current=[0, 0, 1], nodes=2, keys=["a", "b", "slot-16384"])
    with pytest.raises(ks.InputError, match="not a slot"):
        execute(ks.plan(ks.KeyGroupAllocation(w), [1, 0, 1]), URL)


def test_scripts_are_shell_and_name_every_slot(servers, tmp_path):
    plan = planned(servers)
    files = engine.write_slots(plan, tmp_path / "slots")
    assert [f.name for f in files][:3] == ["STEPS.md", "00-move.sh", "00-back.sh"]
    assert len(files) == 1 + 2 * len(plan.phases)
    for script in files[1:]:
        subprocess.run(["bash", "-n", str(script)], check=True)
    there = [
        line.split()[1:]
        for f in files
        if f.name.endswith("move.sh")
        for line in f.read_text().splitlines()
        if line.startswith("move ")
    ]
    assert there == [[str(slot), source, target] for slot, source, target in engine.slots_of(plan)]


def test_predictions_stand_beside_measurements(servers):
    plan = planned(servers)
    table = ks.compare_measured(
        plan, {"load": plan.loads_after + np.array([1, 0, 0, -1]), "state_moved": 0, "sent": {"10.0.0.1:7001": 5}}
    )
    assert table.loc["load", "difference"].tolist() == [1, 0, 0, -1]
    assert table.loc[("state_moved", "all"), "percent"] == -100
    assert len(table) == 6
    predicted = plan.predict()["predicted"]
    assert predicted["sent"].tolist() == [plan.state[plan.source == i].sum() for i in range(4)]
    assert predicted["received"].tolist() == [plan.state[plan.target == i].sum() for i in range(4)]
    assert predicted["sent"].tolist() != predicted["received"].tolist()
    for wrong in ({"loads": 1}, {"load": [1, 2]}, {"load": {"nobody": 1}}, {}):
        with pytest.raises(ks.InputError):
            ks.compare_measured(plan, wrong)
