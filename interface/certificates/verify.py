"""Check a keyshift certificate: python -I -S verify.py certificate.json

One file, the standard library alone, exact whole numbers and fractions; it knows nothing of keyshift. A certificate holds an
instance, an assignment, a claim and a proof. This program works out whether the assignment keeps every rule and has the value
that is claimed, and whether the proof shows that no assignment has less. It prints one sentence and exits with 0 (proven) or 1.

Loads and states are whole numbers of a unit, so that sums of them are exact. Three ideas carry nearly all proofs:

* Prices. Charge a price for what is scarce - room on a node, entries of a table - and let every key group choose what is cheapest
  for it alone. If even that costs more than all the room there is would pay, nobody can keep the limits.
* Branches. Something is at most 3, or at least 4: refute both, and nothing is left.
* Tables. Where everything can be listed, values that no step improves are the values of the best.
"""

import json
import sys
from collections import deque
from fractions import Fraction
from itertools import product
from math import ceil, floor, gcd

MOST = 10**7  # nodes, or tasks: more would only fill the memory
MOST_LISTED = 300_000  # assignments, or pairs of partitions, that are tried one by one
NOT_READABLE = (
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)


class Refused(Exception):
    """What is wrong, in one sentence."""


def need(holds, said):
    if not holds:
        raise Refused(said)


# Reading: nothing in a certificate is believed before it has been looked at ------------------------------------------


def whole(value, name, least=0, most=None):
    need(type(value) is int, f"{name} must be a whole number")
    need(value >= least and (most is None or value <= most), f"{name} is out of range")
    return value


def number(value, name):
    """A whole number, or a fraction written as text: 3 or "22/7"."""
    if type(value) is int:
        return Fraction(value)
    need(
        type(value) is str and value and set(value) <= set("-/0123456789"),
        f'{name} must be a number such as 3 or "22/7"',
    )
    return Fraction(value)


def positive(value, name):
    read = number(value, name)
    need(read >= 0, f"{name} must not be negative")
    return read


def flag(value, name):
    need(type(value) is bool, f"{name} must be true or false")
    return value


def listed(value, name, length=None):
    need(type(value) is list, f"{name} must be a list")
    need(length is None or len(value) == length, f"{name} must have {length} entries")
    return value


def wholes(value, name, length=None, most=None, least=0):
    for entry in listed(value, name, length):
        whole(entry, name, least, most)
    return value


def amounts(record, name, length=None):
    """Amounts >= 0 as whole numbers of a unit: {"unit": "1/8", "numbers": [3, 5]}."""
    unit = number(record[name]["unit"], f"the unit of {name}")
    need(unit > 0, f"the unit of {name} must be above 0")
    return wholes(record[name]["numbers"], name, length), unit


def shown(value):
    """A number for people: exact where it is short."""
    exact = str(value)
    return exact if len(exact) <= 12 else f"{float(value):.9g}"


def steps_below(target, step):
    """The largest whole multiple of a step below a target."""
    return step * (ceil(Fraction(target) / step) - 1)


# Prices and branches -------------------------------------------------------------------------------------------------


def refuted_by_prices(case, right, tree):
    """Go through the branches of a tree, each split before its two halves; every leaf's prices must be paid by nobody.

    A split [group, place, most] says: at most so many of the group go there, or more. A leaf's prices, one for each row, refute
    what is left when the cheapest choice of every group costs more than the prices times the right sides.
    """
    waiting = [{}]
    for at, node in enumerate(listed(tree, "the tree")):
        need(waiting, f"branch {at} belongs to no split")
        limits = waiting.pop()
        if "split" in node:
            group, place, most = wholes(node["split"], "a split", 3)
            need(group < case.groups, f"branch {at} splits a group that does not exist")
            waiting += [narrowed(limits, group, place, most + 1, None), narrowed(limits, group, place, 0, most)]
            continue
        prices = wholes(node["prices"], f"the prices of branch {at}", len(right))
        least = cheapest(case, prices, limits)
        room = sum(price * size for price, size in zip(prices, right))
        need(least is None or least > room, f"the prices of branch {at} prove nothing: the cheapest choice fits")
    need(not waiting, "a branch is missing")


def narrowed(limits, group, place, low, high):
    """The limits with one more: how many of a group go to a place."""
    own = dict(limits.get(group, {}))
    before, after = own.get(place, (0, None))
    own[place] = (max(low, before), after if high is None else high if after is None else min(high, after))
    return {**limits, group: own}


def cheapest(case, prices, limits):
    """What all groups pay at least, each by itself; None where the limits leave a group no choice."""
    case.charge(prices)
    total = 0
    for group in range(case.groups):
        count, most = case.count(group), case.most(group)
        if group not in limits and most >= count:
            costs = [cost for _, cost in case.costs(group, False)]
            if not costs:
                return None
            total += count * min(costs)
            continue
        own, room, left = limits.get(group, {}), [], count
        for place, cost in case.costs(group, True):
            low, high = own.get(place, (0, None))
            room.append((cost, (most if high is None else min(most, high)) - low))
            total, left = total + low * cost, left - low
        for cost, more in sorted(room):  # after what is forced, the cheapest places first
            if more < 0 or left < 0:
                return None
            total, left = total + cost * min(more, left), left - min(more, left)
        if left:
            return None
    return total


# Key splitting and key placement -------------------------------------------------------------------------------------


class SplittingCase:
    """Groups of like messages (or of like keys, which stay whole) go to their candidates; the largest load is least."""

    objective = "largest load of a worker"

    def __init__(self, given):
        self.speeds, speed = amounts(given, "speeds")
        need(self.speeds and min(self.speeds) > 0, "a speed must be above 0")
        self.members = listed(given["groups"], "groups")
        self.weights, unit = amounts(given, "weights", len(self.members))
        self.unit, self.groups = unit / speed, len(self.members)
        for group in self.members:
            whole(group["count"], "the count of a group", 1)
            wholes(group["candidates"], "candidates", None, len(self.speeds) - 1)
            need(len(set(group["candidates"])) == len(group["candidates"]) > 0, "a group's candidates must differ")

    def value(self, assignment):
        loads = [0] * len(self.speeds)
        for g, counts in enumerate(listed(assignment, "the assignment", self.groups)):
            group = self.members[g]
            wholes(counts, f"the counts of group {g}", len(group["candidates"]))
            need(sum(counts) == group["count"], f"group {g} has {group['count']} items, {sum(counts)} are placed")
            for worker, placed in zip(group["candidates"], counts):
                loads[worker] += placed * self.weights[g]
        return self.unit * max(Fraction(load, speed) for load, speed in zip(loads, self.speeds))

    def refute(self, target, proof):
        """The room on a worker that stays below the target, in whole steps of what divides all weights."""
        need(target is not None, "some worker always has room")
        step = gcd(*self.weights) or 1
        right = [steps_below(target / self.unit * speed, step) for speed in self.speeds]
        need(min(right) >= 0, "the target is nothing")
        refuted_by_prices(self, right, proof["tree"])

    def charge(self, prices):
        self.prices = prices

    def count(self, group):
        return self.members[group]["count"]

    most = count

    def costs(self, group, every):
        return [(worker, self.prices[worker] * self.weights[group]) for worker in self.members[group]["candidates"]]


# Key groups on nodes -------------------------------------------------------------------------------------------------


class PlacedCase:
    """What most problems share: key groups with a state and a current node, nodes that are kept or drain."""

    objective = "state moved"

    def __init__(self, given):
        self.state, self.unit = amounts(given, "state")
        self.size = len(self.state)
        self.nodes = whole(given["nodes"], "nodes", 1, MOST)
        self.current = wholes(given["current"], "current", self.size, self.nodes - 1)
        drained = set(wholes(given["draining"], "draining", None, self.nodes - 1))
        self.kept = [i not in drained for i in range(self.nodes)]
        need(any(self.kept), "no node is kept")
        self.places, self.may_move = self.nodes, True

    def read(self, assignment):
        return wholes(assignment, "the assignment", self.size, self.places - 1)

    def moved(self, assignment):
        return sum(s for s, now, then in zip(self.state, self.current, assignment) if now != then)

    def sums(self, amount, assignment):
        total = [0] * self.places
        for k, i in enumerate(assignment):
            total[i] += amount[k]
        return total

    def group(self, *features):
        """Key groups that are alike in everything count together; groups are numbered as they are met."""
        number_of = {}
        for feature in zip(*features):
            number_of[feature] = number_of.get(feature, 0) + 1
        self.kinds, self.counts = list(number_of), list(number_of.values())
        self.groups = len(self.kinds)

    def count(self, group):
        return self.counts[group]

    most = count

    def most_moved(self, target):
        """The state that may move for an assignment below the target: a whole multiple of what divides all states."""
        return 0 if target is None else steps_below(target / self.unit, gcd(*self.state) or 1)

    def try_all(self, target):
        need(self.places**self.size <= MOST_LISTED, "there are too many assignments to try them all")
        for assignment in product(range(self.places), repeat=self.size):
            try:
                value = self.value(list(assignment))
            except Refused:
                continue
            need(target is not None and value >= target, f"{list(assignment)} refutes the claim")


class RoutingCase(PlacedCase):
    """Keys routed by a hash and a table of exceptions: node loads within limits, few entries, least state moved."""

    def __init__(self, given):
        super().__init__(given)
        self.load, self.load_unit = amounts(given, "load", self.size)
        self.home = wholes(given["home"], "home", self.size, self.nodes - 1)
        capacity, _ = amounts(given, "capacity", self.nodes)
        theta, slack = positive(given["theta_max"], "theta_max"), positive(given["slack"], "slack")
        mean = Fraction(sum(self.load), sum(c for c, kept in zip(capacity, self.kept) if kept))
        extra = slack * mean * max(capacity)
        self.upper = [floor((1 + theta) * mean * c + extra) if kept else 0 for c, kept in zip(capacity, self.kept)]
        low = max(Fraction(0), 1 - theta) if flag(given["both_sides"], "both_sides") else 0
        self.lower = [max(0, ceil(low * mean * c - extra)) if kept else 0 for c, kept in zip(capacity, self.kept)]
        table = given["max_table_size"]
        self.table = self.size if table is None else whole(table, "max_table_size")
        self.open = [i for i in range(self.nodes) if self.kept[i]]
        self.group(self.load, self.state, self.current, self.home)

    def value(self, assignment):
        self.read(assignment)
        for i, load in enumerate(self.sums(self.load, assignment)):
            need(
                self.lower[i] <= load <= self.upper[i],
                f"node {i} carries {load}, its limits are {self.lower[i]} and {self.upper[i]}",
            )
        need(all(self.kept[i] for i in assignment), "a draining node keeps a key")
        entries = sum(i != h for i, h in zip(assignment, self.home))
        need(entries <= self.table, f"the table needs {entries} entries, it has {self.table}")
        return self.moved(assignment) * self.unit

    def refute(self, target, proof):
        """Rows: state moved, entries of the table, the load of each node, and less than nothing of the load it needs."""
        right = [self.most_moved(target), self.table, *self.upper, *(-low for low in self.lower)]
        self.may_move = target is not None
        refuted_by_prices(self, right, proof["tree"])

    def charge(self, prices):
        need(self.may_move or not prices[0], "state has a price, but no claim is made about it")
        self.per_state, self.per_entry = prices[:2]
        self.per_load = [up - low for up, low in zip(prices[2:], prices[2 + self.nodes :])]
        self.cheap = min(self.open, key=lambda i: self.per_load[i])

    def costs(self, group, every):
        """Only three nodes can be cheapest: the current one, the hash's, and the one of least price."""
        load, state, now, home = self.kinds[group]
        for i in self.open if every else {now, home, self.cheap}:
            if self.kept[i]:
                yield i, self.per_load[i] * load + self.per_state * state * (i != now) + self.per_entry * (i != home)


class MovementCase(PlacedCase):
    """So many nodes in use, each with a load within limits in every window; least state moved."""

    def __init__(self, given):
        super().__init__(given)
        rows = listed(given["load"], "load")
        read = [amounts({"load": row}, "load", self.size) for row in rows]
        slack, low, high = (positive(given[name], name) for name in ("slack", "lower", "upper"))
        self.load = [numbers for numbers, _ in read]
        self.upper = [floor((high + slack * high) / unit) for _, unit in read]
        self.lower = [max(0, ceil((low - slack * high) / unit)) for _, unit in read]
        self.least_is_0 = low == 0
        self.used = whole(given["nodes_after"], "nodes_after", 1, MOST)
        self.places = max(self.nodes, self.used + sum(not kept for kept in self.kept))
        self.open = [i for i in range(self.places) if i >= self.nodes or self.kept[i]]
        self.group(*self.load, self.state, self.current)
        self.groups += 1  # the last group: the nodes in use, of which each counts once

    def value(self, assignment):
        used = set(self.read(assignment))
        need(used <= set(self.open), "a draining node keeps a key group")
        enough = len(used) == self.used or (len(used) < self.used and self.least_is_0)
        need(enough, f"{len(used)} nodes carry key groups, {self.used} should")
        for t, row in enumerate(self.load):
            loads = self.sums(row, assignment)
            for i in used:
                need(self.lower[t] <= loads[i] <= self.upper[t], f"node {i} is outside the limits")
        return self.moved(assignment) * self.unit

    def refute(self, target, proof):
        """Rows: state moved; then for each window and node, load less the room of a node in use, and the reverse."""
        self.may_move = target is not None
        refuted_by_prices(self, [self.most_moved(target)] + [0] * (2 * len(self.load) * self.places), proof["tree"])

    def charge(self, prices):
        need(self.may_move or not prices[0], "state has a price, but no claim is made about it")
        self.per_state, n = prices[0], self.places
        self.up = [prices[1 + 2 * t * n : 1 + (2 * t + 1) * n] for t in range(len(self.load))]
        self.down = [prices[1 + (2 * t + 1) * n : 1 + (2 * t + 2) * n] for t in range(len(self.load))]
        self.per_load = [[u - d for u, d in zip(up, down)] for up, down in zip(self.up, self.down)]

    def count(self, group):
        return self.used if group == self.groups - 1 else self.counts[group]

    def most(self, group):
        return 1 if group == self.groups - 1 else self.counts[group]

    def costs(self, group, every):
        windows = range(len(self.load))
        for i in self.open:
            if group == self.groups - 1:
                yield i, sum(self.down[t][i] * self.lower[t] - self.up[t][i] * self.upper[t] for t in windows)
            else:
                *loads, state, now = self.kinds[group]
                yield i, self.per_state * state * (i != now) + sum(self.per_load[t][i] * loads[t] for t in windows)


class AllocationCase(PlacedCase):
    """Within a limit on moves, the node that deviates most from the mean deviates least."""

    objective = "load distance"

    def __init__(self, given):
        super().__init__(given)
        self.load, self.load_unit = amounts(given, "load", self.size)
        capacity, unit = amounts(given, "capacity", self.nodes)
        self.capacity = [c * unit for c in capacity]
        need(min(self.capacity) > 0, "a capacity must be above 0")
        room = sum(c for c, kept in zip(self.capacity, self.kept) if kept)
        self.mean = sum(self.load) * self.load_unit / room
        if flag(given["mean_rounded_up"], "mean_rounded_up"):
            self.mean = Fraction(ceil(self.mean))
        slack = positive(given["slack"], "slack")
        moves, cost = given["max_migrations"], given["max_state_moved"]
        self.moves = self.size if moves is None else min(self.size, whole(moves, "max_migrations"))
        self.cost = None if cost is None else positive(cost, "max_state_moved") * (1 + slack)
        self.floor = self.mean * (1 + slack) if flag(given["distance_floor"], "distance_floor") else None
        self.into_draining = flag(given["into_draining"], "into_draining")
        self.limits = []
        for resource in listed(given["resources"], "resources"):
            use, unit = amounts(resource, "use", self.size)
            rooms = [positive(r, "a room") * (1 + slack) / unit for r in listed(resource["room"], "room", self.nodes)]
            self.limits.append((use, rooms))

    def check_moves(self, assignment):
        self.read(assignment)
        moves = sum(i != q for i, q in zip(assignment, self.current))
        need(moves <= self.moves, f"{moves} key groups move, the limit is {self.moves}")
        need(self.cost is None or self.moved(assignment) * self.unit <= self.cost, "more state moves than may")
        for i, q in zip(assignment, self.current):
            need(self.kept[i] or i == q or self.into_draining, f"a key group moves to node {i}, which is draining")
        for use, rooms in self.limits:
            need(all(u <= r for u, r in zip(self.sums(use, assignment), rooms)), "a node uses more than it has")

    def value(self, assignment):
        self.check_moves(assignment)
        distance = Fraction(0)
        for load, capacity, kept in zip(self.sums(self.load, assignment), self.capacity, self.kept):
            off = load * self.load_unit / capacity - self.mean
            distance = max(distance, abs(off) if kept else off)
        need(self.floor is None or distance <= self.floor, "the distance exceeds the mean")
        return distance

    def refute(self, target, proof):
        """Every move costs 1, which its sender and its taker share at the key group's price.

        What does each node pay at least to come within the target? If all of them pay more than the moves allowed, they cannot. A
        split [node, side, most] says: the node sends (side 0) or takes (side 1) at most so many, or more.
        """
        need(target is not None, "load distances are proven, infeasibility is not")
        self.target, self.cell = target, whole(proof["cell"], "cell", 1)
        need(sum(self.load) // self.cell <= 40 * MOST, "the cells are too small")
        one = whole(proof["one_move"], "one_move", 2, 10_000)
        waiting = [{}]
        for at, node in enumerate(listed(proof["tree"], "the tree")):
            need(waiting, f"branch {at} belongs to no split")
            counts = waiting.pop()
            if "split" in node:
                i, side, most = wholes(node["split"], "a split", 3)
                need(i < self.nodes and side < 2, f"branch {at} splits nothing")
                waiting += [narrowed(counts, i, side, most + 1, None), narrowed(counts, i, side, 0, most)]
                continue
            prices = wholes(node["prices"], f"the prices of branch {at}", self.size, one, 1)
            paid, nodes = 0, iter(range(self.nodes))
            while paid <= self.moves * one:
                i = next(nodes, None)
                need(i is not None, f"the prices of branch {at} prove nothing: {self.moves} moves pay them")
                paid += self.least_paid(i, prices, one, counts.get(i, {}))
        need(not waiting, "a branch is missing")

    def window(self, i):
        """The loads of node i that are within the target, in whole cells."""
        high = ceil((self.mean + self.target) * self.capacity[i] / self.load_unit) - 1
        low = floor((self.mean - self.target) * self.capacity[i] / self.load_unit) + 1 if self.kept[i] else 0
        return max(0, low) // self.cell, high // self.cell, max(0, low) <= high

    def least_paid(self, i, prices, one, counts):
        """What node i pays at least; where it is more than two moves, or more than eight, that much is enough to know."""
        if not self.window(i)[2]:
            return 8 * one
        paid = self.paid_up_to(2 * one, i, prices, one, counts)
        return paid if paid < 2 * one else self.paid_up_to(8 * one, i, prices, one, counts)

    def paid_up_to(self, most, i, prices, one, counts):
        """Bit x of `reach[a][c]` says: after so many moves, c paid for them, the node's load may be in cell x.

        Loads are rounded down to cells; as what is lost may add up to a cell with every move, each move sets two bits. First
        key groups leave, then others come, each at most once. Moves are counted only where a branch limits them.
        """
        low, high, _ = self.window(i)
        inside, below = ((1 << (high - low + 1)) - 1) << low, (1 << (high + 1)) - 1
        own = [k for k in range(self.size) if self.current[k] == i]
        others = [k for k in range(self.size) if self.current[k] != i and (self.kept[i] or self.into_draining)]
        start = [0] * most
        start[0] = 1 << (sum(self.load[k] for k in own) // self.cell)
        for side, movers in enumerate((own, others)):
            least, limit = counts.get(side, (0, None))
            top = least if limit is None else limit
            reach = [[0] * most for _ in range(top + 1)]
            reach[0] = [bits & below for bits in start] if side else start
            for k in movers:
                price, cells = (prices[k] if side else one - prices[k]), self.load[k] // self.cell
                for a in reversed(range(top + (limit is None))):
                    before, after = reach[a], reach[min(a + 1, top)]
                    for c in reversed(range(price, most)):
                        if bits := before[c - price]:
                            if side:
                                after[c] |= (bits << cells | bits << cells + 1) & below
                            else:
                                after[c] |= bits >> cells | bits >> cells + 1
            start = [0] * most
            for row in reach[least:]:
                start = [x | y for x, y in zip(start, row)]
        return next((c for c, bits in enumerate(start) if bits & inside), most)


# Contiguous intervals of tasks ---------------------------------------------------------------------------------------


class IntervalsCase(PlacedCase):
    """Nodes run intervals of tasks, within a load limit; after each step so many nodes may, and least state moves."""

    def __init__(self, given):
        super().__init__(given)
        self.load, _ = amounts(given, "load", self.size)
        self.tau = positive(given["tau"], "tau")
        self.sums_of_load, self.sums_of_state = sums(self.load), sums(self.state)
        self.keep = sums([s if self.kept[q] else 0 for s, q in zip(self.state, self.current)])
        self.now = cuts(self.current)
        self.steps = [whole(n, "a number of nodes", 1, MOST) for n in listed(given["node_counts"], "node_counts")]
        self.single = flag(given["single"], "single")
        need(self.steps and (len(self.steps) == 1 or not self.single), "node_counts are missing, or too many")
        before = [sum(self.kept), *self.steps]
        self.places = self.nodes + sum(max(0, n - b) for b, n in zip(before, self.steps))

    def limit(self, nodes):
        return floor((1 + self.tau) * sum(self.load) / nodes)

    def starts(self, nodes):
        """The leftmost begin of an interval within the limit, for every end; the end itself where no task fits."""
        found, begin, limit = [0], 0, self.limit(nodes)
        for end in range(1, self.size + 1):
            while self.sums_of_load[end] - self.sums_of_load[begin] > limit:
                begin += 1
            found.append(begin)
        return found

    def check_step(self, assignment, nodes):
        self.read(assignment)
        at = cuts(assignment)
        runs = [assignment[a] for a in at[:-1]]
        need(len(set(runs)) == len(runs), "a node has two intervals")
        need(len(runs) <= nodes, f"{len(runs)} nodes carry tasks, {nodes} may")
        need(all(i >= self.nodes or self.kept[i] for i in runs), "a draining node keeps a task")
        heaviest = max(self.sums_of_load[b] - self.sums_of_load[a] for a, b in zip(at, at[1:]))
        need(heaviest <= self.limit(nodes), f"an interval carries {heaviest}, the limit is {self.limit(nodes)}")

    def value(self, assignment):
        rows, total, before = [assignment] if self.single else assignment, 0, self.current
        for after, nodes in zip(listed(rows, "the assignment", len(self.steps)), self.steps):
            self.check_step(after, nodes)
            total += sum(s for s, q, i in zip(self.state, before, after) if q != i)
            before = after
        return total * self.unit

    def refute(self, target, proof):
        if proof["kind"] == "filled":
            need(target is None, "filling nodes in order proves no value")
            need(any(not self.fits(n) for n in self.steps), "every number of nodes can carry the tasks")
        elif proof["kind"] == "price":  # whatever happens on the way, no detour costs less than the direct step
            need(target is not None, "a price proves no infeasibility")
            nodes = self.steps[whole(proof["step"], "step", 0, len(self.steps) - 1)]
            need(self.least_moved(nodes, whole(proof["price"], "price")) * self.unit >= target, "the price proves less")
        else:
            self.refute_by_partitions(target)

    def fits(self, nodes):
        """Whether nodes filled in order, each as far as it goes, carry all tasks."""
        starts, end = self.starts(nodes), 0
        for _ in range(min(nodes, self.size)):
            begin = end
            while end < self.size and starts[end + 1] <= begin:
                end += 1
        return end == self.size

    def least_moved(self, nodes, price):
        """No step from now to so many nodes moves less: each interval costs the price, and any number of them may be used."""
        kept = most_kept(self.now, self.keep, self.starts(nodes), price)
        return self.sums_of_state[-1] - (kept + price * min(nodes, self.size))

    def partitions(self, nodes):
        """The cuts of every partition into at most so many intervals within the limit."""
        starts = self.starts(nodes)
        unfinished, found = [(self.size,)], []
        while unfinished:
            made = unfinished.pop()
            for begin in range(starts[made[0]], made[0]):
                if begin == 0:
                    found.append((0, *made))
                elif len(made) < nodes:
                    unfinished.append((begin, *made))
            need(len(found) + len(unfinished) <= MOST_LISTED, "there are too many partitions to list")
        return found

    def refute_by_partitions(self, target):
        """The least moved until each partition is reached, step by step; what reaches the target may be forgotten.

        Where the number of nodes does not change nobody need move: a later direct move costs no more.
        """
        need(target is not None, "partitions prove no infeasibility")
        total, most, pairs = self.sums_of_state[-1], target / self.unit, 0
        reached, before = {}, None
        for nodes in self.steps:
            if nodes == before:
                continue
            found = self.partitions(nodes)
            pairs += len(found) * max(1, len(reached))
            need(pairs <= MOST_LISTED, "there are too many pairs of partitions to try")
            if before is None:
                costs = {new: total - kept_together(self.now, new, self.keep) for new in found}
            else:
                costs = {
                    new: min(
                        cost + total - kept_together(old, new, self.sums_of_state) for old, cost in reached.items()
                    )
                    for new in found
                }
            reached, before = {new: cost for new, cost in costs.items() if cost < most}, nodes
            if not reached:
                return
        raise Refused("some partitions are reached for less than is claimed")


def sums(values):
    made = [0]
    for value in values:
        made.append(made[-1] + value)
    return made


def cuts(assignment):
    """Where intervals begin and end: 0, every change of the node, and the number of tasks."""
    changes = [k for k in range(1, len(assignment)) if assignment[k] != assignment[k - 1]]
    return (0, *changes, len(assignment))


def kept_together(old, new, state):
    """The most state that stays when each new interval stays on the node of one old interval, and each old node is used once.

    Overlaps are passed from left to right; an overlap counts if neither its old nor its new interval is taken yet.
    """
    best = {(False, False): 0}  # (is the old interval taken, is the new one) -> state that stays
    i = j = at = 0
    while at < old[-1]:
        end = min(old[i + 1], new[j + 1])
        after = {}
        for (used_old, used_new), value in best.items():
            options = [((used_old, used_new), value)]
            if not used_old and not used_new:
                options.append(((True, True), value + state[end] - state[at]))
            for (a, b), kept in options:
                key = (a and old[i + 1] > end, b and new[j + 1] > end)
                after[key] = max(kept, after.get(key, kept))
        i, j, at, best = i + (old[i + 1] == end), j + (new[j + 1] == end), end, after
    return max(best.values())


def most_kept(old, state, starts, price):
    """The most state kept, less a price for every interval, over all ways to cut the tasks anew.

    An interval stays on the node of one old interval, which is free for one only; as overlaps never cross, only the node of the
    old interval that a new one ends in can still matter to the next. `free[x]` is the best before task x with that node free,
    `best[x]` whether it is free or not.
    """
    size = len(starts) - 1
    never = -(state[-1] + price + 1) * (size + 2)
    free, best, end_of = [never] * (size + 1), [never] * (size + 1), [0] * size
    free[0] = best[0] = 0
    for left, right in zip(old, old[1:]):
        end_of[left:right] = [right] * (right - left)
        # Intervals that begin before this old one, at `first` or later: the best where they stay on no node or an earlier one
        # (`elsewhere`), and the best before them (`before`), to which comes what they have of this old interval.
        first = starts[left + 1]
        elsewhere, before, inner = [never] * (left - first + 1), [never] * (left - first + 1), 0
        for t in range(left - 1, first - 1, -1):
            if t == 0 or end_of[t] != end_of[t - 1]:
                inner = max(inner, state[end_of[t]] - state[t])  # an old interval that lies wholly within the new one
            own = max(best[t] + inner, free[t] + state[end_of[t]] - state[t])
            elsewhere[t - first] = max(own, elsewhere[t - first + 1])
            before[t - first] = max(best[t], before[t - first + 1])
        within = [Highest() for _ in range(3)]
        for x in range(left + 1, right + 1):
            t = x - 1
            for highest, value in zip(within, (free[t], best[t], free[t] - state[t])):
                highest.add(t, value)
            begin = starts[x]
            if begin < x:
                stays, leaves, served = (highest.since(max(begin, left)) for highest in within)
                free[x], best[x] = stays, max(leaves, served + state[x])
                if begin < left:
                    free[x] = max(free[x], elsewhere[begin - first])
                    best[x] = max(best[x], before[begin - first] + state[x] - state[left])
                free[x], best[x] = free[x] - price, max(free[x], best[x]) - price
        free[right] = best[right]
    need(best[size] > never // 2, "no intervals keep the limit")
    return best[size]


class Highest:
    """The highest of the latest values, while the window only moves on."""

    def __init__(self):
        self.line = deque()

    def add(self, at, value):
        while self.line and self.line[-1][1] <= value:
            self.line.pop()
        self.line.append((at, value))

    def since(self, first):
        while self.line[0][0] < first:
            self.line.popleft()
        return self.line[0][1]


class PolicyCase(IntervalsCase):
    """The number of nodes follows a Markov chain; each migration is decided when it is known, and later ones count less."""

    objective = "expected discounted state moved"

    def __init__(self, given):
        super().__init__({**given, "node_counts": [1], "single": False})
        self.discount = positive(given["discount"], "discount")
        need(self.discount < 1, "the discount must be below 1")
        self.rows = {}
        for n, row in listed(given["transitions"], "transitions"):
            chances = {whole(after, "a number of nodes", 1, MOST): positive(p, "a chance") for after, p in row}
            need(sum(chances.values()) == 1, f"the chances after {n} nodes do not sum to 1")
            self.rows[whole(n, "a number of nodes", 1, MOST)] = chances
        need(all(after in self.rows for row in self.rows.values() for after in row), "a row of transitions is missing")
        self.counts = sorted(self.rows)
        self.here, given_next = sum(self.kept), given["nodes_after"]
        self.first = self.rows[self.here] if given_next is None else {whole(given_next, "nodes_after"): Fraction(1)}
        self.places = self.nodes + max(self.counts)

    def value(self, policy):
        """The values that the certificate gives to the policy's states must not be below one step of the policy."""
        table, values = listed(policy["table"], "the table"), listed(policy["values"], "the values")
        values = [positive(value, "a value") for value in values]
        need(len(table) == len(values) > 0, "every state needs a value")
        states, number = [(self.here, self.current)], {}
        for r, row in enumerate(table):
            need(r < len(states), f"state {r} is met nowhere before its row")
            nodes, before = states[r]
            expected = Fraction(0)
            for after, chance in (self.rows[nodes] if r else self.first).items():
                decided = listed(row, "a row", len(self.counts))[self.counts.index(after)]
                if r:
                    wholes(decided, "a decision", self.size, max(nodes, after) - 1)
                    self.check_intervals(decided, after)
                else:
                    new = max(0, after - self.here)
                    wholes(decided, "a decision", self.size, self.nodes + new - 1)
                    self.check_step(decided, after)
                at = cuts(decided)
                if (after, at) not in number:
                    number[after, at] = len(states)
                    states.append((after, [i for i, (a, b) in enumerate(zip(at, at[1:])) for _ in range(b - a)]))
                to = number[after, at]
                need(to < len(values), f"the decision of state {r} for {after} nodes leads to a state without a row")
                moved = sum(s for s, q, i in zip(self.state, before, decided) if q != i) * self.unit
                expected += chance * (moved + self.discount * values[to])
            need(values[r] >= expected, f"the value of state {r} is below one step of the policy")
        return values[0]

    def check_intervals(self, decided, nodes):
        kept, self.kept = self.kept, [True] * self.nodes  # after the first step nobody drains
        try:
            self.check_step(decided, nodes)
        finally:
            self.kept = kept

    def reachable(self):
        found, waiting = set(self.first), list(self.first)
        while waiting:
            new = set(self.rows[waiting.pop()]) - found
            found |= new
            waiting += new
        return sorted(found)

    def refute(self, target, proof):
        counts = self.reachable()
        if target is None:
            need(any(not self.fits(n) for n in counts), "every number of nodes can carry the tasks")
            return
        if proof["kind"] == "prices":  # the first step alone
            least = {n: self.least_moved(n, whole(price, "price")) for n, price in listed(proof["prices"], "prices")}
            bound = sum(chance * max(0, least[n]) for n, chance in self.first.items())
        else:
            bound = self.swept({n: self.partitions(n) for n in counts}, proof["values"])
        need(bound * self.unit >= target, "the values prove less")

    def swept(self, partitions, given):
        """One sweep over all pairs: values that no step improves on are below those of every policy."""
        listed(given, "the values", len(partitions))
        values = {
            n: [positive(v, "a value") for v in listed(row, "values", len(partitions[n]))]
            for n, row in zip(partitions, given)
        }
        pairs = sum(len(found) * len(partitions[after]) for n, found in partitions.items() for after in self.rows[n])
        need(pairs <= MOST_LISTED, "there are too many pairs of partitions to try")
        ahead = {n: [self.discount * v for v in row] for n, row in values.items()}
        moves = self.sums_of_state[-1]

        def step(old, row, keep):
            """What one step from a partition costs at least, with what is ahead."""
            return sum(
                chance
                * min(moves - kept_together(old, new, keep) + v for new, v in zip(partitions[after], ahead[after]))
                for after, chance in row.items()
            )

        for n, found in partitions.items():
            for i, old in enumerate(found):
                least = step(old, self.rows[n], self.sums_of_state)
                need(values[n][i] <= least, f"the value of partition {i} of {n} nodes is above one step")
        return step(self.now, self.first, self.keep)


# Key groups that talk to each other ----------------------------------------------------------------------------------


class CollocationCase(AllocationCase):
    """Least traffic between nodes, while nobody deviates from the mean by more than a limit."""

    objective = "traffic between nodes"

    def __init__(self, given):
        super().__init__(given)
        self.talk, self.unit_of_talk = amounts(given, "traffic")
        ends = listed(given["pairs"], "pairs", len(self.talk))
        self.pairs = [tuple(wholes(pair, "a pair", 2, self.size - 1)) for pair in ends]
        need(all(k < l for k, l in self.pairs), "a pair is two key groups, the smaller number first")
        distance = given["max_distance"]
        self.most_off = (
            None
            if distance is None
            else positive(distance, "max_distance") + positive(given["slack"], "slack") * self.mean
        )

    def value(self, assignment):
        self.check_moves(assignment)
        for load, capacity, kept in zip(self.sums(self.load, assignment), self.capacity, self.kept):
            off = load * self.load_unit / capacity - self.mean
            need(
                self.most_off is None or (abs(off) if kept else off) <= self.most_off,
                "a node deviates too far from the mean",
            )
        return sum(t for t, (k, l) in zip(self.talk, self.pairs) if assignment[k] != assignment[l]) * self.unit_of_talk

    def refute(self, target, proof):
        raise Refused("a bound on the traffic between nodes is not proven by this program")


# Loads that vary together --------------------------------------------------------------------------------------------


class BalanceCase(PlacedCase):
    """Node loads vary least over all windows, while no more state moves than may."""

    objective = "imbalance"

    def __init__(self, given):
        super().__init__(given)
        units = [amounts({"load": row}, "load", self.size) for row in listed(given["load"], "load")]
        need(units and len({unit for _, unit in units}) == 1, "all windows must have one unit")
        self.load, self.load_unit = [numbers for numbers, _ in units], units[0][1]
        budget = given["max_state_moved"]
        slack = positive(given["slack"], "slack")
        self.budget = None if budget is None else floor(positive(budget, "max_state_moved") * (1 + slack) / self.unit)
        self.count = sum(self.kept)

    def value(self, assignment):
        self.read(assignment)
        need(all(self.kept[i] for i in assignment), "a draining node keeps a key group")
        need(self.budget is None or self.moved(assignment) <= self.budget, "more state moves than may")
        squares = sum(load * load for row in self.load for load in self.sums(row, assignment))
        means = Fraction(sum(sum(row) ** 2 for row in self.load), self.count)
        return (squares - means) / self.count * self.load_unit**2

    def refute(self, target, proof):
        if target is None:
            forced = sum(s for s, q in zip(self.state, self.current) if not self.kept[q])
            need(self.budget is not None and forced > self.budget, "the draining nodes can be emptied")
            return
        least = self.semidefinite(proof) if proof["kind"] == "semidefinite" else self.by_windows()
        need(least / self.count * self.load_unit**2 >= target, "the multipliers prove less")

    def by_windows(self):
        """Window by window: the fullest nodes cannot carry less than the largest key groups do, and the rest is levelled."""
        n, total = self.count, Fraction(0)
        for row in self.load:
            large, left = sorted(row, reverse=True), Fraction(sum(row))
            pigeons = max(sum(large[g * n - r] for r in range(g + 1)) for g in range((len(large) - 1) // n + 1))
            top = sums((large + [0] * n)[:n])[1:]
            top = [max(t, pigeons, left / n) for t in top]
            mean, taken = left / n, Fraction(0)
            for j in range(n):
                load = max(max((top[i] - taken) / (i - j + 1) for i in range(j, n)), (left - taken) / (n - j))
                taken, total = taken + load, total + (load - mean) ** 2
        return total

    def semidefinite(self, proof):
        """A matrix without negative eigenvalues, below that of the loads.

        Let X[k, l] = 1 - 1/n if k and l share a node, else -1/n, and C[k, l] the sum over the windows of load k times load
        l. Then n times the imbalance is the sum of C[k, l] X[k, l]; and X has no negative eigenvalue. The proof gives a matrix
        M, at most C off the diagonal, without negative eigenvalues: what C has more than M is worth (1 - 1/n) on the
        diagonal and at least -1/n off it. Nodes that hold state have a row each at the end of M; they are all apart, and a
        price for state says how much must stay with them.
        """
        n, p = self.count, self.size
        nodes = listed(proof["anchors"], "anchors")
        need(len(set(wholes(nodes, "anchors", None, self.nodes - 1))) == len(nodes), "anchors must differ")
        need(all(self.kept[i] for i in nodes), "an anchor is on a draining node")
        size, price = p + len(nodes), whole(proof["price"], "price")
        need(not price or self.budget is not None, "state has a price, but no limit")
        unit = positive(proof["unit"], "the unit of the matrix")
        matrix = listed(proof["matrix"], "the matrix", size)
        matrix = [wholes(row, "the matrix", k + 1, None, -(10**4000)) for k, row in enumerate(matrix)]
        rows = list(zip(*self.load))
        place = {i: p + a for a, i in enumerate(nodes)}
        diagonal = off = Fraction(0)
        held = 0
        for k in range(size):
            for l in range(k + 1):
                entry = matrix[k][l]
                if l < p <= k and place.get(self.current[l]) == k:
                    held += self.state[l]
                    entry += price * self.state[l]
                more = (sum(x * y for x, y in zip(rows[k], rows[l])) if k < p else 0) - unit * entry
                if k == l:
                    diagonal += more
                    continue
                need(more >= 0 or l >= p, f"entry {k}, {l} of the matrix is too large")
                off += more
        bound = diagonal * (1 - Fraction(1, n)) - Fraction(2 * off, n)
        if price:  # of the state on these nodes at least so much stays: all of it less the budget
            free = self.budget - sum(s for s, q in zip(self.state, self.current) if not self.kept[q])
            bound += 2 * price * unit * (held - free - Fraction(held, n))
        need(positive_definite(matrix), "the matrix has a negative eigenvalue")
        return bound


def positive_definite(matrix):
    """Gauss's elimination in whole numbers [Bareiss]: every pivot, a minor of the matrix, is above 0."""
    before = 1
    rows = [list(row) for row in matrix]  # the lower half is enough
    for k in range(len(rows)):
        pivot = rows[k][k]
        if pivot <= 0:
            return False
        for i in range(k + 1, len(rows)):
            for j in range(k + 1, i + 1):
                rows[i][j] = (rows[i][j] * pivot - rows[i][k] * rows[j][k]) // before
        before = pivot
    return True


# The certificate as a whole ------------------------------------------------------------------------------------------

CASES = {
    "key-splitting": SplittingCase,
    "key-placement": SplittingCase,
    "mixed-routing": RoutingCase,
    "movement-within-limits": MovementCase,
    "key-group-allocation": AllocationCase,
    "collocated-allocation": CollocationCase,
    "interval-migration": IntervalsCase,
    "migration-sequence": IntervalsCase,
    "migration-policy": PolicyCase,
    "mclb": BalanceCase,
}


def verified(record):
    """What the certificate proves, in one sentence."""
    need(type(record) is dict and record.get("format") == "keyshift-certificate", "this is no keyshift certificate")
    need(whole(record["version"], "version") == 1, "this program reads version 1 of certificates")
    need(record["problem"] in CASES, f"there is no problem {record['problem']!r:.40}")
    case = CASES[record["problem"]](record["instance"])
    claim, proof = record["claim"], record["proof"]
    value, bound = (None if claim[name] is None else number(claim[name], name) for name in ("value", "bound"))
    said = []
    if value is not None:
        found = case.value(record["assignment"])
        need(found == value, f"the {case.objective} of the assignment is {shown(found)}, not {shown(value)}")
        said.append(f"the assignment keeps every rule and its {case.objective} is {shown(value)}")
    if flag(claim["infeasible"], "infeasible"):
        need(value is None and bound is None, "what cannot be has no value")
        refuted(case, None, proof)
        said.append("no assignment keeps every rule")
    elif bound is not None:
        need(value is None or bound <= value, "the bound is above the value")
        if bound > 0:
            refuted(case, bound, proof)
        less = "less" if bound == value else f"less than {shown(bound)}"
        close = f" (gap {float((value - bound) / value):.2g})" if value and bound < value else ""
        said.append(f"no assignment has {less}{close}")
    need(said, "nothing is claimed")
    return f"{record['problem']}: {', and '.join(said)}"


def refuted(case, target, proof):
    """Every assignment with a value below the target (None: every assignment at all) breaks a rule."""
    if proof["kind"] == "all":
        case.try_all(target)
    else:
        case.refute(target, proof)


def refuse_float(text):
    raise Refused(f"{text:.20} is no exact number")


def check_file(path):
    """Whether a certificate's file is proven, and one sentence."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file, parse_float=refuse_float, parse_constant=refuse_float)
        return True, f"proven: {verified(record)}"
    except Refused as error:
        said = str(error)
    except OSError as error:
        said = f"the file cannot be read ({error.strerror})"
    except NOT_READABLE as error:
        said = f"the certificate is damaged ({type(error).__name__}: {error!s:.60})"
    return False, f"not proven: {said}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -I -S verify.py certificate.json")
    proven, said = check_file(sys.argv[1])
    print(said)
    sys.exit(0 if proven else 1)
