"""Solutions of all exercises, for lecturers: one function an exercise, plain Python, short rather than fast.

``keyshift grade docs/kit/solutions.py --sheet 1`` gives full marks, and so do the other sheets.
"""

import itertools


def node_loads(load, assignment, nodes):
    loads = [0] * nodes
    for y, i in zip(load, assignment, strict=True):
        loads[i] += y
    return loads


def everywhere(load, nodes):
    return itertools.product(range(nodes), repeat=len(load))


def moves(before, after):
    return sum(i != j for i, j in zip(before, after, strict=True))


def moved(state, before, after):
    return sum(s for s, i, j in zip(state, before, after, strict=True) if i != j)


def load_distance(load, assignment, nodes):
    mean = sum(load) / nodes
    return max(abs(x - mean) for x in node_loads(load, assignment, nodes))


def allocation(load, current, nodes, max_migrations):
    able = (a for a in everywhere(load, nodes) if moves(current, a) <= max_migrations)
    return list(min(able, key=lambda a: load_distance(load, a, nodes)))


def fewest_moves(load, current, nodes, distance):
    able = (a for a in everywhere(load, nodes) if load_distance(load, a, nodes) <= distance + 1e-9)
    return min((moves(current, a) for a in able), default=None)


def remote_traffic(load, current, nodes, max_migrations, traffic, distance):
    pairs = list(itertools.permutations(range(len(load)), 2))
    return min(
        (
            sum(traffic[k][j] for k, j in pairs if a[k] != a[j])
            for a in everywhere(load, nodes)
            if moves(current, a) <= max_migrations and load_distance(load, a, nodes) <= distance + 1e-9
        ),
        default=None,
    )


def draining(load, assignment, nodes, leaving):
    mean = sum(load) / (nodes - len(leaving))
    loads = node_loads(load, assignment, nodes)
    return max(loads[i] - mean if i in leaving else abs(loads[i] - mean) for i in range(nodes))


def variance(loads):
    mean = sum(loads) / len(loads)
    return sum((x - mean) ** 2 for x in loads) / len(loads)


def front(load, current, nodes, state):
    points = {(moved(state, current, a), variance(node_loads(load, a, nodes))) for a in everywhere(load, nodes)}
    kept = []
    for cost, imbalance in sorted(points):
        if not kept or imbalance < kept[-1][1] - 1e-9:
            kept.append((cost, imbalance))
    return kept


def greedy_two(messages, candidates, workers):
    loads = [0] * workers
    for key in messages:
        first, second = candidates[key]
        loads[second if loads[second] < loads[first] else first] += 1
    return loads


def split_optimum(messages, candidates, workers):
    """All loads that can be reached, key by key: messages of one key are alike."""
    reached = {(0,) * workers}
    for key in set(messages):
        count, (first, second) = messages.count(key), candidates[key]
        after = set()
        for loads in reached:
            for sent in range(count + 1):
                more = list(loads)
                more[first] += sent
                more[second] += count - sent
                after.add(tuple(more))
        reached = after
    return min(max(loads) for loads in reached)


def mixed_routing(load, current, nodes, state, home, theta, entries):
    limit = (1 + theta) * sum(load) / nodes
    return min(
        (
            moved(state, current, a)
            for a in everywhere(load, nodes)
            if max(node_loads(load, a, nodes)) <= limit + 1e-9 and moves(home, a) <= entries
        ),
        default=None,
    )


def intervals(load, state, current, nodes_after, limit):
    tasks, names, least = len(load), range(max(nodes_after, max(current) + 1)), None
    for inner in itertools.combinations_with_replacement(range(tasks + 1), nodes_after - 1):
        cuts = [0, *inner, tasks]
        parts = [part for part in range(nodes_after) for _ in range(cuts[part], cuts[part + 1])]
        if max(node_loads(load, parts, nodes_after)) > limit:
            continue
        for name in itertools.permutations(names, nodes_after):
            cost = moved(state, current, [name[part] for part in parts])
            least = cost if least is None else min(least, cost)
    return least


def policy_value(cost, chance, allowed, discount):
    value = [0.0] * len(cost)
    for _ in range(150):
        value = [
            sum(
                p * min(cost[s][t] + discount * value[t] for t in nodes)
                for p, nodes in zip(chance, allowed, strict=True)
            )
            for s in range(len(cost))
        ]
    return value
