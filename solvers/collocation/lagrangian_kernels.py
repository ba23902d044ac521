"""Compiled dynamic program over a forest of pairs: the inner problem of the Lagrangian bound."""

from __future__ import annotations

import numpy as np
from numba import njit


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
def potentials(
    load, move_price, current, price, weak, weak_loss, weak_slack, omega, factor, forbidden, use, use_price, theta
):
    """theta[k, i]: what key group k on node i earns, without its forest edges.

    A mover pays `move_price`; its weak pairs earn ``omega[i] * weak[k, i]``, lose ``omega[current] * weak_loss[k]``
    and may earn ``factor * weak_slack[k]`` more with others that move; `price` is per unit of load on each node.
    """
    p, n = theta.shape
    for k in range(p):
        here = current[k]
        for i in range(n):
            if forbidden[k, i]:
                theta[k, i] = -1e9
                continue
            value = -price[i] * load[k]
            for r in range(use.shape[0]):
                value -= use_price[r, i] * use[r, k]
            if i != here:
                value += omega[i] * weak[k, i] - omega[here] * weak_loss[k] + factor * weak_slack[k] - move_price[k]
            theta[k, i] = value
