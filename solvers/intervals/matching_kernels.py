"""The heaviest matching of new intervals with old ones, in one pass over their merged cuts.

Pairs that overlap never cross, so the matching that keeps most state keeps the order, and a pass that remembers
whether the current old and the current new interval are taken finds it.
"""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import njit

NEVER = -(1 << 60)


@njit(cache=True, nogil=True)
def match(old: np.ndarray, new: np.ndarray, prefix: np.ndarray) -> tuple[int, np.ndarray]:
    """Match the intervals of two partitions for the largest common weight.

    Parameters
    ----------
    old, new : int64 arrays
        Cuts, from 0 to m.
    prefix : int64 array, shape (m + 1,)
        Prefix sums of the weights.

    Returns
    -------
    weight : int
    partner : int64 array, shape (new.size - 1,)
        The old interval that each new one is matched with, -1 for none. Pairs without weight are left unmatched.
    """
    pieces = old.size + new.size - 3 if old.size + new.size > 3 else 1
    previous = np.empty((pieces, 4), np.int8)  # state = 2 * old taken + new taken
    owners = np.empty((pieces, 2), np.int64)
    value = np.array([0, NEVER, NEVER, NEVER])
    after = np.empty(4, np.int64)
    i = j = t = 0
    start = 0
    while i < old.size - 1 and j < new.size - 1:
        end = min(old[i + 1], new[j + 1])
        weight = prefix[end] - prefix[start]
        owners[t, 0], owners[t, 1] = i, j
        next_old, next_new = end == old[i + 1], end == new[j + 1]
        after[:] = NEVER
        for state in range(5):  # 4 = take this pair from state 0
            gained = value[0] + weight if state == 4 else value[state]
            held = 3 if state == 4 else state
            if (state == 4 and weight == 0) or gained < 0:
                continue
            if next_old:
                held &= 1
            if next_new:
                held &= 2
            if gained > after[held]:
                after[held] = gained
                previous[t, held] = state
        value[:] = after
        i, j, start, t = i + next_old, j + next_new, end, t + 1
    partner = np.full(new.size - 1, -1, np.int64)
    state = int(np.argmax(value))
    best = value[state]
    for piece in range(t - 1, -1, -1):
        state = previous[piece, state]
        if state == 4:
            partner[owners[piece, 1]] = owners[piece, 0]
            state = 0
    return best, partner
