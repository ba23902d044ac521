"""Compiled loops that round divisible keys: which leave a node, and where they go."""

from __future__ import annotations

from keyshift.models.compiling import njit


@njit(cache=True)
def shed(order, load, count, excess, enough, few, taken):
    """Let keys of one node go: in this order, each that still fits what is too much; at last the lightest that covers the rest.

    With `few`, the first that does not fit ends it: more is shed than there must be, by fewer keys. Keys that the last one makes
    needless stay. Returns what is still too much.
    """
    left = excess
    for r in order:
        if left <= enough:
            break
        if 0 < load[r] <= left:
            # Loads may be too far apart for a quotient that fits an integer.
            units = count[r] if count[r] * load[r] <= left else int(left / load[r])
            taken[r] += units
            left -= units * load[r]
        if few and taken[r] < count[r] and load[r] > left:
            break
    if left > enough:
        last = -1
        for r in order:
            if taken[r] < count[r] and load[r] >= left and (last < 0 or load[r] < load[last]):
                last = r
        if last >= 0:
            taken[last] += 1
            left -= load[last]
            for r in order:
                while r != last and taken[r] > 0 and load[r] <= -left:
                    taken[r] -= 1
                    left += load[r]
    return left


@njit(cache=True)
def place(gone, load, current, home, kept, limit, used, to):
    """Send keys home where there is room, else to the node with most room; -1 where that is too little."""
    for at, r in enumerate(gone):
        target = home[r]
        if target == current[r] or not kept[target] or used[target] + load[r] > limit[target]:
            target = -1
            for d in range(limit.size):
                better = target < 0 or limit[d] - used[d] > limit[target] - used[target]
                if kept[d] and d != current[r] and better:
                    target = d
            if target >= 0 and used[target] + load[r] > limit[target]:
                target = -1
        used[current[r] if target < 0 else target] += load[r]
        to[at] = target
