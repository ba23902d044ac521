"""What the networks of interval migration have in common: arcs in order, one source, one sink, no circle."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from keyshift.models.integers import whole_numbers
from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Network:
    """An acyclic network.

    Attributes
    ----------
    states : list
        Names of its nodes: the first is the source, the last the sink.
    tail, head : ndarray of int
        The ends of each arc, as places in `states`.
    cost : ndarray
        State moved along each arc, in units of state.
    names : list
        Names of the arcs.
    """

    states: Sequence[Hashable]
    tail: IntArray
    head: IntArray
    cost: FloatArray
    names: Sequence[Hashable]

    @cached_property
    def unit(self) -> float:
        """A power of two near the largest cost, 1 without any: costs in it suit a solver's tolerances."""
        most = float(self.cost.max(initial=0.0))
        return math.ldexp(1.0, math.frexp(most)[1]) if most > 0 else 1.0

    @cached_property
    def leaving(self) -> list[list[int]]:
        """The arcs out of each state."""
        return _by_state(self.tail, len(self.states))

    @cached_property
    def entering(self) -> list[list[int]]:
        """The arcs into each state."""
        return _by_state(self.head, len(self.states))

    def path(self, flow: FloatArray) -> list[int]:
        """The arcs of a path from source to sink that a flow of one unit uses: at each state, where most goes."""
        found, at = [], 0
        while at != len(self.states) - 1:
            found.append(max(self.leaving[at], key=lambda e: flow[e]))
            at = int(self.head[found[-1]])
        return found


def _by_state(ends: IntArray, states: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(states)]
    for arc, state in enumerate(ends.tolist()):
        found[state].append(arc)
    return found


def state_sums(state: FloatArray) -> tuple[list[int], int]:
    """Prefix sums of state sizes as whole numbers, exact, and the shift that makes floats of them again."""
    whole, shift = whole_numbers(np.asarray(state))
    return list(accumulate((int(s) for s in whole), initial=0)), shift


def one_path(flow: FloatArray) -> bool:
    """Whether a flow of one unit goes along one path alone, up to a solver's tolerances."""
    return bool((np.abs(flow - np.rint(flow)) <= 1e-6).all())


def named(name: object) -> str:
    """The name of a state or an arc, for files of models: i2,k5,free, or the positions of cuts."""
    label = getattr(name, "label", None)
    if label is not None:
        return str(label)
    return str(name) if isinstance(name, str | int) else "_".join(named(part) for part in name)  # type: ignore[attr-defined]
