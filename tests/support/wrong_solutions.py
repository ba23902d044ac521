"""Wrong solutions of every exercise, as students hand them in.

Right ones are in docs/kit/solutions.py, which lecturers get; most wrong ones are those with one slip. On which instance each
fails first is in docs/kit/wrong-solutions.csv; ``python tests/support/wrong_solutions.py`` writes that table anew.
"""

import csv
import importlib.util
import itertools
import statistics
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOLUTIONS = ROOT / "docs" / "kit" / "solutions.py"
TABLE = ROOT / "docs" / "kit" / "wrong-solutions.csv"


def _load(path):
    spec = importlib.util.spec_from_file_location("kit_solutions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


right = _load(SOLUTIONS)
node_loads, everywhere, moves, moved = right.node_loads, right.everywhere, right.moves, right.moved


# Where key groups run --------------------------------------------------------------------------------------------------


def deviations(load, assignment, nodes):
    mean = sum(load) / nodes
    return [x - mean for x in node_loads(load, assignment, nodes)]


def one_at_a_time(load, current, nodes, max_migrations):
    """The best single move, again and again, as long as it helps."""
    at = list(current)
    for _ in range(max_migrations):
        tries = [[*at[:k], i, *at[k + 1 :]] for k in range(len(load)) for i in range(nodes)]
        tries = [a for a in tries if moves(current, a) <= max_migrations]
        best = min(tries, key=lambda a: right.load_distance(load, a, nodes))
        if right.load_distance(load, best, nodes) >= right.load_distance(load, at, nodes):
            break
        at = best
    return at


def busiest_to_idlest(load, current, nodes, max_migrations):
    """The largest key group of the busiest node goes to the least loaded one."""
    at = list(current)
    for _ in range(max_migrations):
        loads = node_loads(load, at, nodes)
        busy, idle = loads.index(max(loads)), loads.index(min(loads))
        here = [k for k in range(len(load)) if at[k] == busy]
        if not here or moves(current, at) >= max_migrations:
            break
        at[max(here, key=lambda k: load[k])] = idle
    return at


def best_by(value):
    def solution(load, current, nodes, max_migrations):
        able = [a for a in everywhere(load, nodes) if moves(current, a) <= max_migrations]
        return min(able, key=lambda a: value(node_loads(load, a, nodes)))

    return solution


def swaps_alone(load, current, nodes, max_migrations):
    """As many leave a node as enter it."""
    count = [1] * len(load)
    was = node_loads(count, current, nodes)
    able = [
        a for a in everywhere(load, nodes) if moves(current, a) <= max_migrations and node_loads(count, a, nodes) == was
    ]
    return min(able, key=lambda a: right.load_distance(load, a, nodes))


def from_the_busiest(load, current, nodes, max_migrations):
    """Only key groups of the node that is busiest today may leave."""
    loads = node_loads(load, current, nodes)
    busy = loads.index(max(loads))
    able = [
        a
        for a in everywhere(load, nodes)
        if moves(current, a) <= max_migrations and all(i in (j, busy) for i, j in zip(current, a, strict=True))
    ]
    return min(able, key=lambda a: right.load_distance(load, a, nodes))


def fewest_by(able, count=moves):
    def solution(load, current, nodes, distance):
        found = [a for a in everywhere(load, nodes) if able(load, a, nodes, distance)]
        return min((count(current, a) for a in found), default=None)

    return solution


def moves_of_the_best(load, current, nodes, distance):
    best = min(everywhere(load, nodes), key=lambda a: right.load_distance(load, a, nodes))
    return moves(current, best) if right.load_distance(load, best, nodes) <= distance + 1e-9 else None


def moves_of_the_greedy(load, current, nodes, distance):
    for most in range(len(load) + 1):
        if right.load_distance(load, one_at_a_time(load, current, nodes, most), nodes) <= distance + 1e-9:
            return most
    return None


def remote(wrong):
    def solution(load, current, nodes, max_migrations, traffic, distance):
        pairs = list(itertools.permutations(range(len(load)), 2))
        if wrong == "one way":
            pairs = [(k, j) for k, j in pairs if k < j]
        found = []
        for a in everywhere(load, nodes):
            apart = right.load_distance(load, a, nodes)
            if wrong == "upper side alone":
                apart = max(deviations(load, a, nodes))
            fits = apart < distance - 1e-9 if wrong == "strictly below" else apart <= distance + 1e-9
            few = moves(current, a) <= max_migrations
            if (fits or wrong == "uneven") and (few or wrong == "any number of moves"):
                talk = [traffic[k][j] for k, j in pairs if (a[k] != a[j]) == (wrong != "local instead of remote")]
                found.append(sum(x > 0 for x in talk) if wrong == "counts pairs" else sum(talk))
        return (max if wrong == "the most" else min)(found, default=0 if wrong == "never None" else None)

    return solution


def where_it_is(load, current, nodes, max_migrations, traffic, distance):
    if right.load_distance(load, current, nodes) > distance + 1e-9:
        return None
    return sum(traffic[k][j] for k, j in itertools.permutations(range(len(load)), 2) if current[k] != current[j])


def drained(wrong):
    def solution(load, assignment, nodes, leaving):
        staying = nodes if wrong == "mean over all" else nodes - len(leaving)
        if wrong == "mean over used":
            staying = max(1, len(set(assignment) - set(leaving)))
        mean, loads = sum(load) / staying, node_loads(load, assignment, nodes)
        both = [abs(x - mean) for x in loads]
        one = [x - mean for x in loads]
        if wrong == "leaving must be empty":
            return max(loads[i] if i in leaving else both[i] for i in range(nodes))
        if wrong == "leaving do not count":
            return max(both[i] for i in range(nodes) if i not in leaving)
        if wrong == "leaving below as well":
            return max(both)
        if wrong == "only above":
            return max(one)
        if wrong == "load of those who stay":
            mean = sum(loads[i] for i in range(nodes) if i not in leaving) / staying
            return max(loads[i] - mean if i in leaving else abs(loads[i] - mean) for i in range(nodes))
        return max(one[i] if i in leaving else both[i] for i in range(nodes))

    return solution


def hull(load, current, nodes, state):
    """Only points that some weighted sum of both objectives finds."""
    kept = []
    for point in right.front(load, current, nodes, state):
        while len(kept) > 1 and (kept[-1][1] - kept[-2][1]) * (point[0] - kept[-2][0]) >= (point[1] - kept[-2][1]) * (
            kept[-1][0] - kept[-2][0]
        ):
            kept.pop()
        kept.append(point)
    return kept


def front_by(imbalance):
    def solution(load, current, nodes, state):
        kept = []
        for cost, h in sorted(
            {(moved(state, current, a), imbalance(node_loads(load, a, nodes))) for a in everywhere(load, nodes)}
        ):
            if not kept or h < kept[-1][1] - 1e-9:
                kept.append((cost, h))
        return kept

    return solution


def all_points(load, current, nodes, state):
    return sorted(
        {(moved(state, current, a), right.variance(node_loads(load, a, nodes))) for a in everywhere(load, nodes)}
    )


def routed(wrong):
    def solution(load, current, nodes, state, home, theta, entries):
        mean, found = sum(load) / nodes, []
        limit = {"no slack": mean, "slack on top": mean + theta}.get(wrong, (1 + theta) * mean)
        for a in everywhere(load, nodes):
            used = moves(current if wrong == "entries from today" else home, a)
            if wrong == "one entry less":
                used += 1
            largest = max(node_loads(load, a, nodes))
            fits = largest < limit - 1e-9 if wrong == "strictly below" else largest <= limit + 1e-9
            if (fits or wrong == "any load") and (used <= entries or wrong == "any table"):
                cost = moved(state, home if wrong == "moved from the hash" else current, a)
                found.append(moves(current, a) if wrong == "counts keys" else cost)
        return min(found, default=0 if wrong == "never None" else None)

    return solution


# Messages, intervals, policies -----------------------------------------------------------------------------------------


def dealt(wrong):
    def solution(messages, candidates, workers):
        loads, sent, turn = [0] * workers, {}, {}
        for key in messages:
            a, b = candidates[key]
            if wrong == "second on a tie":
                a, b = b, a
            chosen = b if loads[b] < loads[a] else a
            if wrong == "the fuller":
                chosen = b if loads[b] > loads[a] else a
            elif wrong == "always the first":
                chosen = a
            elif wrong == "the least of all":
                chosen = loads.index(min(loads))
            elif wrong == "by turns":
                turn[key] = not turn.get(key, False)
                chosen = a if turn[key] else b
            elif wrong == "fewest of the same key":
                chosen = b if sent.get((key, b), 0) < sent.get((key, a), 0) else a
            elif wrong == "a key stays where it began":
                chosen = turn.setdefault(key, chosen)
            elif wrong == "lower number on a tie" and loads[a] == loads[b]:
                chosen = min(a, b)
            sent[key, chosen] = sent.get((key, chosen), 0) + 1
            loads[chosen] += 2 if wrong == "both when they are the same" and a == b else 1
        return loads

    return solution


def halves(messages, candidates, workers):
    """Every key is split evenly."""
    loads = [0] * workers
    for key in sorted(set(messages)):
        count, (a, b) = messages.count(key), candidates[key]
        loads[a] += count - count // 2
        loads[b] += count // 2
    return max(loads)


def most_frequent_first(messages, candidates, workers):
    return max(right.greedy_two(sorted(messages, key=lambda k: (-messages.count(k), k)), candidates, workers))


def two_bounds(messages, candidates, workers):
    most = max(messages.count(k) for k in messages)
    return max(-(-len(messages) // workers), -(-most // 2))


def bounds_by_pairs(messages, candidates, workers):
    """What must stay within one worker, or within two: larger sets are forgotten."""
    least = -(-len(messages) // workers)
    for size in (1, 2):
        for group in itertools.combinations(range(workers), min(size, workers)):
            held = sum(set(candidates[key]) <= set(group) for key in messages)
            least = max(least, -(-held // len(group)))
    return least


def cut(wrong):
    def solution(load, state, current, nodes_after, limit):
        tasks, names, costs = len(load), range(max(nodes_after, max(current) + 1)), []
        for inner in itertools.combinations_with_replacement(range(tasks + 1), nodes_after - 1):
            cuts = [0, *inner, tasks]
            if wrong == "no empty interval" and any(a == b for a, b in itertools.pairwise(cuts)):
                continue
            parts = [part for part in range(nodes_after) for _ in range(cuts[part], cuts[part + 1])]
            if max(node_loads(load, parts, nodes_after)) > limit:
                continue
            shared = [
                [sum(s for s, part, i in zip(state, parts, current, strict=True) if (part, i) == (p, n)) for n in names]
                for p in range(nodes_after)
            ]
            if wrong == "nodes keep their order":
                costs.append(moved(state, current, parts))
            elif wrong == "two intervals keep one node":
                costs.append(sum(state) - sum(map(max, shared)))
            elif wrong == "first come, first kept":
                free, kept = set(names), 0
                for row in shared:
                    best = max(sorted(free), key=lambda n: row[n])
                    free.discard(best)
                    kept += row[best]
                costs.append(sum(state) - kept)
            else:
                weights = (
                    [1] * tasks if wrong == "counts tasks" else load if wrong == "load instead of state" else state
                )
                for name in itertools.permutations(names, nodes_after):
                    costs.append(moved(weights, current, [name[part] for part in parts]))
        return min(costs, default=0 if wrong == "never None" else None)

    return solution


def filled(load, state, current, nodes_after, limit):
    """Cut whenever the next task does not fit."""
    parts, part, held = [], 0, 0
    for y in load:
        if held + y > limit:
            part, held = part + 1, 0
        parts.append(part)
        held += y
    if part >= nodes_after:
        return None
    names = range(max(nodes_after, max(current) + 1))
    return min(
        moved(state, current, [name[part] for part in parts]) for name in itertools.permutations(names, nodes_after)
    )


def valued(wrong):
    def solution(cost, chance, allowed, discount):
        value = [0.0] * len(cost)
        chance = [1 / len(chance)] * len(chance) if wrong == "equal chances" else chance
        rounds = {"one step": 1, "two steps": 2, "ten steps": 10}.get(wrong, 150)
        factor = 1.0 if wrong == "no discount" and discount else discount
        for _ in range(min(rounds, 60) if factor == 1.0 else rounds):
            value = [
                (max if wrong == "the worst event" else sum)(
                    (1 if wrong == "the worst event" else p) * one_event(wrong, cost, value, s, where, factor)
                    for p, where in zip(chance, allowed, strict=True)
                )
                for s in range(len(cost))
            ]
        return value

    return solution


def one_event(wrong, cost, value, s, where, factor):
    where = [*where, s] if wrong == "may always stay" else where
    after = [cost[s][t] + factor * value[t] for t in where]
    if wrong == "short-sighted":
        return after[min(range(len(where)), key=lambda n: cost[s][where[n]])]
    if wrong == "discounts the first step":
        return min(factor * (cost[s][t] + value[t]) for t in where)
    return max(after) if wrong == "the dearest move" else min(after)


def named(make, *labels):
    return {label: make(label) for label in labels}


WRONG = {
    "load-distance": {
        "only above the mean": lambda load, assignment, nodes: max(deviations(load, assignment, nodes)),
        "only below the mean": lambda load, assignment, nodes: -min(deviations(load, assignment, nodes)),
        "skips empty nodes": lambda load, assignment, nodes: max(
            abs(deviations(load, assignment, nodes)[i]) for i in set(assignment)
        ),
        "mean over used nodes": lambda load, assignment, nodes: max(
            abs(x - sum(load) / len(set(assignment)))
            for i, x in enumerate(node_loads(load, assignment, nodes))
            if i in assignment
        ),
        "mean cut to a whole number": lambda load, assignment, nodes: max(
            abs(x - sum(load) // nodes) for x in node_loads(load, assignment, nodes)
        ),
        "the largest load": lambda load, assignment, nodes: max(node_loads(load, assignment, nodes)),
        "half the range": lambda load, assignment, nodes: (
            (max(deviations(load, assignment, nodes)) - min(deviations(load, assignment, nodes))) / 2
        ),
        "standard deviation": lambda load, assignment, nodes: statistics.pstdev(node_loads(load, assignment, nodes)),
        "the deviations summed": lambda load, assignment, nodes: sum(map(abs, deviations(load, assignment, nodes))),
        "counts key groups": lambda load, assignment, nodes: right.load_distance([1] * len(load), assignment, nodes),
    },
    "allocation": {
        "stays": lambda load, current, nodes, max_migrations: current,
        "any number of moves": lambda load, current, nodes, max_migrations: right.allocation(load, current, nodes, 99),
        "one move at most": lambda load, current, nodes, max_migrations: right.allocation(
            load, current, nodes, min(1, max_migrations)
        ),
        "one move less": lambda load, current, nodes, max_migrations: right.allocation(
            load, current, nodes, max(0, max_migrations - 1)
        ),
        "one move at a time": one_at_a_time,
        "the busiest to the idlest": busiest_to_idlest,
        "least largest load": best_by(max),
        "largest least load": best_by(lambda loads: -min(loads)),
        "least variance": best_by(lambda loads: sum(x * x for x in loads)),
        "swaps alone": swaps_alone,
        "from the busiest alone": from_the_busiest,
    },
    "fewest-moves": {
        "never None": lambda load, current, nodes, distance: right.fewest_moves(load, current, nodes, distance) or 0,
        "strictly below": fewest_by(lambda load, a, nodes, d: right.load_distance(load, a, nodes) < d - 1e-9),
        "upper side alone": fewest_by(lambda load, a, nodes, d: max(deviations(load, a, nodes)) <= d + 1e-9),
        "one unit more": fewest_by(lambda load, a, nodes, d: right.load_distance(load, a, nodes) <= d + 1),
        "from node 0": lambda load, current, nodes, distance: right.fewest_moves(
            load, [0] * len(load), nodes, distance
        ),
        "moves of the best": moves_of_the_best,
        "moves of the greedy": moves_of_the_greedy,
        "0 or None": lambda load, current, nodes, distance: (
            0 if right.load_distance(load, current, nodes) <= distance else None
        ),
        "load moved": fewest_by(
            lambda load, a, nodes, d: right.load_distance(load, a, nodes) <= d + 1e-9, lambda c, a: 2 * moves(c, a)
        ),
    },
    "remote-traffic": {
        **named(
            remote, "any number of moves", "uneven", "one way", "local instead of remote", "never None", "the most"
        ),
        **named(remote, "counts pairs", "strictly below", "upper side alone"),
        "where it is": where_it_is,
    },
    "draining": {
        **named(drained, "mean over all", "mean over used", "leaving must be empty", "leaving do not count"),
        **named(drained, "leaving below as well", "only above", "load of those who stay"),
        "nobody leaves": lambda load, assignment, nodes, leaving: right.load_distance(load, assignment, nodes),
    },
    "front": {
        "dominated points": all_points,
        "the wrong way round": lambda **given: right.front(**given)[::-1],
        "the first point": lambda **given: right.front(**given)[:1],
        "the two ends": lambda **given: [right.front(**given)[0], right.front(**given)[-1]],
        "without staying": lambda **given: right.front(**given)[1:],
        "weighted sums": hull,
        "key groups counted": lambda load, current, nodes, state: right.front(load, current, nodes, [1] * len(state)),
        "sample variance": front_by(
            lambda loads: sum(right.variance(loads) * len(loads) / max(1, len(loads) - 1) for _ in "x")
        ),
        "standard deviation": front_by(lambda loads: right.variance(loads) ** 0.5),
        "the largest load": front_by(max),
    },
    "mixed-routing": {
        **named(routed, "no slack", "slack on top", "strictly below", "any load", "any table", "one entry less"),
        **named(routed, "entries from today", "moved from the hash", "counts keys", "never None"),
    },
    "greedy-two": {
        **named(dealt, "second on a tie", "the fuller", "always the first", "the least of all", "by turns"),
        **named(dealt, "fewest of the same key", "a key stays where it began", "lower number on a tie"),
        **named(dealt, "both when they are the same"),
    },
    "split-optimum": {
        "the greedy's": lambda **given: max(right.greedy_two(**given)),
        "the greedy's, most frequent first": most_frequent_first,
        "the mean rounded up": lambda messages, candidates, workers: -(-len(messages) // workers),
        "the most frequent key": lambda messages, candidates, workers: max(messages.count(k) for k in messages),
        "two bounds": two_bounds,
        "sets of one and two": bounds_by_pairs,
        "every key in halves": halves,
        "all messages": lambda messages, candidates, workers: len(messages),
        "one more": lambda **given: right.split_optimum(**given) + 1,
    },
    "intervals": {
        **named(cut, "never None", "no empty interval", "nodes keep their order", "two intervals keep one node"),
        **named(cut, "first come, first kept", "counts tasks", "load instead of state"),
        "cut when full": filled,
        "one node more": lambda load, state, current, nodes_after, limit: right.intervals(
            load, state, current, nodes_after + 1, limit
        ),
        "all or nothing": lambda load, state, current, nodes_after, limit: 0 if limit >= sum(load) else sum(state),
    },
    "policy-value": {
        **named(valued, "one step", "two steps", "ten steps", "no discount", "equal chances", "the worst event"),
        **named(valued, "may always stay", "short-sighted", "discounts the first step", "the dearest move"),
    },
}


def first_failures():
    """Rows of (exercise, wrong solution, first failing instance, what it is told)."""
    from keyshift import exercises

    for name, wrong in WRONG.items():
        for label, function in wrong.items():
            verdict = exercises.check(name, function, seeds=20)
            yield [name, label, "none" if verdict else str(verdict.tried), verdict.complaint]


if __name__ == "__main__":
    with TABLE.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["exercise", "wrong solution", "fails on instance"])
        rows.writerows(row[:3] for row in first_failures())
