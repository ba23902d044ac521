"""Check a keyshift certificate: python -I -S verify.py certificate.json

One file, the standard library alone, exact whole numbers and fractions; it imports nothing of keyshift. A certificate holds an
instance, an assignment, a claim and a proof. This program works out whether the assignment keeps every rule and has the value
that is claimed, and whether the proof shows that no assignment has less. It prints one sentence and exits with 0 (proven) or 1.

Loads and states are whole numbers of a unit, so that sums of them are exact. Three ideas carry all proofs:

* Prices. Charge a price for what is scarce - room on a node, entries of a table - and let every key group choose what is cheapest
  for it alone. If even that costs more than all the room there is would pay, no assignment keeps the limits.
* Branches. Something is at most 3, or at least 4: refute both, and nothing is left.
* Tables. Where everything can be listed, values that no step improves are the values of the best.
"""

import json
import sys
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from fractions import Fraction
from itertools import combinations, product
from math import ceil, comb, floor, gcd
from pathlib import Path
from stat import S_ISREG

MOST = (
    10**7
)  # nodes: beside this number, nothing that is stored is larger than what the file holds, or than the limits below
MOST_BYTES = 2**28
MOST_DIGITS = 1_000
MOST_LISTED = 300_000  # assignments, or sets of key groups, that are tried one by one
MOST_CELLS = 1_000_000  # of a table: key groups by nodes, or partitions by partitions
MOST_STEPS = 10**8
DAMAGED = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError, MemoryError)


class Refused(Exception):
    """The fault, in one sentence."""


def need(holds, said):
    if not holds:
        raise Refused(said)


# Reading: nothing in a certificate is believed before it has been looked at ------------------------------------------


def whole(value, name, least=0, most=None):
    need(type(value) is int, f"{name} must be a whole number")
    need((least is None or value >= least) and (most is None or value <= most), f"{name} is out of range")
    return value


def number(value, name):
    """A number >= 0: a whole one, or a fraction written as text, 3 or "22/7"."""
    if type(value) is not int:
        need(type(value) is str and value and set(value) <= set("-/0123456789"), f"{name} must be like 3 or '22/7'")
        need(len(value) <= 2 * MOST_DIGITS, f"{name} has too many digits")
    need((made := Fraction(value)) >= 0, f"{name} must not be negative")
    return made


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
    return exact if len(exact := str(value)) <= 12 else f"about {float(value):.9g}"


def steps_below(target, step):
    """The largest whole multiple of a step below a target."""
    return step * (ceil(Fraction(target) / step) - 1)


def sums(values):
    made = [0]
    for value in values:
        made.append(made[-1] + value)
    return made


# Branches and prices -------------------------------------------------------------------------------------------------


def branches(tree, refutes):
    """Go through a tree in which each split stands before its two halves; every leaf must be refuted.

    A split [what, where, most] says: at most so many of it are there, or more. `limits[what][where]` is (least, most).
    """
    waiting = [()]
    for at, node in enumerate(listed(tree, "the tree")):
        need(waiting, f"branch {at} belongs to no split")
        path = waiting.pop()
        if "split" in node:
            waiting += halves(path, *wholes(node["split"], "a split", 3))
        else:
            refuted = refutes(node, limits_of(path))
            need(refuted, f"the prices of branch {at} prove nothing: the cheapest choice can pay them")
    need(not waiting, "a branch is missing")


def halves(path, what, where, most):
    """Where a split leads to: more than so many, or at most so many. A path is its last step and the path before."""
    return (path, what, where, most + 1, None), (path, what, where, 0, most)


def limits_of(path):
    limits = {}
    while path:
        path, what, where, low, high = path
        own = limits.setdefault(what, {})
        before, after = own.get(where, (0, None))
        own[where] = (max(low, before), after if high is None else high if after is None else min(high, after))
    return limits


def refute_by_prices(case, target, proof):
    """Each row is scarce: (least, most). A price above 0 charges for the most of it, one below 0 pays for the least."""
    rows = case.scarce(target)

    def refutes(node, limits):
        prices = wholes(node["prices"], "prices", len(rows), None, None)
        least = cheapest(case, prices, limits)
        return least is None or least > sum(price * row[price > 0] for price, row in zip(prices, rows))

    branches(proof["tree"], refutes)


def cheapest(case, prices, limits):
    """The least that all groups of like items pay, each by itself; None where the limits leave a group no choice."""
    case.charge(prices)
    total = 0
    for group, count in enumerate(case.counts):
        own, room, left = limits.get(group), [], count
        if not own and case.most(group) >= count:
            total += count * min(cost for _, cost in case.costs(group, False))
            continue
        for place, cost in case.costs(group, True):
            low, high = (own or {}).get(place, (0, None))
            room.append((cost, min(case.most(group), count if high is None else high) - low))
            total, left = total + low * cost, left - low
        for cost, more in sorted(room):  # after what is forced, the cheapest places first
            if more < 0 or left < 0:
                return None
            total, left = total + cost * min(more, left), left - min(more, left)
        if left:
            return None
    return total


class SplittingCase:
    """Key splitting and placement: groups of like messages, or whole keys, go to candidates; the largest load is minimised."""

    objective, exact = "largest load of a worker", True

    def __init__(self, given):
        self.speeds, speed = amounts(given, "speeds")
        need(self.speeds and min(self.speeds) > 0, "a speed must be above 0")
        self.members = listed(given["groups"], "groups")
        self.weights, unit = amounts(given, "weights", len(self.members))
        self.unit, self.counts = unit / speed, [whole(group["count"], "a count", 1) for group in self.members]
        for group in self.members:
            wholes(group["candidates"], "candidates", None, len(self.speeds) - 1)
            need(len(set(group["candidates"])) == len(group["candidates"]) > 0, "a group's candidates must differ")

    def value(self, assignment):
        loads = [0] * len(self.speeds)
        for g, counts in enumerate(listed(assignment, "the assignment", len(self.counts))):
            group = self.members[g]
            wholes(counts, f"the counts of group {g}", len(group["candidates"]))
            need(sum(counts) == self.counts[g], f"group {g} has {self.counts[g]} items, {sum(counts)} are placed")
            for worker, placed in zip(group["candidates"], counts):
                loads[worker] += placed * self.weights[g]
        return self.unit * max(Fraction(load, speed) for load, speed in zip(loads, self.speeds))

    def scarce(self, target):
        """The room on a worker that stays below the target, in whole steps of what divides all weights."""
        need(target is not None, "some worker always has room")
        step = gcd(*self.weights) or 1
        return [(0, steps_below(target / self.unit * speed, step)) for speed in self.speeds]

    refute = refute_by_prices

    def charge(self, prices):
        self.prices = prices

    def most(self, group):
        return self.counts[group]

    def costs(self, group, every):
        return [(worker, self.prices[worker] * self.weights[group]) for worker in self.members[group]["candidates"]]


class Rules:
    """The rules of the cluster.

    Key groups that share a node (merged), nodes where some may not be (closed), the least and the most that key groups weigh in
    each of some sets of nodes (rooms), and the most that moves into some nodes weigh (budgets).
    """

    def __init__(self, given, size, places):
        one = given or {"merged": [], "closed": [], "rooms": [], "budgets": []}
        self.merged = [wholes(members, "merged", None, size - 1) for members in listed(one["merged"], "merged")]
        self.closed, self.rooms, self.budgets = [set() for _ in range(size)], [], []
        for k, nodes in listed(one["closed"], "closed"):
            self.closed[whole(k, "a key group", 0, size - 1)] |= set(wholes(nodes, "closed", None, places - 1))
        for room in listed(one["rooms"], "rooms"):
            most = wholes(room["most"], "most", None, None)
            ends = list(zip(wholes(room["least"], "least", len(most)), most))
            domain = wholes(room["domain"], "domain", places, len(most) - 1, -1)
            self.rooms.append((*self.weighed(room, size), domain, ends))
        for budget in listed(one["budgets"], "budgets"):
            into = set(wholes(budget["into"], "into", None, places - 1))
            self.budgets.append((*self.weighed(budget, size), into, whole(budget["most"], "most")))
        self.work = size + sum(map(len, self.merged)) + sum(len(form[0]) for form in self.rooms + self.budgets)
        self.work += sum(len(ends) for *_, ends in self.rooms)

    def weighed(self, form, size):
        members = wholes(form["key_groups"], "key_groups", None, size - 1)
        return members, amounts(form, "weights", len(members))[0]

    def check(self, assignment, current):
        need(all(len({assignment[k] for k in members}) < 2 for members in self.merged), "what moves as one is apart")
        need(all(i not in closed for i, closed in zip(assignment, self.closed)), "a key group is where it may not be")
        for members, weights, domain, ends in self.rooms:
            held = Counter()
            for k, weight in zip(members, weights):
                held[domain[assignment[k]]] += weight
            fits = all(least <= held[d] <= most for d, (least, most) in enumerate(ends))
            need(fits, "a set of nodes holds too much, or too little, of what a rule counts")
        for members, weights, into, most in self.budgets:
            moved = (w for k, w in zip(members, weights) if assignment[k] != current[k] and assignment[k] in into)
            need(sum(moved) <= most, "more moves than a rule allows")


class PlacedCase:
    """The other problems' common part: key groups with a state and a current node, and rules for where they may run."""

    objective, exact, grows = "state moved", True, False

    def __init__(self, given):
        self.state, self.unit = amounts(given, "state")
        self.size = size = len(self.state)
        self.nodes = whole(given["nodes"], "nodes", 1, MOST)
        self.places = whole(given["places"], "places", self.nodes, MOST)  # nodes that are, and that may be added
        need(self.grows or self.places == self.nodes, "no node may be added")
        self.current = wholes(given["current"], "current", size, self.nodes - 1)
        self.draining = set(wholes(given["draining"], "draining", None, self.nodes - 1))
        need(len(self.draining) < self.nodes, "no node is kept")
        self.empty = flag(given["empty"], "empty")
        closed = self.draining if flag(given["closed"], "closed") else set()
        self.rules = Rules(given.get("rules"), size, self.places)
        self.closed = [closed | more for more in self.rules.closed]  # to each key group that is elsewhere
        self.home = self.current if given["home"] is None else wholes(given["home"], "home", size, self.nodes - 1)
        self.moves, self.entries = (
            size if given[name] is None else min(size, whole(given[name], name))
            for name in ("max_moves", "max_entries")
        )
        most = given["max_state"]
        self.most_state = sum(self.state) if most is None else floor(number(most, "max_state") / self.unit)
        self.in_use = given["in_use"] if given["in_use"] is None else whole(given["in_use"], "in_use", 1, MOST)
        self.loads, self.units, self.limits = [], [], []
        for row in listed(given["rows"], "rows"):
            load, unit = amounts(row, "load", size)
            limits = None  # of each node's load: the least and the most
            if row["least"] is not None or row["most"] is not None:
                ends = (wholes(row[name], name, self.places) for name in ("least", "most"))
                limits = list(zip(*ends))
            self.loads.append(load)
            self.units.append(unit)
            self.limits.append(limits)

    def moved(self, assignment):
        return sum(s for s, now, then in zip(self.state, self.current, assignment) if now != then)

    def sums(self, load, assignment):
        total = Counter()
        for x, i in zip(load, assignment):
            total[i] += x
        return total

    def check(self, assignment):
        """Whether an assignment keeps every rule."""
        used = set(wholes(assignment, "the assignment", self.size, self.places - 1))
        moves, entries = (sum(i != q for i, q in zip(assignment, now)) for now in (self.current, self.home))
        need(moves <= self.moves, f"{moves} key groups move, the limit is {self.moves}")
        need(entries <= self.entries, f"the table needs {entries} entries, it has {self.entries}")
        need(self.moved(assignment) <= self.most_state, "more state moves than may")
        need(not self.empty or not used & self.draining, "a draining node keeps something")
        stay = all(i == q or i not in closed for i, q, closed in zip(assignment, self.current, self.closed))
        need(stay, "a key group moves to a node that is closed to it")
        self.rules.check(assignment, self.current)
        few = len(used) < (self.in_use or 0) and all(low == 0 for row in self.limits for low, _ in row or ())
        need(self.in_use in (None, len(used)) or few, f"{len(used)} nodes carry something, {self.in_use} should")
        for load, limits in zip(self.loads, self.limits):
            carried = self.sums(load, assignment)
            for i, (low, high) in enumerate(limits or ()):
                bound = self.in_use is None or i in used
                need(not bound or low <= carried[i] <= high, f"node {i} is outside its limits")

    def value(self, assignment):
        self.check(assignment)
        return self.moved(assignment) * self.unit

    def try_all(self, target):
        few, each = self.places ** min(self.size, 64), self.places + self.size * (1 + len(self.loads)) + self.rules.work
        need(few <= MOST_LISTED and few * each <= MOST_STEPS, "there are too many assignments to try them all")
        for assignment in product(range(self.places), repeat=self.size):
            try:
                value = self.value(list(assignment))
            except Refused:
                continue
            need(target is not None and value >= target, f"{list(assignment)} refutes the claim")


class MovedCase(PlacedCase):
    """Mixed routing and least movement: loads stay within limits, and as little state as possible moves."""

    refute, grows = refute_by_prices, True

    def __init__(self, given):
        super().__init__(given)
        need(self.empty, "draining nodes must be emptied")
        need(self.limits and None not in self.limits, "every load needs its limits")
        self.open = [i for i in range(self.places) if i not in self.draining]
        number_of = {}  # keys that are alike in everything count together, numbered as they are met
        for kind in zip(*self.loads, self.state, self.current, self.home):
            number_of[kind] = number_of.get(kind, 0) + 1
        self.kinds, self.counts = list(number_of), list(number_of.values())
        if self.in_use is not None:  # the last group: the nodes in use, of which each counts once
            need(self.in_use <= len(self.open), "there are too few places")
            self.counts.append(self.in_use)

    def scarce(self, target):
        """State moved, entries of the table, the load of each node: where nodes must be in use, less the room of one in use."""
        moved = sum(self.state) if target is None else steps_below(target / self.unit, gcd(*self.state) or 1)
        fixed = [limit if self.in_use is None else (0, 0) for row in self.limits for limit in row]
        return [(0, moved), (0, self.entries), *fixed]

    def charge(self, prices):
        (self.per_state, self.per_entry), n = prices[:2], self.places
        self.prices = [prices[2 + t * n : 2 + (t + 1) * n] for t in range(len(self.loads))]
        self.some = len(self.loads) == 1 and self.per_state >= 0 <= self.per_entry
        self.least = min(self.open, key=self.prices[0].__getitem__) if self.some else None

    def most(self, group):
        return self.counts[group] if group < len(self.kinds) else 1

    def costs(self, group, every):
        if group == len(self.kinds):
            for i in self.open:
                paid = ((prices[i], limits[i]) for prices, limits in zip(self.prices, self.limits))
                yield i, -sum(price * limit[price > 0] for price, limit in paid)
            return
        *loads, state, now, home = self.kinds[group]
        for i in self.open if every or not self.some else {now, home, self.least}:  # no other can be cheapest
            if i not in self.draining:
                charge = sum(prices[i] * load for prices, load in zip(self.prices, loads))
                yield i, charge + self.per_state * state * (i != now) + self.per_entry * (i != home)


# Key groups that move a few at a time --------------------------------------------------------------------------------


class AllocationCase(PlacedCase):
    """Key-group allocation: the smallest load distance within a limit on moves."""

    objective = "load distance"

    def __init__(self, given):
        super().__init__(given)
        need(self.loads, "there are no loads")
        self.load, unit = self.loads[0], self.units[0]
        self.capacity, scale = amounts(given, "capacity", self.nodes)
        need(min(self.capacity) > 0, "a capacity must be above 0")
        self.scale = scale / unit  # of capacities to loads as whole numbers
        kept = sum(c for i, c in enumerate(self.capacity) if i not in self.draining)
        self.mean = sum(self.load) / self.scale / kept
        if flag(given["mean_rounded_up"], "mean_rounded_up"):
            self.mean = Fraction(ceil(self.mean))
        self.widest = None if given["widest"] is None else number(given["widest"], "widest")
        self.untried = MOST_STEPS

    def value(self, assignment):
        self.check(assignment)
        carried, distance = self.sums(self.load, assignment), 0
        for i, c in enumerate(self.capacity):
            off = carried[i] / (c * self.scale) - self.mean
            distance = max(distance, off if i in self.draining else abs(off))
        need(self.widest is None or distance <= self.widest, "the distance is too wide")
        return distance

    def refute(self, target, proof):
        """Every move costs `one`, which its sender and its taker share: the taker pays the key group's price.

        What does each node pay at least to come below the target (where nothing is allowed: within the widest distance)? If all
        of them pay more than the moves allowed cost, they cannot. A split [node, side, most] says: the node sends (side 0) or
        takes (side 1) at most so many, or more.
        """
        need(target is not None or self.widest is not None, "there is no limit on the distance")
        one, steps = whole(proof["one"], "one", 1), whole(proof["steps"], "steps", 1)
        slopes = wholes(proof["slopes"], "slopes", None, None, None)
        self.untried = MOST_STEPS

        def refutes(node, counts):
            prices, left = wholes(node["prices"], "prices", self.size, None, None), self.moves * one + 1
            safe = all(0 <= price <= one for price in prices)  # then no move is paid for, and the search may stop early
            for i in range(self.nodes):
                if left > 0 or not safe:
                    rest = (slopes, left if safe else self.moves * one + 1)
                    left -= self.least_paid(i, self.window(i, target), counts.get(i, {}), prices, one, steps, *rest)
            return left <= 0

        branches(proof["tree"], refutes)

    def window(self, i, target):
        """The loads that node i may have."""
        off = self.widest if target is None else target
        low, high = ((self.mean + side) * self.capacity[i] * self.scale for side in (-off, off))
        low, high = (ceil(low), floor(high)) if target is None else (floor(low) + 1, ceil(high) - 1)
        return 0 if i in self.draining else max(0, low), high

    def least_paid(self, i, window, counts, prices, one, steps, slopes, enough):
        """The least that node i pays (or `enough`), over all numbers a of key groups that it sends and b that it takes.

        A slope charges for load as it leaves and pays for it as it comes: whatever the slope, no a and b cost less than the a
        cheapest and the b cheapest then do, with what the window of loads is worth. Few enough sets are tried one by one.
        """
        load, here = self.load, [k for k in range(self.size) if self.current[k] == i]
        own = [k for k in here if len(self.closed[k]) < self.nodes]
        others = [k for k in range(self.size) if self.current[k] != i and i not in self.closed[k]]
        low, high = (edge - sum(load[k] for k in here) for edge in window)  # what comes, less what leaves
        if low > high:
            return enough
        ranges = []
        for side, movers in enumerate((own, others)):
            least, most = counts.get(side, (0, None))
            ranges.append(range(least, min(len(movers), self.moves, self.size if most is None else most) + 1))
        need(len(ranges[0]) * len(ranges[1]) <= MOST_LISTED, "a node may send and take in too many ways")
        pairs, bounds = list(product(*ranges)), {}
        for slope in [0, *slopes]:
            send = sums(sorted((one - prices[k]) * steps + slope * load[k] for k in own))
            take = sums(sorted(prices[k] * steps - slope * load[k] for k in others))
            edge = min(slope * low, slope * high)
            for a, b in pairs:
                bound = send[a] + take[b] + edge
                bounds[a, b] = max(bounds.get((a, b), bound), bound)
            pairs = [pair for pair in pairs if bounds[pair] < enough * steps]
        others.sort(key=load.__getitem__)
        entering = Arrivals([load[k] for k in others], [prices[k] for k in others])
        for bound, (a, b) in sorted((-(-bounds[pair] // steps), pair) for pair in pairs):
            if bound >= enough:
                break
            ways = comb(len(own), a) * comb(len(others), max(0, b - 1))
            if ways > min(MOST_LISTED, self.untried):
                return bound
            self.untried -= ways
            for leave in combinations(own, a):
                gone, paid = sum(load[k] for k in leave), a * one - sum(prices[k] for k in leave)
                enough = min(enough, paid + entering.least(b, low + gone, high + gone, enough - paid))
        return enough


class Arrivals:
    """The least price of so many key groups whose loads sum to within a window; `loads` ascend."""

    def __init__(self, loads, prices):
        self.loads, self.runs = loads, [prices]  # the cheapest of each run of 1, 2, 4, 8 ... prices
        while 2 ** len(self.runs) <= len(prices):
            half = self.runs[-1][2 ** (len(self.runs) - 1) :]
            self.runs.append([min(pair) for pair in zip(self.runs[-1], half)])
        self.cheapest = min(prices, default=0)

    def least(self, count, low, high, enough, first=0):
        """`enough`, or less: what so many from the first on cost."""
        if count == 0:
            return 0 if low <= 0 <= high else enough
        if count == 1:
            begin, end = max(first, bisect_left(self.loads, low)), bisect_right(self.loads, high)
            if begin >= end:
                return enough
            level = (end - begin).bit_length() - 1
            return min(enough, self.runs[level][begin], self.runs[level][end - 2**level])
        for k in range(first, len(self.loads) if count * self.cheapest < enough else first):
            price, load = self.runs[0][k], self.loads[k]
            enough = min(enough, price + self.least(count - 1, low - load, high - load, enough - price, k + 1))
        return enough


class CollocationCase(AllocationCase):
    """Collocation: the least traffic between nodes within a limit on the load distance."""

    objective = "traffic between nodes"

    def __init__(self, given):
        super().__init__(given)
        self.talk, self.unit_of_talk = amounts(given, "traffic")
        ends = listed(given["pairs"], "pairs", len(self.talk))
        self.pairs = [tuple(wholes(pair, "a pair", 2, self.size - 1)) for pair in ends]
        need(all(k < l for k, l in self.pairs), "a pair is two key groups, the smaller number first")
        anything = 0, sum(self.load)
        self.rooms = [anything if self.widest is None else self.window(i, None) for i in range(self.nodes)]

    def value(self, assignment):
        super().value(assignment)
        return sum(t for t, (k, l) in zip(self.talk, self.pairs) if assignment[k] != assignment[l]) * self.unit_of_talk

    def refute(self, target, proof):
        """Prices for moves and for the load of each node; then pairs that form a forest are no obstacle: go from its leaves up.

        A split [key group, node, 0] says: the key group is elsewhere, or there. Other pairs count as today; who moves to node i
        wins its pairs with those there, loses its pairs with those left behind, and at best leaves and arrives with others.
        """
        if target is None:
            return super().refute(None, proof)
        read = scale, *_ = self.forest(proof)
        beaten = sum(self.talk) - steps_below(target / self.unit_of_talk, gcd(*self.talk) or 1)
        branches(proof["tree"], lambda leaf, limits: self.most_met(leaf, limits, *read) < beaten * scale)

    def forest(self, proof):
        need(self.size * self.places <= MOST_CELLS, "there are too many key groups and nodes for prices")
        forest = [tuple(wholes(edge, "an edge", 2)) for edge in listed(proof["forest"], "the forest")]
        done = set()
        for child, pair in forest:  # a child is done with before its parent
            need(child in self.pairs[pair] and not done & set(self.pairs[pair]), "the forest is none")
            done.add(child)
        return 2 * whole(proof["scale"], "scale", 1), forest, *self.gains({pair for _, pair in forest})

    def most_met(self, leaf, limits, scale, forest, gain, today):
        """The most talk that meets, times the scale."""
        per_move, prices = whole(leaf["per_move"], "a price"), leaf["prices"]
        wholes(prices, "prices", self.places, None, None)
        most = per_move * self.moves + sum(p * room[p > 0] for p, room in zip(prices, self.rooms)) + today * scale
        best, places = [], range(self.places)
        for k, (q, load) in enumerate(zip(self.current, self.load)):
            row = [gain[k][i] * scale // 2 * (i != q) - prices[i] * load - per_move * (i != q) for i in places]
            for i, (least, top) in limits.get(k, {}).items():
                row = [x if (j == i) >= least and (j != i or top != 0) else None for j, x in zip(places, row)]
            shut = self.closed[k] - {q} | self.rules.closed[k]
            best.append({i: x for i, x in zip(places, row) if x is not None and i not in shut})
            if not best[-1]:
                return -sum(self.talk) * scale  # nothing is left to choose
        for child, pair in forest:
            parent, met = sum(self.pairs[pair]) - child, self.talk[pair] * scale
            below, alone = best[child], max(best[child].values())
            for i in best[parent]:
                best[parent][i] += max(alone, below.get(i, alone - met) + met)
            best[child] = {0: 0}
        return most + sum(max(row.values()) for row in best)

    def gains(self, strong):
        """Twice the talk, outside the strong pairs, that key group k may win by moving to node i; and what meets today."""
        weak = [(t, *ends) for e, (t, ends) in enumerate(zip(self.talk, self.pairs)) if e not in strong]
        of, gain = [[] for _ in self.state], []
        for t, k, l in weak:
            of[k].append((t, self.current[l]))
            of[l].append((t, self.current[k]))
        for q, own in zip(self.current, of):
            together, every = (sorted((t for t, i in own if i in at), reverse=True) for at in ({q}, range(self.nodes)))
            company = sum(together[: max(0, self.moves - 1)]) + sum(
                every[: max(0, self.moves - 1)]
            )  # who moves as well
            gain.append([company - 2 * sum(together)] * self.places)
            for t, i in own:
                gain[-1][i] += 2 * t
        return gain, sum(t for t, k, l in weak if self.current[k] == self.current[l])


# Loads that vary together --------------------------------------------------------------------------------------------


class BalanceCase(PlacedCase):
    """Node loads vary least over all windows, while no more state moves than may."""

    objective = "imbalance"

    def __init__(self, given):
        super().__init__(given)
        need(self.empty and len(set(self.units)) == 1, "draining nodes must be emptied, and all windows have one unit")
        self.left = self.nodes - len(self.draining)
        self.free = self.most_state - sum(s for s, q in zip(self.state, self.current) if q in self.draining)

    def value(self, assignment):
        self.check(assignment)
        squares = sum(x * x for load in self.loads for x in self.sums(load, assignment).values())
        means = Fraction(sum(sum(load) ** 2 for load in self.loads), self.left)
        return (squares - means) / self.left * self.units[0] ** 2

    def refute(self, target, proof):
        if target is None:
            return need(self.free < 0, "the draining nodes can be emptied")
        bound = self.by_windows() if proof["kind"] == "windows" else self.semidefinite(proof)
        need(bound / self.left * self.units[0] ** 2 >= target, "the proof is of less")

    def by_windows(self):
        """Window by window: the fullest nodes cannot carry less than the largest key groups do, and the rest is levelled.

        `top` is the least that 0, 1, 2 ... nodes carry, the fullest first; loads that fall from node to node and keep to it vary
        least where they follow its upper hull.
        """
        n, total = self.left, Fraction(0)
        for row in self.loads:
            large = sums(sorted(row, reverse=True))
            most, mean, hull = len(row), Fraction(large[-1], n), [(0, 0)]
            pigeons = max(large[g * n + 1] - large[g * n - g] for g in range(-(-most // n))) if most else 0
            top = ((j, max(large[j], pigeons, mean)) for j in range(1, min(most, n - 1) + 1))
            for at, load in (*top, (n, large[-1])):
                while len(hull) > 1 and slope(*hull[-2:]) <= slope(hull[-1], (at, load)):
                    hull.pop()
                hull.append((at, load))
            total += sum((b[0] - a[0]) * (slope(a, b) - mean) ** 2 for a, b in zip(hull, hull[1:]))
        return total

    def semidefinite(self, proof):
        """Let X[k, l] be 1 - 1/n if k and l share a node, else -1/n: a matrix without negative eigenvalues.

        n times the imbalance is the sum of C[k, l] X[k, l], where C[k, l] sums load k times load l over the windows. A square -
        the rows of `factor` times each other - has a sum with X that is not negative: it may be taken off C. So may whatever else
        is not negative, times a price: 1 - 1/n less X[i, j] + X[i, k] - X[j, k], the triangles; the sum of b[k] b[l] X[k, l] less
        r (n - r) / n for whole numbers b with r, the sum of them, modulo n (the n sums of b over the nodes are whole, and vary
        least where r of them are one above the others); and what the budget leaves where it is, as nodes that hold state have
        rows of their own at the end (anchors, all apart). Of what is left every entry counts at its worst.
        """
        n, p, unit = self.left, self.size, number(proof["unit"], "the unit of the factor")
        anchors = wholes(proof["anchors"], "anchors", None, self.nodes - 1)
        need(len(set(anchors)) == len(anchors) and self.draining.isdisjoint(anchors), "anchors are kept and differ")
        size, place = p + len(anchors), {i: p + a for a, i in enumerate(anchors)}
        need(size <= 2_000, "the matrix is too large")
        factor = [wholes(row, "the factor", None, None, None) for row in listed(proof["factor"], "factor", size)]
        series = [*zip(*self.loads), *[()] * len(anchors)]
        apart, shared, bound = Fraction(-1, n), 1 - Fraction(1, n), Fraction(0)
        triangles, vectors = [[] for _ in range(size)], []
        for i, j, k, price in (wholes(row, "a triangle", 4) for row in listed(proof["triangles"], "triangles")):
            need(len({i, j, k}) == 3, "a triangle has three corners")
            for a, b, sign in ((i, j, 1), (i, k, 1), (j, k, -1)):
                triangles[max(a, b)].append((min(a, b), sign * price * unit / 2))
            bound -= price * unit * shared
        for price, rows, counts in (listed(v, "a vector", 3) for v in listed(proof.get("vectors", []), "vectors")):
            worth, rows = whole(price, "a vector's price") * unit, wholes(rows, "a vector's rows", None, size - 1)
            count_of = dict(zip(rows, wholes(counts, "a vector", len(rows), None, None)))
            need(len(count_of) == len(rows), "a vector has one number for a row")
            vectors.append((worth, count_of))
            left = sum(counts) % n
            bound += worth * left * (n - left) / n
        price = number(proof["price"], "price") * unit
        bound += price * (shared * sum(s for s, q in zip(self.state, self.current) if q in place) - self.free)
        for k in range(size):
            rest = [dot(series[k], series[l]) - unit * dot(factor[k], factor[l]) for l in range(k + 1)]
            for l, worth in triangles[k]:
                rest[l] += worth
            for worth, count_of in vectors:
                for l, y in count_of.items() if k in count_of else ():
                    if l <= k:
                        rest[l] -= worth * count_of[k] * y
            for l, (s, q) in enumerate(zip(self.state, self.current)):
                if place.get(q) == k:
                    rest[l] -= price * s / 2
            bound += rest[k] * shared
            for l, entry in enumerate(rest[:k]):
                bound += 2 * entry * (apart if entry > 0 or l >= p else shared)
        return bound


def slope(start, end):
    return Fraction(end[1] - start[1], end[0] - start[0])


def dot(x, y):
    return sum(a * b for a, b in zip(x, y))


# Contiguous intervals of tasks ---------------------------------------------------------------------------------------


class IntervalsCase(PlacedCase):
    """Nodes run intervals of tasks, within a load limit; the number of nodes changes step by step, and least state moves.

    Each mode has a number of nodes, and the modes that may follow with their chances; mode 0 is now. A single step has two
    modes, a sequence has a chain of them, a Markov chain has cycles: then later steps count less, by the discount.
    """

    def __init__(self, given):
        super().__init__(given)
        others = ("home", "max_moves", "max_entries", "max_state", "in_use")
        plain = self.limits == [None] and all(given[name] is None for name in others)
        need(plain and self.empty, "there is a limit that intervals do not know")
        self.load, self.tau = self.loads[0], number(given["tau"], "tau")
        self.sums_of_load, self.sums_of_state = sums(self.load), sums(self.state)
        self.keep = sums([0 if q in self.draining else s for s, q in zip(self.state, self.current)])
        self.now, self.modes = self.runs(self.current), []
        modes = listed(given["modes"], "modes")
        for n, row in modes:
            after = [(whole(m, "a mode", 1, len(modes) - 1), number(chance, "a chance")) for m, chance in row]
            need(not row or sum(chance for _, chance in after) == 1, "the chances of a mode do not sum to 1")
            self.modes.append((whole(n, "a number of nodes", 1, MOST), after))
        self.discount = number(given["discount"], "discount")
        need(self.discount.denominator < 10**100, "the discount has too many digits")
        self.chain = self.discount == 1 and all(len(after) < 2 for _, after in self.modes)
        ends, reached, waiting = all(m > at for at, (_, after) in enumerate(self.modes) for m, _ in after), {0}, [0]
        need(ends or self.discount < 1, "without a discount below 1 the modes must come to an end")
        while waiting:
            more = {m for m, chance in self.modes[waiting.pop()][1] if chance} - reached
            waiting, reached = [*waiting, *more], reached | more
        need(len(reached) == len(self.modes), "a mode is never reached")

    def runs(self, assignment):
        """The cuts, where each node has one interval."""
        at = cuts(assignment)
        need(len({assignment[a] for a in at[:-1]}) == len(at) - 1, "a node has two intervals")
        return at

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

    def check_step(self, assignment, nodes, first):
        """The cuts of an allowed step; only in the first one do nodes drain."""
        at = self.runs(wholes(assignment, "a decision", self.size))
        need(len(at) - 1 <= nodes, f"{len(at) - 1} nodes carry tasks, {nodes} may")
        need(not first or self.draining.isdisjoint(assignment), "a draining node keeps a task")
        heaviest = max(self.sums_of_load[b] - self.sums_of_load[a] for a, b in zip(at, at[1:]))
        need(heaviest <= self.limit(nodes), f"an interval carries {heaviest}, the limit is {self.limit(nodes)}")
        return at

    def value(self, policy):
        """The value of a policy: a state is a mode and a partition, with its nodes numbered from left to right.

        A row has a decision for each mode that may follow. The given values must not be below one step of the policy: then they
        are not below its own. Where all are one step of it, they are its own; without a discount they must be.
        """
        self.exact = True
        values = [number(value, "a value") for value in listed(policy["values"], "the values")]
        states, number_of = [(0, self.current)], {}
        for r, row in enumerate(listed(policy["table"], "the table", len(values))):
            need(r < len(states), f"state {r} is not reached by any row before its own")
            mode, before = states[r]
            expected, followed = Fraction(0), self.modes[mode][1]
            for (after, chance), decided in zip(followed, listed(row, "a row", len(followed))):
                at = self.check_step(decided, self.modes[after][0], r == 0)
                if (after, at) not in number_of:
                    number_of[after, at] = len(states)
                    states.append((after, [i for i, (a, b) in enumerate(zip(at, at[1:])) for _ in range(b - a)]))
                moved = sum(s for s, q, i in zip(self.state, before, decided) if q != i) * self.unit
                expected += chance * (moved + self.discount * values[number_of[after, at]])
            self.exact = self.exact and values[r] == expected
            need(values[r] >= expected, f"the value of state {r} is below one step of the policy")
            need(self.exact or self.discount < 1, f"the value of state {r} is above one step of the policy")
        return values[0]

    def refute(self, target, proof):
        counts = [n for n, _ in self.modes]
        if target is None:
            return need(not all(map(self.fits, counts[1:])), "every number of nodes can carry the tasks")
        if proof["kind"] == "prices":
            prices = {whole(m, "a mode", 1): whole(price, "a price") for m, price in proof["prices"]}
            least = {m: max(0, self.least_moved(counts[m], price)) for m, price in prices.items()}
            # In a chain, whatever happens on the way, no detour costs less than the direct step; else there is the first step.
            bound = max(least.values()) if self.chain else sum(chance * least[m] for m, chance in self.modes[0][1])
        else:
            bound = self.after_a_sweep(self.reached(target / self.unit), proof["values"], target / self.unit)
        need(bound * self.unit >= target, "the proof is of less")

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

    def partitions(self, nodes, within):
        """The cuts of every partition into at most so many intervals within the limit."""
        starts, unfinished = self.starts(nodes), [(self.size,)]
        while unfinished:
            made = unfinished.pop()
            for begin in range(starts[made[0]], made[0]):
                self.listed += 1 + len(made)
                need(self.listed <= 10**7, "there are too many partitions to list")
                if begin > 0 and len(made) < nodes:
                    unfinished.append((begin, *made))
                elif begin == 0 and within((0, *made)):
                    yield (0, *made)

    def reached(self, most):
        """The partitions of each mode: in a chain those within reach, for what passes others has moved that much."""
        self.listed, all_state = 0, self.sums_of_state[-1]

        def within(cuts):
            return not self.chain or all_state - kept_together(self.now, cuts, self.keep) < most

        return [[self.now], *(list(self.partitions(n, within)) for n, _ in self.modes[1:])]

    def arcs(self):
        """Modes that follow each other; in a chain nothing need move where the number of nodes stays: later costs no more."""
        arcs = {(m, to) for m, (_, after) in enumerate(self.modes) for to, _ in after}
        return {(m, to) for m, to in arcs if not (m and self.chain and self.modes[m][0] == self.modes[to][0])}

    def after_a_sweep(self, partitions, given, most):
        """One sweep over all pairs: values that no step improves on are below those of every policy."""
        rows = [
            listed(row, "values", len(found))
            for row, found in zip(listed(given, "values", len(partitions)), partitions)
        ]
        values = [[number(value, "a value") for value in row] for row in rows]
        arcs, all_state = self.arcs(), self.sums_of_state[-1]
        pairs = sum(len(partitions[m]) * len(partitions[to]) for m, to in arcs)
        need(pairs <= MOST_CELLS, "there are too many pairs of partitions to try")
        ahead = [[self.discount * value for value in row] for row in values]

        def step(mode, at, to):
            if (mode, to) not in arcs:
                return ahead[to][at]
            old, keep = partitions[mode][at], self.sums_of_state if mode else self.keep
            pairs = zip(partitions[to], ahead[to])
            return min((all_state - kept_together(old, new, keep) + v for new, v in pairs), default=most)

        for mode, (_, after) in enumerate(self.modes):
            for at, value in enumerate(values[mode]):
                least = sum(chance * step(mode, at, to) for to, chance in after)
                need(value <= least, f"value {at} of mode {mode} is above one step")
        return values[0][0]


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
        for taken, value in best.items():
            for (a, b), kept in [(taken, value)] + [((True, True), value + state[end] - state[at])] * (not any(taken)):
                key = (a and old[i + 1] > end, b and new[j + 1] > end)
                after[key] = max(kept, after.get(key, kept))
        i, j, at, best = i + (old[i + 1] == end), j + (new[j + 1] == end), end, after
    return max(best.values())


def most_kept(old, state, starts, price):
    """The most state kept, less a price for every interval, over all ways to cut the tasks anew.

    An interval stays on the node of one old interval, which is free for one only; as overlaps never cross, only the node of the
    old interval that a new one ends in can still matter to the next. `free[x]` is the best before task x with that node free,
    `best[x]` whether it is free or not. Where an interval begins at t it is worth, before its state up to x is counted:
    `stays[t]` if that node stays free, `other[t]` if it is taken already, `takes[t]` if the interval takes it.
    """
    size = len(starts) - 1
    never = -(state[-1] + price + 1) * (size + 2)
    free, best, end_of = [0] + [never] * size, [0] + [never] * size, [0] * size
    for left, right in zip(old, old[1:]):
        end_of[left:right] = [right] * (right - left)
        begun, inner = [], 0
        for t in range(left - 1, starts[left + 1] - 1, -1):  # intervals that begin before this old one
            if t == 0 or end_of[t] != end_of[t - 1]:
                inner = max(inner, state[end_of[t]] - state[t])  # an old interval that lies wholly within the new one
            stays = max(best[t] + inner, free[t] + state[end_of[t]] - state[t])
            begun.append((t, (stays, never, best[t] - state[left])))
        lines = [deque() for _ in range(3)]
        for at, values in reversed(begun):
            for line, value in zip(lines, values):
                highest(line, at, value, 0)
        for t in range(left, right):
            values = zip(lines, (free[t], best[t], free[t] - state[t]))
            stays, other, takes = (highest(line, t, value, min(starts[t + 1], t)) for line, value in values)
            if starts[t + 1] <= t:
                free[t + 1], best[t + 1] = stays - price, max(stays, other, takes + state[t + 1]) - price
        free[right] = best[right]
    need(best[size] > never // 2, "no intervals keep the limit")
    return best[size]


def highest(line, at, value, first):
    """The highest of the latest values since the first: those that a later one exceeds are not kept."""
    while line and line[-1][1] <= value:
        line.pop()
    line.append((at, value))
    while line[0][0] < first:
        line.popleft()
    return line[0][1]


# The certificate as a whole ------------------------------------------------------------------------------------------

CASES = {
    "key-splitting": SplittingCase,
    "key-placement": SplittingCase,
    "mixed-routing": MovedCase,
    "movement-within-limits": MovedCase,
    "key-group-allocation": AllocationCase,
    "collocated-allocation": CollocationCase,
    "interval-migration": IntervalsCase,
    "migration-sequence": IntervalsCase,
    "migration-policy": IntervalsCase,
    "mclb": BalanceCase,
}


def verified(record):
    """The statement that the certificate proves, in one sentence."""
    need(type(record) is dict and record.get("format") == "keyshift-certificate", "this is no keyshift certificate")
    need(whole(record["version"], "version") == 1, "this program reads version 1 of certificates")
    need(record["problem"] in CASES, f"there is no problem {record['problem']!a:.40}")
    case = CASES[record["problem"]](record["instance"])
    claim, proof = record["claim"], record["proof"]
    value, bound = (None if claim[name] is None else number(claim[name], name) for name in ("value", "bound"))
    said = []
    if value is not None:
        found = case.value(record["assignment"])
        most = "" if case.exact else "at most "
        need(found == value, f"the {case.objective} of the assignment is {shown(found)}, not {shown(value)}")
        said.append(f"the assignment keeps every rule and its {case.objective} is {most}{shown(value)}")
    if flag(claim["infeasible"], "infeasible"):
        need(value is None and bound is None, "what cannot be has no value")
        refute(case, None, proof)
        said.append("no assignment keeps every rule")
    elif bound is not None:
        need(value is None or bound <= value, "the bound is above the value")
        if bound > 0:
            refute(case, bound, proof)
        less = "less" if bound == value else f"less than {shown(bound)}"
        close = f" (gap {most}{float((value - bound) / value):.2g})" if value and bound < value else ""
        said.append(f"no assignment has {less}{close}")
    need(said, "nothing is claimed")
    return f"{record['problem']}: {', and '.join(said)}"


def refute(case, target, proof):
    """Every assignment with a value below the target (None: every assignment at all) breaks a rule."""
    (case.try_all(target) if proof["kind"] == "all" else case.refute(target, proof))


# The file: regular, not too large, every key once, no number but whole ones ------------------------------------------


def refused_number(text):
    raise Refused(f"{text:.20} is no exact number")


def short_number(text):
    need(len(text) <= MOST_DIGITS, f"{text:.20}... has too many digits")
    return int(text)


def each_once(pairs):
    made = dict(pairs)
    need(len(made) == len(pairs), "a name stands twice in one object")
    return made


def check_file(path):
    """Whether a certificate's file is proven, and one sentence."""
    try:
        need(S_ISREG(Path(path).stat().st_mode), "it is no file")
        with Path(path).open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        need(len(text) <= MOST_BYTES, f"the file has more than {MOST_BYTES} bytes")
        read = {"parse_float": refused_number, "parse_constant": refused_number, "parse_int": short_number}
        record = json.loads(text.decode(), object_pairs_hook=each_once, **read)
        return True, f"proven: {verified(record)}"
    except Refused as error:
        said = str(error)
    except OSError as error:
        said = f"the file cannot be read ({error.strerror})"
    except DAMAGED as error:
        said = f"the certificate is damaged ({type(error).__name__}: {str(error)!a:.60})"
    return False, f"not proven: {said}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -I -S verify.py certificate.json")
    proven, said = check_file(sys.argv[1])
    print(said)
    sys.exit(0 if proven else 1)
