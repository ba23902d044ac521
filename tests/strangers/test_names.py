"""A name means the same at every door: whatever a node, a key group or a label is called, however it is said.

Names are drawn from digits, signs, dots, underscores, exponents, blanks, commas, brackets, colons, quotes and other scripts.
Each door is asked for the same one, as it is written, as a text, and by a name that nothing has. Every field of every rule that
selects key groups or nodes is a door, found from the rules themselves: one that is not known here fails.
"""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from dataclasses import MISSING, dataclass, fields
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keyshift as ks
from keyshift import rules
from keyshift.commands.own import read_own, read_rules
from keyshift.models.rules import RULES, read_rule
from keyshift.plans.saved import read_plan

PIECES = [
    *"0123456789", "1", "2", "0", "-", "+", ".", "_", "e", "E", " ", ",", "[", "]", "(", ":", ";", "'", '"', "=", "{", "}", "#", "&", "*", "/",
    "\\", "%", "ä", "é", "Ж", "λ", "中", "文", "٣", "४", "１", "²", "½", "Ω", "a", "b", "x", "t-", "orders",
]  # fmt: skip
WORDS = [
    "1_2", "12", "007", "7", "0007", "2024_01", "1.10", "1.1", "1e3", "1000", "1000.0", "+5", "5", "-0", "0", "00", "true", "True",
    "on", "off", "no", "null", "None", "~", "nan", "inf", ".5", "0x1f", "1:30", "2024-01-01", "t-0 [1,2]", "[::1]:7001", "[1,2]",
    "it's", "", " ", "new 1", "new 2", "node", "topic", "nodes", "nodes=1", "at_most=1", "a=b", "<<", "=", "- 1", "? x", "!!int 3", "*a", "&a",
    "99999999999999999999", "1/2", "rack=r1", "١٢",
]  # fmt: skip


def draw_name(rng) -> str:
    if rng.random() < 0.4:
        return str(rng.choice(WORDS))
    return "".join(rng.choice(PIECES, int(rng.integers(1, 7))))


def draw_names(rng, size: int) -> list[str | int]:
    """Names of which no two print alike; some that are whole numbers are numbers."""
    made: dict[str, str | int] = {}
    while len(made) < size:
        name = draw_name(rng) if rng.random() < 0.8 else str(int(rng.integers(0, 8)))
        number = re.fullmatch("0|-?[1-9][0-9]{0,17}", name) and rng.random() < 0.5
        made.setdefault(name, int(name) if number else name)
    return list(made.values())


@dataclass
class Case:
    """A workload with names, and the one that is asked for."""

    w: ks.Workload
    node: int
    key: int
    rng: np.random.Generator
    folder: object

    @property
    def frame(self) -> pd.DataFrame:
        """The workload as a table, its nodes by name."""
        w = self.w
        columns = {"key": list(w.keys), "load": w.last_load, "state": w.state}
        columns["node"] = [w.node_names[i] for i in w.current]
        return pd.DataFrame({n: pd.Series(v, dtype=object) if n in ("key", "node") else v for n, v in columns.items()})


def draw(rng, folder) -> Case:
    p, n = int(rng.integers(3, 7)), int(rng.integers(2, 6))
    racks, topics = draw_names(rng, 2), draw_names(rng, 2)
    w = ks.Workload(
        load=rng.integers(1, 9, p), state=rng.integers(1, 9, p), current=rng.integers(0, n, p), nodes=n,
        keys=draw_names(rng, p), node_names=draw_names(rng, n), resources={"disk": np.ones(p)},
        domains={"rack": [racks[int(rng.integers(2))] for _ in range(n)]},
        groups={"topic": [topics[int(rng.integers(2))] for _ in range(p)]},
    )  # fmt: skip
    return Case(w, int(rng.integers(n)), int(rng.integers(p)), rng, folder)


# How a name is written: by the user's guide, not by the code that reads it ----------------------------------------------


def in_words(name: str, rng) -> str:
    """A name in a rule's words: quoted where it must be, and sometimes where it need not."""
    must = name == "" or name[0] in "'\"" or re.search(r"[\s,=]", name)
    if not must and rng.random() < 0.7:
        return name
    quote = str(rng.choice(["'", '"']))
    return quote + name.replace(quote, 2 * quote) + quote


def in_yaml(name: str, rng) -> str:
    """A name in YAML: plain where YAML allows it, else in one kind of quotes."""
    if name != "null" and re.fullmatch(r"[\w.+][\w.+-]*", name) and rng.random() < 0.8:
        return name
    return json.dumps(name, ensure_ascii=False) if rng.random() < 0.5 else "'" + name.replace("'", "''") + "'"


def as_given(name: str | int, rng) -> object:
    """A name in Python: as it is, as a text, as NumPy has it."""
    if isinstance(name, int):
        return [name, str(name), np.int64(name)][int(rng.integers(3))]
    return np.str_(name) if rng.random() < 0.2 else name


# The doors of rules: each field that selects, in each way in which a rule is said ---------------------------------------

REST = {
    "moves": {"at_most": 0},
    "use": {"resource": "load", "at_most": 1.0},
    "count": {"at_most": 0},
    "spread": {"at_most": 0},
}
SELECTS = {"key_groups": "key", "nodes": "node", "out_of": "node", "into": "node"}
OTHERS = {"domain", "by", "at_most", "at_least", "slack", "resource"}


def selections():
    """Each rule's fields that select."""
    for name, rule in RULES.items():
        if rule.__module__.startswith("keyshift."):
            for field in fields(rule):
                assert field.name in SELECTS or field.name in OTHERS, f"what does {name}.{field.name} select?"
                if field.name in SELECTS:
                    yield rule, field.name


def rest_of(rule: type, field: str, case: Case) -> dict:
    """What else the rule must have."""
    needed = {f.name for f in fields(rule) if f.default is MISSING} - {field}
    made = dict(REST.get(rule.name, {}))
    made |= {
        name: str(getattr(case.w, "keys" if SELECTS[name] == "key" else "node_names")[0])
        for name in needed & set(SELECTS)
    }
    return made


def python(rule, field, value, rest, case):
    return rule(**{field: value, **rest})


def words(rule, field, value, rest, case):
    said = partial(in_words, rng=case.rng)
    if isinstance(value, dict):
        ((column, label),) = value.items()
        text = f"{field}={said(column)}={said(str(label))}"
    else:
        names = value if isinstance(value, list) else [value]
        text = f"{field}={','.join(said(str(name)) for name in names)}"
    others = " ".join(f"{name}={said(str(v))}" for name, v in rest.items())
    return read_rules(rule=[f"{rule.name} {text} {others}"])[0]


def words_in_order(rule, field, value, rest, case):
    """Without the fields' names, where their order allows it."""
    others = [name for name in rule.words if name != field]
    if field not in rule.words or rule.words.index(field) > len(rest) or not set(rest) <= set(others[: len(rest)]):
        return words(rule, field, value, rest, case)
    said = {field: value, **rest}
    parts = []
    for name in rule.words[: len(said)]:
        given = said[name]
        if isinstance(given, dict):
            ((column, label),) = given.items()
            parts.append(f"{in_words(column, case.rng)}={in_words(str(label), case.rng)}")
        else:
            parts.append(",".join(in_words(str(v), case.rng) for v in (given if isinstance(given, list) else [given])))
    if re.match(r"\w+=", parts[0]) and re.match(r"\w+", parts[0])[0] in {f.name for f in fields(rule)}:
        return words(rule, field, value, rest, case)
    return read_rules(rule=[f"{rule.name} {' '.join(parts)}"])[0]


def yaml_file(rule, field, value, rest, case):
    said = partial(in_yaml, rng=case.rng)

    def flow(given):
        if isinstance(given, dict):
            return "{" + ", ".join(f"{said(str(k))}: {flow(v)}" for k, v in given.items()) + "}"
        if isinstance(given, list):
            return "[" + ", ".join(map(flow, given)) + "]"
        return said(str(given))

    content = ", ".join(f"{name}: {flow(v)}" for name, v in {field: value, **rest}.items())
    file = case.folder / "rules.yaml"
    file.write_text(f"- {rule.name}: {{{content}}}\n", encoding="utf-8")
    return read_rules(rules=[str(file)])[0]


def json_file(rule, field, value, rest, case):
    file = case.folder / "rules.json"
    file.write_text(json.dumps([rule(**{field: value, **rest}).record()]), encoding="utf-8")
    return read_rules(rules=[str(file)])[0]


def words_in_file(rule, field, value, rest, case):
    """Words as an item of a YAML file."""
    made = words(rule, field, value, rest, case)
    text = f"{rule.name} " + " ".join(
        f"{name}={_spelt(v, case.rng)}"
        for name, v in made.record().items()
        if name != "rule" and not isinstance(v, float)
    )
    file = case.folder / "rules.yaml"
    file.write_text(f"- {json.dumps(text, ensure_ascii=False)}\n", encoding="utf-8")
    again = read_rules(rules=[str(file)])[0]
    assert getattr(again, field) == getattr(made, field)
    return again


def _spelt(value, rng):
    if isinstance(value, dict):
        return ",".join(f"{in_words(k, rng)}={_spelt(v, rng)}" for k, v in value.items())
    return ",".join(in_words(str(v), rng) for v in (value if isinstance(value, tuple) else [value]))


def back_from_record(rule, field, value, rest, case):
    return read_rule(json.loads(json.dumps(rule(**{field: value, **rest}).record())))


def back_from_pickle(rule, field, value, rest, case):
    return pickle.loads(pickle.dumps(rule(**{field: value, **rest})))


def back_from_str(rule, field, value, rest, case):
    """What a violation begins with, typed into Python; a long one is shortened."""
    made = rule(**{field: value, **rest})
    return made if "..." in str(made) or len(str(made)) > 150 else eval(str(made), vars(rules))


def back_from_problem(rule, field, value, rest, case):
    """Through a pickled problem."""
    made = rule(**{field: value, **rest})
    return pickle.loads(pickle.dumps(ks.KeyGroupAllocation(case.w, rules=[made]))).rules[0]


WAYS = (
    python, words, words_in_order, words_in_file, yaml_file, json_file, back_from_record, back_from_pickle, back_from_str,
    back_from_problem,
)  # fmt: skip


def positions(rule, field, scope) -> set[int]:
    chosen = getattr(rule, field)
    found = (
        scope.key_groups(rule.name, chosen)
        if SELECTS[field] == "key"
        else np.flatnonzero(scope.nodes(rule.name, chosen))
    )
    return set(found.tolist())


# The other doors of nodes, key groups and labels --------------------------------------------------------------------------


def only(flags) -> int:
    (found,) = np.flatnonzero(flags)
    return int(found)


def draining(case, name):
    given = [{name: True}, {name}, [str(name)], np.array([str(name)])][int(case.rng.integers(4))]
    return only(case.w.replace(draining=given).draining)


def capacities(case, name):
    """A mapping of names to capacities, in another order than the names."""
    others = [other for other in case.w.node_names if str(other) != str(name)]
    given = {name: 7.0, **dict.fromkeys(others, 1.0)}
    w = ks.Workload(load=[1], state=[1], current=[0], nodes=given, node_names=case.w.node_names)
    return only(w.capacity == 7.0)


def frame_of(case, node_column="node", **more):
    frame = case.frame
    kind = int(case.rng.integers(3))
    texts = frame.assign(key=frame["key"].map(str), node=frame[node_column].map(str))
    table = [frame, pl.from_pandas(texts), pa.Table.from_pandas(texts)][kind]
    return ks.Workload.from_frame(table, key="key", nodes=list(case.w.node_names), **more)


def frame_draining(case, name):
    return only(frame_of(case, draining=[name]).draining)


def frame_current(case, name):
    frame = case.frame
    frame["node"] = pd.Series([name] * len(frame), dtype=object)
    found = ks.Workload.from_frame(frame, key="key", nodes=dict.fromkeys(case.w.node_names, 1.0)).current
    return int(np.unique(found).item())


def frame_home(case, name):
    frame = case.frame.assign(home=pd.Series([name] * len(case.frame), dtype=object))
    found = ks.Workload.from_frame(frame, key="key", nodes=list(case.w.node_names), home="home").home
    return int(np.unique(found).item())


def frame_domains(case, name):
    given = {**dict.fromkeys((o for o in case.w.node_names if str(o) != str(name)), "no"), name: "yes"}
    return only([label == "yes" for label in frame_of(case, domains={"zone": given}).domains["zone"]])


def domains(case, name):
    given = {**dict.fromkeys((o for o in case.w.node_names if str(o) != str(name)), "no"), name: "yes"}
    return only([label == "yes" for label in case.w.replace(domains={"zone": given}).domains["zone"]])


def resource_capacity(case, name):
    return only(ks.KeyGroupAllocation(case.w, resource_capacity={"disk": {name: 0.5}}).resource_capacity["disk"] == 0.5)


def resource_capacity_on_the_line(case, name):
    text = f"{{disk: {{{in_yaml(str(name), case.rng)}: 0.5}}}}"
    given = read_own(ks.KeyGroupAllocation, {"resource_capacity": [text]}, "the problem")
    return only(ks.KeyGroupAllocation(case.w, **given).resource_capacity["disk"] == 0.5)


def use_at_most(case, name):
    """A limit on one node, in each way in which a rule is said."""
    way = [python, words, yaml_file, json_file][int(case.rng.integers(4))]
    if way is words:
        rule = read_rules(rule=[f"use load at_most={in_words(str(name), case.rng)}=0.5"])[0]
    else:
        rule = way(rules.Use, "at_most", {name if way is python else str(name): 0.5}, {"resource": "load"}, case)
    return only(rule.most(ks.KeyGroupAllocation(case.w).scope.domain("use", "node")[1]) == 0.5)


def never_moves_there(case, name):
    """The rule as the check counts it: key groups run on the one node that is named."""
    problem = ks.KeyGroupAllocation(case.w, rules=[rules.Never(None, name)])
    (found,) = [i for i in range(case.w.nodes) if problem.check([i] * case.w.key_groups).violations]
    return found


def on_the_way(case, name):
    problem = ks.KeyGroupAllocation(case.w)
    plan = ks.plan(problem, case.w.current, max_on_the_way={"load": {name: 1000.0}})
    assert plan is not None
    return (
        case.w.names_of_nodes.find(name) if case.w.names_of_nodes.find(name) is not None else pytest.fail("not refused")
    )


NODE_DOORS = (
    draining, capacities, frame_draining, frame_current, frame_home, frame_domains, domains, resource_capacity,
    resource_capacity_on_the_line, use_at_most, never_moves_there, on_the_way,
)  # fmt: skip


def groups(case, name):
    given = {**dict.fromkeys((o for o in case.w.keys if str(o) != str(name)), "no"), name: "yes"}
    return only([label == "yes" for label in case.w.replace(groups={"team": given}).groups["team"]])


def pinned_there(case, name):
    problem = ks.KeyGroupAllocation(case.w, rules=[rules.Pinned(name)])
    away = (case.w.current + 1) % case.w.nodes
    (found,) = problem.check(away).violations
    assert (
        f"key group {case.w.key(found.where)} leaves node {case.w.node(case.w.current[found.where])}" in found.message
    )
    return found.where


KEY_DOORS = (groups, pinned_there)


# What comes out is what goes in ---------------------------------------------------------------------------------------


def printed(case) -> list[tuple[str, int, object]]:
    """What is printed for each node and key group: kind, position and name."""
    w, made = case.w, []
    target = np.where(np.arange(w.key_groups) % 2, w.current, (w.current + 1) % w.nodes)
    problem = ks.KeyGroupAllocation(w)
    plan = ks.plan(problem, target)
    file = case.folder / "plan.json"
    plan.save(file)
    for one in (plan, read_plan(file), plan.undo().undo()):
        table = one.moves
        for k, key, source, to in zip(table["key_group"], table["key"], table["source"], table["target"], strict=True):
            made += [("key", int(k), key), ("node", int(w.current[k]), source), ("node", int(target[k]), to)]
    for move in ks.explain(problem, target, marginals=False).moves.itertuples():
        made += [("key", move.key_group, move.key), ("node", int(w.current[move.key_group]), move.source)]
    made += [("node", i, w.node(i)) for i in range(w.nodes)] + [("key", k, w.key(k)) for k in range(w.key_groups)]
    for name in ("w.json", "w"):
        ks.write_workload(w, case.folder / name, **({"overwrite": True} if name == "w.json" else {}))
        again = ks.read_workload(case.folder / name)
        made += [("node", i, again.node(i)) for i in range(w.nodes)] + [
            ("key", k, again.key(k)) for k in range(w.key_groups)
        ]
    again = ks.Workload.from_frame(w.to_frame(), key="key", nodes=list(w.node_names))
    assert again.current.tolist() == w.current.tolist()
    return made


# The draws ------------------------------------------------------------------------------------------------------------


def stranger(rng, names) -> str:
    """A name that nothing has, near to one that something has."""
    known = set(map(str, names))
    while True:
        near = str(names[int(rng.integers(len(names)))])
        tries = [f"0{near}", f"+{near}", f"{near}.0", f" {near}", f"{near} ", near.replace("_", ""), near.lstrip("0"), near.upper(),
                 str(int(rng.integers(0, 6))), draw_name(rng), f"'{near}'"]  # fmt: skip
        one = tries[int(rng.integers(len(tries)))]
        if one not in known:
            return one


def refused(asked, names) -> None:
    try:
        found = asked()
    except ks.InputError:
        return
    pytest.fail(f"{found} of {names}, which has no such name")


def ask(case: Case, counts: Counter, share: float) -> None:
    """Ask the doors for the same node, key group and labels, and for what is not there."""
    w, rng = case.w, case.rng
    scope = ks.KeyGroupAllocation(w).scope
    asked = {"node": (case.node, w.node_names), "key": (case.key, w.keys)}
    wrong = {kind: stranger(rng, names) for kind, (_, names) in asked.items()}
    for rule, field in selections():
        at, names = asked[SELECTS[field]]
        column, labels = ("topic", w.groups["topic"]) if SELECTS[field] == "key" else ("rack", w.domains["rack"])
        rest = rest_of(rule, field, case)
        for way in WAYS:
            if rng.random() >= share:
                continue
            counts["asked"] += 3
            given = as_given(names[at], rng)
            value = [given] if rng.random() < 0.5 else given
            assert positions(way(rule, field, value, rest, case), field, scope) == {at}, (rule.name, field, way, given)
            label = labels[at]
            alike = {i for i, other in enumerate(labels) if str(other) == str(label)}
            found = positions(way(rule, field, {column: as_given(label, rng)}, rest, case), field, scope)
            assert found == alike, (rule.name, field, way, label)
            refused(lambda: positions(way(rule, field, wrong[SELECTS[field]], rest, case), field, scope), names)  # noqa: B023
    for kind, doors in (("node", NODE_DOORS), ("key", KEY_DOORS)):
        at, names = asked[kind]
        for door in doors:
            if rng.random() < share:
                counts["asked"] += 2
                assert door(case, as_given(names[at], rng)) == at, (door, names, at)
                refused(lambda: door(case, wrong[kind]), names)  # noqa: B023
    if rng.random() < share:
        for kind, at, name in printed(case):
            counts["printed"] += 1
            rule, field = (rules.Pinned, "key_groups") if kind == "key" else (rules.Count, "nodes")
            rest = {} if kind == "key" else {"at_most": 0}
            way = WAYS[int(rng.integers(5))]
            assert positions(way(rule, field, str(name), rest, case), field, scope) == {at}, (name, way)


@pytest.mark.parametrize(
    ("first", "draws"), [(0, 200), *(pytest.param(n, 500, marks=pytest.mark.slow) for n in range(0, 10_000, 500))]
)
def test_a_name_means_the_same_at_every_door(tmp_path, first, draws):
    """Each draw asks one in twenty of the doors, so that all draws ask each door hundreds of times."""
    counts: Counter = Counter()
    for seed in range(first, first + draws):
        rng = np.random.default_rng([31, seed])
        ask(draw(rng, tmp_path), counts, 0.05)
    print(f"draws {first:,} to {first + draws:,}: {dict(counts)}")
    assert counts["asked"] > draws
