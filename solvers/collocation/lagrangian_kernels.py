"""Compiled dynamic program over a forest of pairs: the inner problem of the Lagrangian bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from keyshift.models.workload import BoolArray, FloatArray, IntArray


class WeakPairs(NamedTuple):
    """What a key group has to do with others outside the forest."""

    on: FloatArray
    """Traffic with each node today, shape (p, n), and with the own one."""
    here: FloatArray
    slack: FloatArray
    """What others that move may add to a mover."""


class RowPrices(NamedTuple):
    """What the relaxed rows charge."""

    move: FloatArray
    """For moving each key group."""
    load: FloatArray
    """For a unit of load on each node."""
    use: FloatArray
    """For a unit of each resource on each node, shape (r, n)."""
    omega: FloatArray
    """What a unit of collocated traffic is worth on each node."""
    factor: float
    """The most that a unit of the weak pairs' slack can be worth."""


class LoadTerms(NamedTuple):
    """What each key group brings along, and where it is."""

    load: FloatArray
    use: FloatArray
    current: IntArray
    open_to: BoolArray


@njit(cache=True)
def best_labels(order, parent, weight, theta, omega, up, labels):
    """Nodes that maximise ``sum theta[k, a[k]] + sum over forest edges weight * omega[i] where both ends are on i``.

    Parameters
    ----------
    order : children before parents
    parent, weight : each key group's parent (-1 for roots) and the traffic of the edge to it
    theta : (p, n)
    omega : (n,), what a unit of collocated traffic is worth on each node
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
                up[j, i] += max(other, up[k, i] + weight[k] * omega[i])
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
            together = up[k, i] + weight[k] * omega[i]
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
def by_label(order, parent, weight, omega, up, total, out):
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
            message[i] = max(second if i == where else first, up[k, i] + weight[k] * omega[i])
            rest[i] = out[j, i] - message[i]
        first, second, where = top_two(rest)
        for i in range(n):
            other = second if i == where else first
            out[k, i] = up[k, i] + max(other, rest[i] + weight[k] * omega[i])


@njit(cache=True)
def potentials(terms, prices, weak, theta):
    """theta[k, i]: what key group k on node i earns, without its forest edges.

    A mover pays for the move; its weak pairs earn ``omega[i] * on[k, i]``, lose ``omega[current] * here[k]`` and may
    earn ``factor * slack[k]`` more with others that move.
    """
    p, n = theta.shape
    load, use, current, open_to = terms
    omega = prices.omega
    for k in range(p):
        here = current[k]
        for i in range(n):
            if not open_to[k, i]:
                theta[k, i] = -1e9
                continue
            value = -prices.load[i] * load[k]
            for r in range(use.shape[0]):
                value -= prices.use[r, i] * use[r, k]
            if i != here:
                value += (
                    omega[i] * weak.on[k, i] - omega[here] * weak.here[k]
                    + prices.factor * weak.slack[k] - prices.move[k]
                )  # fmt: skip
            theta[k, i] = value
