"""Compiled inner loops of the local search. Loads are (p, m) rows by key group; `sums` are node loads, (n, m)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, njit, overwrite
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.rows import KEPT, RuleRows
from keyshift.solvers.rows import shift as carry

F = FloatArray
Z = IntArray
TRIES = 8
DRAWN = 2048
"""Exponential numbers drawn beforehand, from which every step of the annealing takes its noise at a random place."""


@njit(cache=True)
def dot(a: F, b: F) -> float:
    """Inner product of two vectors."""
    total = 0.0
    for t in range(a.size):
        total += a[t] * b[t]
    return total


@njit(cache=True)
def place_greedily(load: F, order: Z, chosen: Z, sums: F, state: F, current: Z, left: float) -> float:
    """Place key groups in the given order, each where it adds least to the sum of squares.

    The rise is 2 y.L + y.y, so that the node of least y.L wins. A key group that what is left of the budget does not let move
    stays where it is. Changes `chosen` and `sums`; returns what is left then.
    """
    m = load.shape[1]
    for k in order:
        if current[k] >= 0 and state[k] > left:
            best = current[k]
        else:
            best, least = 0, np.inf
            for i in range(sums.shape[0]):
                rise = dot(load[k], sums[i])
                if rise < least:
                    best, least = i, rise
            if best != current[k]:
                left -= state[k]
        chosen[k] = best
        for t in range(m):
            sums[best, t] += load[k, t]
    return left


@njit(cache=True)
def second_moment_rows(moment: F, chosen: Z, nodes: int) -> F:
    """rows[i, k] = sum of moment[k, q] over q on node i."""
    p = chosen.size
    rows = np.zeros((nodes, p))
    for k in range(p):
        for j in range(p):
            rows[chosen[k], j] += moment[k, j]
    return rows


class KeptRules(NamedTuple):
    """Rules while the annealing goes on: the nodes that are closed to each key group, and the rows with what they hold."""

    bar: FloatArray
    """Infinite where a key group may not run, else 0, shape (n, p)."""
    rows: RuleRows
    held: FloatArray


class AnnealingState(NamedTuple):
    """Where the annealing stands; the last three are room to reckon in."""

    moment: FloatArray
    """The second moment, shape (p, p)."""
    move_cost: FloatArray
    """The state that each key group moves on each node, shape (n, p)."""
    current: IntArray
    chosen: IntArray
    """The node of each key group now."""
    rows: FloatArray
    """Of `second_moment_rows`, shape (n, p)."""
    own: FloatArray
    """A key group's entry in the row of its own node, without itself."""
    away: FloatArray
    """The state that each key group moves where it is."""
    there: FloatArray
    """Entries of one key group in the rows of all nodes, shape (n,)."""
    cost: FloatArray
    """State moved more when it goes to each node, shape (n,)."""
    worth: FloatArray
    """Half of what each step is worth, shape (p,)."""


@njit(cache=True)
def annealing_state(moment: F, chosen: Z, move_cost: F, current: Z) -> AnnealingState:
    """Set out from a placement, which is copied."""
    nodes, p = move_cost.shape
    rows = second_moment_rows(moment, chosen, nodes)
    own, away = np.empty(p), np.zeros(p)
    for k in range(p):
        own[k] = rows[chosen[k], k] - moment[k, k]
        away[k] = move_cost[chosen[k], k]
    return AnnealingState(
        moment, move_cost, current, chosen.copy(), rows, own, away, np.empty(nodes), np.empty(nodes), np.empty(p)
    )


@njit(**LEAF)
def shift(s: AnnealingState, k: int, target: int) -> float:
    """Put k on another node; the change of the sum of squares."""
    source = s.chosen[k]
    if target == source:
        return 0.0
    change = 2.0 * (s.rows[target, k] - s.own[k])
    of_k, left, entered = s.moment[k], s.rows[source], s.rows[target]
    for j in range(s.chosen.size):
        left[j] -= of_k[j]
        entered[j] += of_k[j]
        s.own[j] += of_k[j] * (1.0 * (s.chosen[j] == target) - 1.0 * (s.chosen[j] == source))
    s.chosen[k] = target
    s.own[k] = entered[k] - of_k[k]
    s.away[k] = s.move_cost[target, k]
    return change


@njit(**LEAF)
def scan_neighbourhood(s: AnnealingState, k: int, rules: KeptRules | None) -> None:
    """Set up the two searches for a step of k: its product with each node's load, and the state that it would move."""
    for i in range(s.there.size):
        s.there[i] = s.rows[i, k]
        s.cost[i] = s.move_cost[i, k] - s.away[k]
    if rules is not None:
        for i in range(s.there.size):
            s.there[i] += rules.bar[i, k]


@njit(fastmath={"nnan", "nsz", "contract", "reassoc"}, **LEAF)
def best_swap(
    s: AnnealingState,
    k: int,
    low: int,
    high: int,
    room: float,
    paid: float,
    heat: float,
    noise: F,
    rules: KeptRules | None,
) -> tuple[int, int]:
    """Of all moves of k and its swaps with low .. high - 1, the one that the noise lets through most easily: to where, with whom.

    A step that changes the sum by `change` passes where change < heat * noise, with noise exponentially distributed
    [Metropolis1953]. (-1, -1) where none does; who is -1 for a move.
    """
    a, p, limited = s.chosen[k], s.chosen.size, room < np.inf
    of_k, here, over, here_too = s.moment[k], s.rows[a], max(-room, 0.0), s.move_cost[a]
    s.there[a] = np.inf
    least = 0.0
    for q in range(low, high):
        worth = s.there[s.chosen[q]] - s.own[k] + here[q] - s.own[q] - 2.0 * of_k[q] - heat * noise[q]
        if limited:
            cost = s.cost[s.chosen[q]] - s.away[q] + here_too[q]
            worth += paid * (max(cost - room, 0.0) - over)
        if rules is not None:
            worth += rules.bar[a, q]
        s.worth[q] = worth
        least = min(least, worth)
    target, other = -1, -1
    for i in range(s.there.size):
        worth = (
            s.there[i]
            - s.own[k]
            - heat * noise[p + i]
            + (paid * (max(s.cost[i] - room, 0.0) - over) if limited else 0.0)
        )
        if worth < least:
            least, target = worth, i
    if target < 0 and least < 0.0:
        other = low
        while s.worth[other] != least:
            other += 1
        target = s.chosen[other]
    return target, other


@njit(fastmath={"nnan", "nsz", "contract", "reassoc"}, **LEAF)
def best_return(
    s: AnnealingState,
    k: int,
    b: int,
    low: int,
    high: int,
    room: float,
    paid: float,
    heat: float,
    noise: F,
    rules: KeptRules | None,
) -> tuple[int, int]:
    """The same for k going to node b while another key group returns to its current node, which frees budget."""
    a, over = s.chosen[k], max(-room, 0.0)
    if b == a:
        return -1, -1
    of_k, alone, left = s.moment[k], s.there[b] - s.own[k], room - s.cost[b]
    least = 0.0
    for q in range(low, high):
        c, d = s.chosen[q], s.current[q]
        both = 1.0 * (b == d) - 1.0 * (b == c) - 1.0 * (a == d) + 1.0 * (a == c)
        worth = alone + s.rows[d, q] - s.own[q] + of_k[q] * both - heat * noise[q]
        worth += paid * (max(-s.away[q] - left, 0.0) - over)
        if rules is not None:
            worth += rules.bar[d, q]
        s.worth[q] = worth if c != d and d >= 0 and q != k else np.inf
        least = min(least, s.worth[q])
    if least >= 0.0:
        return -1, -1
    other = low
    while s.worth[other] != least:
        other += 1
    return b, other


@njit(**LEAF)
def put_if_kept(
    s: AnnealingState, k: int, b: int, q: int, d: int, low: int, high: int, rules: KeptRules | None
) -> tuple[int, int, int]:
    """The step, or the next best swap, that breaks no row of rules: its rows are carried over; b = -1 where there is none."""
    if rules is None:
        return b, q, d
    a, returning = s.chosen[k], q >= 0 and d != s.chosen[k]
    for _ in range(TRIES):
        if b < 0:
            return -1, -1, -1
        rise = carry(rules.held, k, a, b, rules.rows)[0]
        if q >= 0:
            rise += carry(rules.held, q, s.chosen[q], d, rules.rows)[0]
        if rise < KEPT:
            return b, q, d
        if q >= 0:
            carry(rules.held, q, d, s.chosen[q], rules.rows)
            s.worth[q] = np.inf
        carry(rules.held, k, b, a, rules.rows)
        least, q = 0.0, -1
        for other in range(low, high):
            if s.worth[other] < least:
                least, q = s.worth[other], other
        d = s.current[max(q, 0)] if returning else a
        b = -1 if q < 0 else b if returning else s.chosen[q]
    return -1, -1, -1


@njit(cache=True, nogil=True)
def anneal(
    moment: F, chosen: Z, move_cost: F, current: Z, budget: float,
    price: float, hot: float, cold: float, steps: int, rng: np.random.Generator, rules: KeptRules | None,
) -> tuple[Z, float]:  # fmt: skip
    """Simulated annealing on the uncentred second-moment matrix; the best placement seen.

    Each step draws a key group and takes the best of its moves and swaps, each by its own noise: O(p), a nanosecond or
    two for each, where a step drawn by itself would take a hundred. Where steps pass often, fewer swaps are looked at.
    State beyond the budget may be moved on the way, at a price for each unit that rises from a tenth to ten times
    `price`: to exchange one large key group for smaller ones takes more than one step. Returns the best placement
    within the budget and its change of the sum of squares against the start (<= 0); `chosen` is changed to where the
    search ends. Rows of rules that the start keeps are kept by every step: where the best one breaks some, the next best swaps
    are looked at.
    """
    nodes, p = move_cost.shape
    s = annealing_state(moment, chosen, move_cost, current)
    spent, most = s.away.sum(), 0.0
    for k in range(p):
        most += move_cost[:, k].max()
    limited = budget < most
    best, gained, least = chosen.copy(), 0.0, 0.0 if spent <= budget else np.inf
    noise = rng.standard_exponential(DRAWN + p + nodes)
    factor, growth = (cold / hot) ** (1.0 / max(steps, 1)), 100.0 ** (1.0 / max(steps, 1))
    heat, paid, wide = 0.5 * hot, 0.05 * price, float(p)
    for _ in range(steps):
        heat *= factor
        paid *= growth
        k, first = int(rng.random() * p), int(rng.random() * DRAWN)
        parts = p // int(wide)
        part = int(rng.random() * parts)
        low, high = part * p // parts, (part + 1) * p // parts
        a, room = s.chosen[k], budget - spent if limited else np.inf
        scan_neighbourhood(s, k, rules)
        if limited and rng.random() < 0.25:
            b, q = best_return(s, k, int(rng.random() * nodes), low, high, room, paid, heat, noise[first:], rules)
            d = current[q]
        else:
            b, q = best_swap(s, k, low, high, room, paid, heat, noise[first:], rules)
            d = a
        b, q, d = put_if_kept(s, k, b, q, d, low, high, rules)
        if b < 0:
            wide = min(1.02 * wide, float(p))
            continue
        wide = max(0.97 * wide, min(16.0, float(p)))
        before = s.away[k] + (s.away[q] if q >= 0 else 0.0)
        gained += shift(s, k, b)
        if q >= 0:
            gained += shift(s, q, d)
        spent += s.away[k] + (s.away[q] if q >= 0 else 0.0) - before
        if gained < least - 1e-12 * abs(gained) and spent <= budget:
            least = gained
            overwrite(best, s.chosen)
    overwrite(chosen, s.chosen)
    return best, least


@njit(cache=True, nogil=True)
def descend(
    load: F, chosen: Z, sums: F, state: F, current: Z, spent: float, budget: float, order: Z
) -> tuple[float, float]:
    """One sweep of best-improvement moves over the key groups in the given order, O(p n m).

    Changes `chosen` and `sums`; returns the fall of the sum of squares and the state moved now.
    """
    fall = 0.0
    for k in order:
        a = chosen[k]
        own = dot(load[k], load[k])
        here = dot(load[k], sums[a]) - own
        best, least = a, here - 1e-12 * abs(here)
        for i in range(sums.shape[0]):
            cost = state[k] * ((i != current[k]) - 1.0 * (a != current[k]))
            if i != a and (cost <= 0 or spent + cost <= budget):
                there = dot(load[k], sums[i])
                if there < least:
                    best, least = i, there
        if best != a:
            fall += 2.0 * (here - least)
            spent += state[k] * ((best != current[k]) - 1.0 * (a != current[k]))
            for t in range(load.shape[1]):
                sums[a, t] -= load[k, t]
                sums[best, t] += load[k, t]
            chosen[k] = best
    return fall, spent


@njit(cache=True, nogil=True)
def swap_alike(
    load: F, chosen: Z, sums: F, state: F, current: Z, spent: float, budget: float, ranked: Z, reach: int,
    tries: int, rng: np.random.Generator,
) -> tuple[float, float]:  # fmt: skip
    """Try random swaps of key groups that stand within `reach` of each other in a ranking by size; O(m) each.

    Exchanging two of nearly equal size shifts a node's load by their small difference: the fine adjustment that
    moves cannot make. Changes `chosen` and `sums`; returns the fall and the state moved now.
    """
    p, m = load.shape
    fall = 0.0
    for _ in range(tries):
        r = int(rng.random() * p)
        s = r + 1 + int(rng.random() * reach)
        if s >= p:
            continue
        k, q = ranked[r], ranked[s]
        a, b = chosen[k], chosen[q]
        if a == b:
            continue
        cost = state[k] * ((b != current[k]) - 1.0 * (a != current[k]))
        cost += state[q] * ((a != current[q]) - 1.0 * (b != current[q]))
        if cost > 0 and spent + cost > budget:
            continue
        change, size = 0.0, 0.0
        for t in range(m):
            d = load[k, t] - load[q, t]
            change += d * (sums[b, t] - sums[a, t] + d)
            size += abs(d) * (sums[b, t] + sums[a, t])
        if change >= -1e-14 * size:
            continue
        fall -= 2.0 * change
        spent += cost
        chosen[k], chosen[q] = b, a
        for t in range(m):
            d = load[k, t] - load[q, t]
            sums[a, t] -= d
            sums[b, t] += d
    return fall, spent
