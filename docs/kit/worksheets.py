"""The workbook *First formulation by hand*: twelve worksheets, each with an instance that a hand can solve and a column for the bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import examples as ex
import numpy as np

import keyshift as ks

ROWS = {
    "one_node": "(1) each key group runs on one node",
    "migrations": "(2) at most so many key groups move",
    "upper_load": "no node carries too much",
    "lower_load": "no kept node carries too little",
    "z_first": "(10) z is 1 only if the first of a pair is there",
    "z_second": "(10) ... and the second",
    "z_lower": "(11) z is 1 if both are",
    "together_sum": "(16) the share of traffic that stays on a node",
    "deviation": "(2) the load of a node",
    "too_large": "(6) a key group larger than the budget stays",
    "budget": "(3) the moved state is within the budget",
    "count": "(3) the number of nodes in use",
    "in_use": "(4) only nodes in use run something",
    "not_empty": "(6) a node in use runs something",
    "somewhere": "(1) each key goes to one node",
    "table": "(4) the table has at most so many entries",
    "once": "(1) each class of messages is sent",
    "worker_load": "(3) no worker gets more than the largest load",
    "begin": "(2a) an interval begins where a node's first task is",
    "begin_only": "(2a) ... and nowhere else",
    "one_interval": "(2b) one interval for each node",
    "load_limit": "(3) two tasks do not share a node if all from one to the other are too heavy",
    "nodes_after": "(4) at most so many nodes carry tasks",
    "leave": "(6) a task moves when it leaves its node",
}
"""What each kind of row of the statements says."""

NUMBERS: dict[type, dict[str, str]] = {
    ks.KeyGroupAllocation: {"upper_load": "3", "lower_load": "4"},
    ks.CollocatedAllocation: {"upper_load": "8", "lower_load": "9"},
    ks.MovementWithinLimits: {"upper_load": "2", "lower_load": "2"},
    ks.MixedRouting: {"upper_load": "2"},
}
"""Numbers of rows that problems share, in the formulation of each."""


SAME_KEY = r" \\ (4) \quad & x_{ti} = x_{ui} && \text{for messages } t, u \text{ of one key, every } i"
"""The row that `KeyPlacement` adds to `KeySplitting`."""


@dataclass(frozen=True)
class Worksheet:
    """One page for the student, one more for the lecturer.

    Attributes
    ----------
    title : str
    example : str
        In `examples.PROBLEMS`.
    question : str
    formula : callable
        The printed formulation, as TeX.
    argument : callable
        Why nothing is better, with numbers that are computed.
    """

    title: str
    example: str
    question: str
    formula: Callable[[], str]
    argument: Callable[[], str]


def _n(name: str) -> tuple[str, str, int]:
    values = ex.values(name)
    return ex.number(ex.best(name)), ex.number(ex.second(name)), len(values[ex.best(name)])


def _loads(assignment: list[int], w: ks.Workload) -> str:
    return ", ".join(ex.number(x) for x in np.bincount(assignment, w.last_load, w.nodes))


def _allocation(*rows: str) -> Callable[[], str]:
    return lambda: ex.formula(ks.KeyGroupAllocation, *rows, minimise="d")


def _why_start() -> str:
    loads = _loads([0, 0, 1, 1, 2, 2], ex.SIX)
    return f"""Nothing may move, so there is one answer. The loads are {loads}, the mean is {ex.number(ex.PROBLEMS["one"].mean_load)},
and the node that deviates most has d = {ex.number(ex.best("start"))}. Rows (3) and (4) give the same: {ex.number(ex.best("start"))} is the smallest d that keeps them."""


def _why_one() -> str:
    best, second, count = _n("one")
    (answer,) = ex.values("one")[ex.best("one")]
    assert count == 1
    return f"""As long as no key group leaves node 0, its load keeps d at {ex.number(ex.best("start"))}. Only the moves out of node 0 are left, and there are
four. They give d = {", ".join(_each_from_node_0())}. The best is {answer}, with loads {_loads(answer, ex.SIX)}: d = {best}; the runner-up has {second}."""


def _each_from_node_0() -> list[str]:
    found = []
    for k in (0, 1):
        for i in (1, 2):
            moved = [0, 0, 1, 1, 2, 2]
            moved[k] = i
            found.append(ex.number(ks.check(ex.PROBLEMS["one"], moved).objective))
    return sorted(found)


def _why_two() -> str:
    best, second, count = _n("two")
    free = ex.number(ks.solve(ks.KeyGroupAllocation(ex.SIX)).objective)
    assert free == best
    return f"""d = 0 needs a load of exactly {ex.number(ex.PROBLEMS["two"].mean_load)} on each node. Key group 0 has load {ex.number(ex.SIX.last_load[0])}, and would need
a partner of load 1; there is none. All loads are whole numbers, so d is at least {best} - whatever may move. Two moves reach it, in {count} ways; the next value is {second}."""


def _why_drain() -> str:
    best, second, _ = _n("drain")
    mean = ex.number(ex.PROBLEMS["drain"].mean_load)
    now = ex.number(ks.check(ex.PROBLEMS["drain"], [0, 0, 1, 1, 2, 2]).objective)
    return f"""The mean is that of the two nodes that stay: {mean}. Node 0 meets it, node 1 is {now} below it. Node 2 may be empty, since row (4) does not
hold for it. One move can bring node 1 at most {ex.number(max(ex.SIX.last_load[4:]))} from node 2: d = {best}. A move from node 0 to node 1 takes from node 0 what it gives to
node 1, and node 0 has nothing to spare. The next value is {second}."""


def _why_movement() -> str:
    best, second, _ = _n("movement")
    w, upper = ex.FOUR, ex.PROBLEMS["movement"].upper
    here = [k for k in range(w.key_groups) if w.current[k] == 0]
    load, state = (", ".join(ex.number(of[k]) for k in here) for of in (w.last_load, w.state))
    held = sum(w.last_load[k] for k in here)
    assert held > upper
    assert min(w.state[k] for k in here) == ex.best("movement")
    after = _loads(ex.values("movement")[ex.best("movement")][0], w)
    return f"""Node 0 carries {ex.number(held)} and may carry {ex.number(upper)}. One of its key groups must leave; they have loads {load} and states {state}, so at least {best} units of state
move. That brings the loads to {after}. The runner-up, {second}, takes the empty key group along."""


def _why_mclb() -> str:
    best, second, _ = _n("mclb")
    answer = ex.values("mclb")[ex.best("mclb")][0]
    assert ex.best("mclb") == 0
    return f"""The imbalance is a sum of squares, so nothing is below 0, and {best} is reached by {answer}, with loads {_loads(answer, ex.FOUR)}. So the bound costs nothing here. The
runner-up has h = {second}, the imbalance of today."""


def _why_front() -> str:
    traced = ks.pareto(ex.PROBLEMS["front"], points=None).to_frame()
    points = sorted((float(m), float(h)) for m, h in zip(traced["state_moved"], traced["imbalance"], strict=True))
    every = {
        (ks.check(ex.PROBLEMS["front"], a).metrics["state_moved"], h)
        for h, found in ex.values("front").items()
        for a in found
    }
    kept = sorted(p for p in every if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in every))
    assert np.allclose(kept, points)
    said = " and ".join(f"({ex.number(m)}, {ex.number(h)})" for m, h in points)
    return f"""The front is {said}: state moved, imbalance. To move nothing gives the first. In between, only the last key group is small enough, and it carries no load: the
imbalance stays. At the second point the imbalance is {ex.number(points[-1][1])}, and nothing is below that."""


def _why_traffic() -> str:
    best, second, count = _n("traffic")
    pairs = sorted(ex.TRAFFIC[ex.TRAFFIC > 0])
    assert ex.best("traffic") == sum(pairs) - pairs[-1]
    assert ex.second("traffic") == sum(pairs) - pairs[0]
    return f"""{ex.number(sum(pairs))} tuples are remote today. One move brings at most one pair together, and the larger exchanges {ex.number(pairs[-1])}: at least {best} stay remote. The limit
allows loads of 3 and 1. {count} assignments reach {best}; the runner-up, {second}, brings the smaller pair together."""


def _why_routing() -> str:
    best, second, _ = _n("routing")
    loads, problem = ex.HASHED.last_load, ex.PROBLEMS["routing"]
    room = (1 + problem.theta_max) * loads.sum() / 2
    over = loads.sum() - room
    large = ", ".join(ex.number(x) for x in loads if x >= over)
    return f"""A node may carry {ex.number(room)}, and node 0 has {ex.number(loads.sum())}: at least {ex.number(over)} must leave it. The table has one entry, so one key moves. The keys of load {large} are large
enough; the smaller one costs {best}, the other {second}."""


def _why_splitting() -> str:
    best, second, count = _n("splitting")
    held = np.unique(ex.STREAM, return_counts=True)[1].max() + 4
    assert ex.best("splitting") == held / 2
    return f"""The {held} messages of a and b cannot leave workers 0 and 1: one of the two gets at least {best}. Let x of a and y of b go to worker 0: every x + y = {best} reaches it, in
{count} ways. The next value is {second}. A maximum flow finds the two workers of this bound by itself: they are a smallest cut."""


def _why_placement() -> str:
    best, second, _ = _n("placement")
    assert ex.best("placement") == np.unique(ex.STREAM, return_counts=True)[1].max()
    worth = ex.number(ex.best("placement") - ex.best("splitting"))
    return f"""Key a has {best} messages, and they stay together: {best} is a bound, reached where a and b have different workers. On one worker they are {second}. Splitting gains
{best} - {ex.number(ex.best("splitting"))} = {worth}."""


def _why_intervals() -> str:
    best, second, _ = _n("intervals")
    first, middle, last = ex.ROW.state
    assert (ex.best("intervals"), ex.second("intervals")) == (first, last)
    return f"""A node carries at most two tasks and there are three, so one must move. An interval can only lose a task at an end: the one in the middle, of state {ex.number(middle)}, cannot
move alone. The ends have states {ex.number(first)} and {ex.number(last)}, so the optimum is {best} and the next value {second}."""


WORKSHEETS = (
    Worksheet(
        "Load distance", "start", "Nothing may move. How far is the node that deviates most from the mean?", _allocation("1", "2", "3", "4"), _why_start
    ),
    Worksheet("Key-group allocation", "one", "One key group may move. Which?", _allocation("1", "2", "3", "4"), _why_one),
    Worksheet("Two moves, and a proof", "two", "Two key groups may move. Why can nobody do better, with any number of moves?", _allocation("1", "2", "3", "4"), _why_two),
    Worksheet("A node that leaves", "drain", "Node 2 is to be emptied; one key group may move now. Which?", _allocation("1", "2", "3", "4"), _why_drain),
    Worksheet(
        "Least movement within limits", "movement", "Every load is to lie between 3 and 5. Move as little state as possible.",
        lambda: ex.formula(ks.MovementWithinLimits, "1", "2", "3", "4", "6"), _why_movement,
    ),
    Worksheet(
        "Balance within a budget", "mclb", "State of at most 2 units may move. Make the variance of the loads small.",
        lambda: ex.formula(ks.MCLB, "1", "2", "3", "6"), _why_mclb,
    ),
    Worksheet(
        "The front", "front", "List every point (state moved, imbalance) that no other point beats in both.",
        lambda: ex.formula(ks.MCLB, "1", "2"), _why_front,
    ),
    Worksheet(
        "Traffic", "traffic", "Key groups 0 and 2 exchange 5 tuples, 3 and 1 exchange 3. One may move, and a load may lie 50 % off the mean. How little traffic stays remote?",
        lambda: ex.formula(ks.CollocatedAllocation, "8", "9", "10", "11", "16", minimise=r"T (1 - Z) \qquad (1), (2) \text{ as before}"), _why_traffic,
    ),
    Worksheet(
        "A hash and its exceptions", "routing", "All keys hash to node 0. A node may carry a quarter more than the mean, and the routing table has one entry.",
        lambda: ex.formula(ks.MixedRouting, "1", "2", "4"), _why_routing,
    ),
    Worksheet(
        "Two choices", "splitting", "Keys a (6 messages) and b (4) may go to workers 0 and 1, message by message; c (2) only to worker 2. How small can the largest load be?",
        lambda: ex.formula(ks.KeySplitting, "1", "2", "3", minimise="L"), _why_splitting,
    ),
    Worksheet(
        "One choice for each key", "placement", "The same keys, but all messages of a key go to the same worker.",
        lambda: ex.formula(ks.KeySplitting, "1", "2", "3", minimise="L").replace("\n\\end", SAME_KEY + "\n\\end"), _why_placement,
    ),
    Worksheet(
        "Intervals", "intervals", "Three tasks in a row run on one node. A second node comes; each may carry two tasks, and holds tasks that follow one another.",
        lambda: ex.formula(ks.IntervalMigration, "1", "2a", "2b", "3", "4", "6"), _why_intervals,
    ),
)  # fmt: skip
