"""The exercise checkers accept right functions and say what is wrong with wrong ones."""

import itertools

import numpy as np
import pytest

import keyshift as ks
from keyshift import exercises
from keyshift.models import InputError


def distance(load, assignment, nodes):
    return max(
        abs(sum(c for c, i in zip(load, assignment, strict=False) if i == n) - sum(load) / nodes) for n in range(nodes)
    )


def everywhere(load, nodes):
    return itertools.product(range(nodes), repeat=len(load))


def moves(a, b):
    return sum(x != y for x, y in zip(a, b, strict=False))


def moved(state, a, b):
    return sum(s for s, x, y in zip(state, a, b, strict=False) if x != y)


def allocation(load, current, nodes, max_migrations):
    able = (a for a in everywhere(load, nodes) if moves(a, current) <= max_migrations)
    return list(min(able, key=lambda a: distance(load, a, nodes)))


def fewest(load, current, nodes, distance_):
    able = (a for a in everywhere(load, nodes) if distance(load, a, nodes) <= distance_ + 1e-9)
    return min((moves(a, current) for a in able), default=None)


def remote(load, current, nodes, max_migrations, traffic, limit, wrong=""):
    found = []
    for a in everywhere(load, nodes):
        if wrong != "moves" and moves(a, current) > max_migrations:
            continue
        if wrong != "distance" and distance(load, a, nodes) > limit + 1e-9:
            continue
        pairs = itertools.product(range(len(load)), repeat=2)
        if wrong == "one way":
            pairs = ((k, j) for k, j in pairs if k < j)
        found.append(sum(traffic[k][j] for k, j in pairs if (a[k] != a[j]) == (wrong != "local")))
    if wrong == "never none":
        return min(found, default=0)
    return (max if wrong == "most" else min)(found, default=None)


def front(load, current, nodes, state, dominated=False, ddof=0, key=lambda p: p):
    points = {
        (moved(state, current, a), float(np.var(np.bincount(a, load, nodes), ddof=ddof)))
        for a in everywhere(load, nodes)
    }
    kept = []
    for m, h in sorted(points, key=key):
        if dominated or not kept or h < kept[-1][1] - 1e-9:
            kept.append((m, h))
    return kept


def routing(load, current, nodes, state, home, theta, entries, wrong=""):
    mean = sum(load) / nodes
    limit = mean * (1 + theta) if wrong != "no theta" else mean
    able = [
        a
        for a in everywhere(load, nodes)
        if (wrong == "loads" or max(np.bincount(a, load, nodes)) <= limit + 1e-9)
        and (wrong == "entries" or moves(a, current if wrong == "from current" else home) <= entries)
    ]
    cost = (lambda a: moves(a, current)) if wrong == "count" else (lambda a: moved(state, current, a))
    return min(map(cost, able), default=0 if wrong == "never none" else None)


def greedy(messages, candidates, workers, wrong=""):
    loads = [0] * workers
    for key in messages:
        a, b = candidates[key]
        if wrong == "tie":
            a, b = b, a
        chosen = b if loads[b] < loads[a] else a
        if wrong == "more":
            chosen = b if loads[b] > loads[a] else a
        if wrong == "first":
            chosen = a
        if wrong == "anywhere":
            chosen = loads.index(min(loads))
        loads[chosen] += 2 if wrong == "twice" and a == b else 1
    return loads


def all_fit(messages, candidates, workers, most):
    """Whether no worker needs more than `most` messages: augmenting paths, one message at a time."""
    owner = {}

    def place(m, seen):
        for w in set(candidates[messages[m]]) - seen:
            seen.add(w)
            here = [x for x, o in owner.items() if o == w]
            if len(here) < most or any(place(x, seen) for x in here):
                owner[m] = w
                return True
        return False

    return all(place(m, set()) for m in range(len(messages)))


def split(messages, candidates, workers):
    return next(most for most in itertools.count() if all_fit(messages, candidates, workers, most))


def intervals(load, state, current, nodes_after, limit):
    w = ks.Workload(load=load, state=state, current=current, nodes=max(current) + 1)
    total = sum(load)
    tau = limit * nodes_after / total - 1 if total else 1.0
    if tau < 0:
        return None
    from fractions import Fraction

    problem = ks.IntervalMigration(w, nodes_after, Fraction(limit * nodes_after, total) - 1 if total else 1)
    return ks.solve(problem).objective


def policy(cost, chance, allowed, discount, rounds=400, pick=min, stay=False, sum_up=False):
    value = [0.0] * len(cost)
    for _ in range(rounds):
        value = [
            sum(
                p * (sum if sum_up else pick)([cost[s][t] + discount * value[t] for t in where + [s] * stay])
                for p, where in zip(chance, allowed, strict=False)
            )
            for s in range(len(cost))
        ]
        if sum_up and max(value) > 1e9:
            break
    return value


RIGHT = {
    "load-distance": distance,
    "allocation": allocation,
    "fewest-moves": lambda load, current, nodes, distance: fewest(load, current, nodes, distance),
    "remote-traffic": lambda load, current, nodes, max_migrations, traffic, distance: remote(
        load, current, nodes, max_migrations, traffic, distance
    ),
    "front": front,
    "mixed-routing": routing,
    "greedy-two": greedy,
    "split-optimum": split,
    "intervals": intervals,
    "policy-value": policy,
}


def _remote(wrong):
    return lambda load, current, nodes, max_migrations, traffic, distance: remote(
        load, current, nodes, max_migrations, traffic, distance, wrong
    )


def _interval_share(load, state, current, nodes_after, limit):
    return 0 if limit >= sum(load) else sum(state)


WRONG = {
    "load-distance": [
        lambda load, assignment, nodes: max(np.bincount(assignment, load, nodes)) - sum(load) / nodes,
        lambda load, assignment, nodes: distance(load, assignment, len(set(assignment))),
        lambda load, assignment, nodes: max(load),
        lambda load, assignment, nodes: float(np.std(np.bincount(assignment, load, nodes))),
        lambda load, assignment, nodes: None,
        lambda load, assignment, nodes: 1 / 0,
    ],
    "allocation": [
        lambda load, current, nodes, max_migrations: current,
        lambda load, current, nodes, max_migrations: allocation(load, current, nodes, 99),
        lambda load, current, nodes, max_migrations: allocation(load, current, nodes, min(1, max_migrations)),
        lambda load, current, nodes, max_migrations: [nodes] * len(load),
        lambda load, current, nodes, max_migrations: allocation(load, current, nodes, max_migrations)[:-1],
        lambda load, current, nodes, max_migrations: distance(load, current, nodes),
    ],
    "fewest-moves": [
        lambda load, current, nodes, distance: fewest(load, current, nodes, distance) or 0,
        lambda load, current, nodes, distance: fewest(load, current, nodes, distance + 1),
        lambda load, current, nodes, distance: 0,
        lambda load, current, nodes, distance: None,
        lambda load, current, nodes, distance: fewest(load, [0] * len(load), nodes, distance),
        lambda load, current, nodes, distance: current.append(0),
    ],
    "remote-traffic": [_remote(w) for w in ("moves", "distance", "one way", "local", "never none", "most")],
    "front": [
        lambda **given: front(**given, dominated=True),
        lambda **given: front(**given)[::-1],
        lambda **given: front(**given)[:1],
        lambda **given: front(**given)[1:],
        lambda load, current, nodes, state: front(load, current, nodes, [1] * len(state)),
        lambda **given: [h for _, h in front(**given)],
    ],
    "mixed-routing": [
        lambda *, wrong=w, **given: routing(**given, wrong=wrong)
        for w in ("no theta", "loads", "entries", "from current", "count", "never none")
    ],
    "greedy-two": [
        lambda *, wrong=w, **given: greedy(**given, wrong=wrong) for w in ("tie", "more", "first", "anywhere", "twice")
    ],
    "split-optimum": [
        lambda messages, candidates, workers: max(greedy(messages, candidates, workers)),
        lambda messages, candidates, workers: -(-len(messages) // workers),
        lambda messages, candidates, workers: max(np.bincount(messages)),
        lambda messages, candidates, workers: split(messages, candidates, workers) + 1,
        lambda messages, candidates, workers: len(messages),
    ],
    "intervals": [
        lambda **given: intervals(**given) or 0,
        lambda load, state, current, nodes_after, limit: intervals(load, [1] * len(load), current, nodes_after, limit),
        lambda load, state, current, nodes_after, limit: intervals(load, state, current, nodes_after + 1, limit),
        lambda load, state, current, nodes_after, limit: intervals(load, state, current, nodes_after, limit + 1),
        _interval_share,
    ],
    "policy-value": [
        lambda **given: policy(**given, rounds=1),
        lambda **given: policy(**given, pick=max),
        lambda **given: policy(**given, stay=True),
        lambda **given: policy(**given, sum_up=True),
        lambda **given: policy(**given)[:-1],
    ],
}


def test_every_exercise_is_tried_here():
    assert list(RIGHT) == exercises.names() == list(WRONG)
    assert min(map(len, WRONG.values())) >= 5


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_function_passes(name):
    verdict = exercises.check(name, RIGHT[name], seeds=40)
    assert verdict, str(verdict)
    assert str(verdict) == f"{name}: passed on 40 instances"


@pytest.mark.parametrize(("name", "number"), [(n, i) for n, wrong in WRONG.items() for i in range(len(wrong))])
def test_a_wrong_function_is_told_where_it_fails(name, number):
    verdict = exercises.check(name, WRONG[name][number])
    assert not verdict
    assert verdict.complaint.startswith("you")
    assert str(verdict.instance["nodes" if "nodes" in verdict.instance else list(verdict.instance)[-1]]) in str(verdict)


def test_the_same_seed_draws_the_same_instance():
    seen = []
    for _ in range(2):
        exercises.check("allocation", lambda **given: seen.append(given) or given["current"], seeds=1, first=7)
    assert seen[0] == seen[1]


def test_an_unknown_exercise_names_the_known_ones():
    with pytest.raises(InputError, match="there are load-distance"):
        exercises.check("no-such", distance)
    assert ks.exercises.task("intervals").startswith("intervals(load, state, current, nodes_after, limit)")
