"""Compiled dynamic program over a forest of pairs: the inner problem of the Lagrangian bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray


class WeakPairs(NamedTuple):
    """Traffic of each key group with others outside the forest, for each of t rows of traffic."""

    on: FloatArray
    """Traffic with each node today, shape (t, p, n), and with the own one, (t, p)."""
    here: FloatArray
    slack: FloatArray
    """The most that others which move may add to a mover, (t, p)."""


class RowPrices(NamedTuple):
    """Multipliers of the relaxed rows."""

    move: FloatArray
    """For moving each key group."""
    load: FloatArray
    """For the load of each key group on each node, in all windows together, shape (p, n)."""
    use: FloatArray
    """For a unit of each resource on each node, shape (r, n)."""
    weak: FloatArray
    """The worth of the weak pairs of each key group with each node, shape (p, n)."""
    left: FloatArray
    """The worth of its weak pairs with its current node, less the most that others which move may make up for, shape (p,)."""


class LoadTerms(NamedTuple):
    """Use of resources by each key group, where it is and where it may go."""

    use: FloatArray
    current: IntArray
    open_to: BoolArray


@njit(cache=True)
def best_labels(order, parent, worth, theta, up, labels):
    """Nodes that maximise ``sum theta[k, a[k]] + sum over forest edges worth[k, i] where both ends are on i``.

    Parameters
    ----------
    order : children before parents
    parent : each key group's parent (-1 for roots)
    worth : (p, n), what the edge to the parent is worth on each node
    theta : (p, n)
    up : (p, n), out: the best of each subtree by the label of its root
    labels : (p,), out

    Returns
    -------
    The maximum.
    """
    p, n = theta.shape
    up[:] = theta
    for k in order:
        j = parent[k]
        if j >= 0:
            first, second, where = top_two(up[k])
            for i in range(n):
                other = second if i == where else first
                up[j, i] += max(other, up[k, i] + worth[k, i])
    total = 0.0
    for s in range(p - 1, -1, -1):
        k = order[s]
        first, second, where = top_two(up[k])
        j = parent[k]
        if j < 0:
            total += first
            labels[k] = where
        else:
            i = labels[j]
            together = up[k, i] + worth[k, i]
            if i == where:
                labels[k] = i if together >= second else second_label(up[k], where)
            else:
                labels[k] = i if together >= first else where
    return total


@njit(cache=True)
def top_two(values):
    """The largest value, the largest elsewhere, and where the first is."""
    first, second, where = -np.inf, -np.inf, 0
    for i in range(values.size):
        if values[i] > first:
            second, first, where = first, values[i], i
        elif values[i] > second:
            second = values[i]
    return first, second, where


@njit(cache=True)
def second_label(values, where):
    """The label of the largest value but one."""
    best = -1
    for i in range(values.size):
        if i != where and (best < 0 or values[i] > values[best]):
            best = i
    return best


@njit(cache=True)
def by_label(order, parent, worth, up, total, out):
    """For every key group and node, the maximum given that the one is on the other, (p, n) in `out`.

    `up` and `total` are what `best_labels` left.
    """
    p, n = up.shape
    message = np.empty(n)
    rest = np.empty(n)
    for s in range(p - 1, -1, -1):  # parents before children
        k = order[s]
        j = parent[k]
        if j < 0:
            first, _, _ = top_two(up[k])
            for i in range(n):
                out[k, i] = total - first + up[k, i]
            continue
        first, second, where = top_two(up[k])
        for i in range(n):
            message[i] = max(second if i == where else first, up[k, i] + worth[k, i])
            rest[i] = out[j, i] - message[i]
        first, second, where = top_two(rest)
        for i in range(n):
            other = second if i == where else first
            out[k, i] = up[k, i] + max(other, rest[i] + worth[k, i])


@njit(cache=True)
def potentials(terms, prices, theta):
    """theta[k, i]: what key group k on node i earns, without its forest edges.

    A mover pays for the move; its weak pairs earn what they are worth on the new node and lose what they are on the current
    one, less what they may earn with others that move.
    """
    p, n = theta.shape
    use, current, open_to = terms
    for k in range(p):
        here = current[k]
        for i in range(n):
            if not open_to[k, i]:
                theta[k, i] = -1e9
                continue
            value = -prices.load[k, i]
            for r in range(use.shape[0]):
                value -= prices.use[r, i] * use[r, k]
            if i != here:
                value += prices.weak[k, i] - prices.left[k] - prices.move[k]
            theta[k, i] = value
