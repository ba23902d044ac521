r"""What the rows of rules force on each node, for the bounds by counts and by prices.

Let w be the weights of a room (3) of `keyshift.models.rules.lowered`, and node i in its domain d. :math:`held_i` is what i holds
of the members, with what nobody can take out of the rest of d. Whatever the other nodes do, a set D that leaves i and a set A
that comes keep

.. math::

    (F1) \quad & held_i - \sum_{k \in D} w_k + \sum_{k \in A} w_k \le most_d \\
    (F2) \quad & held_i - \sum_{k \in D} w_k + \sum_{k \in A} w_k \ge least_d && \text{where d is i alone} \\
    (F3) \quad & \sum_{k \in D} w_k \le most && \text{budgets (4) of moves into all nodes; A likewise, into i} \\
    (F4) \quad & D \cap S \in \{\emptyset,\; S_i\}, \quad A \cap S \in \{\emptyset,\; S \setminus S_i\}
        && \text{merged sets S, of which } S_i \text{ is on i} \\
    (F5) \quad & \sum_{i \in I_d} (|A_i| - |D_i|) \le \sum_{rooms} fit_d - |\{k : q_k \in I_d\}|

where :math:`fit_d` is how many members have room in d, for rooms that share no member; of key groups in none of them all do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from keyshift.models.rules.lowered import ROUNDING, MoveBudget, Rooms
from keyshift.models.workload import BoolArray, FloatArray, IntArray

MOST_MATCHED = 2_000
"""Up to this many movers every departure is held against every arrival."""
MOST_TILTS = 8
"""Families of sets of nodes whose arrivals and departures are counted at most."""


def fitting(weights: FloatArray, most: float) -> int:
    """How many of some weights go into a room."""
    return int(np.searchsorted(np.cumsum(np.sort(weights)) * (1 - ROUNDING), most * (1 + ROUNDING), "right"))


class Company(NamedTuple):
    """Who leaves or comes with whom, of a node's own key groups and of all movers by ascending load."""

    team: IntArray
    """A number for each of the node's own; those of one number leave together."""
    size: IntArray
    """How many they are."""
    mate: IntArray
    """Who comes along: the mover itself where nobody, -1 where there are more than one."""


class Tilt(NamedTuple):
    """(F5) and (F3) for disjoint sets of nodes."""

    nodes: list[IntArray]
    least: IntArray
    """The least and the most by which arrivals exceed departures in each set."""
    most: IntArray
    out: IntArray
    """The most departures of each."""


@dataclass(frozen=True, eq=False)
class Forced:
    """What rows force on one instance.

    Parameters
    ----------
    instance : keyshift.solvers.allocation.arrays.Instance
    """

    instance: Any

    @cached_property
    def counts(self) -> IntArray:
        """How many key groups are on each node."""
        return np.bincount(self.instance.current, minlength=self.instance.nodes)

    @cached_property
    def moves(self) -> BoolArray:
        """Who may move at all, shape (p,)."""
        it = self.instance
        made = np.zeros(it.key_groups, dtype=bool)
        made[it.space.movers] = True
        return made

    @cached_property
    def most_moves(self) -> int:
        """(F3) over all nodes: how many may move at all."""
        it = self.instance
        over_all = [one for one in it.problem.lowered.budgets if one.into[it.space.open].all()]
        return min((left_over(one, self.moves) for one in over_all), default=it.key_groups)

    @cached_property
    def merged(self) -> IntArray:
        """The merged set of each key group, a set of its own where it is in none, shape (p,)."""
        label = np.arange(self.instance.key_groups)
        for one in self.instance.problem.lowered.merged:
            label[one] = one[0]
        return label

    @cached_property
    def rooms(self) -> list[tuple[Rooms, FloatArray]]:
        """Rooms, and what each node holds of them."""
        it, none = self.instance, np.zeros(self.instance.nodes)
        whole = [
            Rooms(np.arange(it.key_groups), use, np.arange(it.nodes), none, room)
            for use, room in zip(it.use, it.room, strict=True)
        ]
        return [
            (one, np.bincount(it.current[one.key_groups], one.weights, it.nodes))
            for one in (*it.problem.lowered.rooms, *whole)
        ]

    @cached_property
    def by_node(self) -> list[list[tuple[Rooms, FloatArray, float, float, float]]]:
        """The rooms that can be full, or too empty, at each node: what nodes hold, and this one with the rest; least and most."""
        it = self.instance
        made: list[list[tuple[Rooms, FloatArray, float, float, float]]] = [[] for _ in range(it.nodes)]
        for room, on in self.rooms:
            stuck = ~self.moves[room.key_groups]
            at = it.current[room.key_groups[stuck]]
            fixed = np.bincount(at, room.weights[stuck], it.nodes)
            inside = room.domain >= 0
            size = np.bincount(room.domain[inside], minlength=room.most.size)
            fixed_in = np.bincount(room.domain[inside], fixed[inside], room.most.size)
            held = on + np.where(inside, fixed_in[room.domain] - fixed, 0.0)
            most = np.where(inside, room.most[room.domain], np.inf)
            alone = inside & (size[room.domain] == 1)
            least = np.where(alone, room.least[room.domain], 0.0)
            heaviest = room.weights.max(initial=0.0)
            for i in np.flatnonzero((held + heaviest > most) | (least > 0)).tolist():
                made[i].append((room, on, float(held[i]), float(least[i]), float(most[i])))
        return made

    def impossible(self, i: int, size: int) -> BoolArray:
        """Which numbers of departures and arrivals of node i break (F1), (F2) or (F3), shape (size, size)."""
        it = self.instance
        made = np.zeros((size, size), dtype=bool)
        own = self.moves & (it.current == i)
        come = np.zeros(it.key_groups, dtype=bool)
        movers = it.space.movers
        come[movers] = it.space.may_enter(movers, i)
        leaving, coming, used, forced = int(own.sum()), int(come.sum()), np.zeros(it.key_groups, dtype=bool), 0
        for room, on, held, least, most in self.by_node[i]:
            members = room.key_groups
            others_come = coming - np.count_nonzero(come[members]) >= min(size - 1, coming)
            others_leave = least <= 0 or leaving - np.count_nonzero(own[members]) >= min(size - 1, leaving)
            if others_come and others_leave and least <= on[i] and held <= most:  # members need not leave or come
                continue
            out, into = (room.weights[side[members]] for side in (own, come))
            out, into = (np.sort(np.pad(x, (0, n - x.size))) for x, n in ((out, leaving), (into, coming)))
            least_in, most_in = (sums(x, size) for x in (into, into[::-1]))
            least_out, most_out = (sums(x, size) for x in (out, out[::-1]))
            lowest = held - most_out[:, None] + least_in
            made |= lowest - ROUNDING * (held + least_in) > most * (1 + ROUNDING)
            if least > 0:
                made |= (held - least_out[:, None] + most_in) * (1 + ROUNDING) < least * (1 - ROUNDING)
            if not used[members].any() and held > most:
                used[members] = True
                over = (held * (1 - ROUNDING) - most * (1 + ROUNDING)) / room.heaviest
                forced += max(0, int(np.ceil(over - ROUNDING)))
        made[:forced] = True
        for budget in it.problem.lowered.budgets:
            if budget.into[it.space.open].all():
                made[1 + left_over(budget, own) :] = True
            if budget.into[i]:
                made[:, 1 + left_over(budget, come) :] = True
        return made

    @property
    def matched(self) -> bool:
        """Whether departures are held against arrivals one by one."""
        return self.instance.space.movers.size <= MOST_MATCHED

    def fits(self, i: int, own: IntArray, movers: IntArray) -> BoolArray:
        """Which movers may come to node i by (F1): where nobody leaves, where each of its own does alone, or any more.

        Returns
        -------
        ndarray of bool, shape (own + 2, movers)
        """
        it = self.instance
        made = np.tile(it.space.may_enter(movers, i), (own.size + 2, 1))
        if not self.matched:
            return made[-1:]
        weight = np.zeros(it.key_groups)
        place = np.full(it.key_groups, -1)
        place[movers] = np.arange(movers.size)
        for room, _, held, _, most in self.by_node[i]:
            weight[room.key_groups] = room.weights
            members = room.key_groups[place[room.key_groups] >= 0]
            left = held - np.concatenate([[0.0], weight[own]])
            full = (left[:, None] + weight[members]) * (1 - ROUNDING) > most * (1 + ROUNDING)
            made[:-1, place[members]] &= ~full
            weight[room.key_groups] = 0.0
        return made

    def company(self, i: int, own: IntArray, movers: IntArray) -> Company:
        """(F4) at node i."""
        team = np.unique(self.merged[own], return_inverse=True)[1].ravel()
        mate = np.arange(movers.size)
        if self.instance.problem.lowered.merged:
            place = np.full(self.instance.key_groups, -1)
            place[movers] = mate
            for one in self.instance.problem.lowered.merged:
                away = one[self.instance.current[one] != i]
                pair = place[away]
                mate[pair[pair >= 0]] = pair[::-1] if away.size <= 2 and (pair >= 0).all() else -1
        return Company(team, np.bincount(team, minlength=1)[team] if team.size else team, mate)

    def singly(self, i: int, own: IntArray, movers: IntArray) -> Iterator[tuple[int, int, float]]:
        """The least deviation of node i by one departure at most and one arrival at most, for each number of both."""
        if not self.matched:
            return
        it = self.instance
        fits, company = self.fits(i, own, movers), self.company(i, own, movers)
        excess = float(it.deviations(it.current)[i] / it.weight[i])
        come = fits[:-1] & (company.mate == np.arange(movers.size))
        after = excess - np.concatenate([[0.0], it.load[own]])[:, None] + it.load[movers]
        near = np.where(come, np.maximum(after, 0.0) if it.draining[i] else np.abs(after), np.inf)
        yield 0, 1, float(near[0].min(initial=np.inf) * it.weight[i])
        alone = company.size == 1
        yield 1, 1, float(near[1:][alone].min(initial=np.inf) * it.weight[i])
        left = excess - it.load[own[alone]]
        left = np.maximum(left, 0.0) if it.draining[i] else np.abs(left)
        yield 1, 0, float(left.min(initial=np.inf) * it.weight[i])

    @cached_property
    def tilts(self) -> list[Tilt]:
        """(F5) by rooms of like domains, and (F3) by budgets of moves out of some nodes; a few of them."""
        it = self.instance
        families: dict[bytes, list[Rooms]] = {}
        for room, _ in self.rooms:
            if room.most.size < it.nodes:
                families.setdefault(room.domain.tobytes(), []).append(room)
        found = [self._tilt_of(rooms) for rooms in families.values()]
        for budget in it.problem.lowered.budgets:
            source = np.isin(np.arange(it.nodes), it.current[budget.key_groups])
            any_number = np.full(2, it.key_groups)
            if source.any() and not source.all():
                found.append(self._limited([np.flatnonzero(source), np.flatnonzero(~source)], -any_number, any_number))
        return found[:MOST_TILTS]

    def _limited(self, nodes: list[IntArray], least: IntArray, most: IntArray) -> Tilt:
        """With the departures that budgets allow."""
        it, out = self.instance, []
        for some in nodes:
            leaving = self.moves & np.isin(it.current, some)
            budgets = [one for one in it.problem.lowered.budgets if one.into[it.space.open].all()]
            out.append(min((left_over(one, leaving) for one in budgets), default=it.key_groups))
        return Tilt(nodes, least.astype(np.int64), most.astype(np.int64), np.array(out))

    def _tilt_of(self, rooms: list[Rooms]) -> Tilt:
        """(F5) by rooms of like domains."""
        it, domain = self.instance, rooms[0].domain
        now = np.bincount(domain[domain >= 0], self.counts[domain >= 0], rooms[0].most.size)
        free, most, least = np.ones(it.key_groups, dtype=bool), -now, -now
        for room in sorted(rooms, key=lambda one: -one.key_groups.size):
            if free[room.key_groups].all():
                free[room.key_groups] = False
                most = most + np.array([fitting(room.weights, float(x)) for x in room.most], dtype=np.int64)
                needed = np.ceil(room.least / room.heaviest * (1 - ROUNDING)).astype(np.int64)
                least = least + needed
        most = most + free.sum()
        if (domain >= 0).all():
            least = np.maximum(least, most - most.sum())  # what the others have no room for
        nodes = [np.flatnonzero(domain == d) for d in range(most.size)]
        if (rest := np.flatnonzero(domain < 0)).size:
            nodes.append(rest)
            most, least = np.append(most, it.key_groups), np.append(least, -it.key_groups)
        return self._limited(nodes, least, most)


def sums(values: FloatArray, size: int) -> FloatArray:
    """The sums of the first 0, 1, ... values; infinite beyond them is for the caller's table to say, so the last is repeated."""
    made = np.concatenate([[0.0], np.cumsum(values)])[:size]
    return np.pad(made, (0, size - made.size), mode="edge")


def left_over(budget: MoveBudget, who: BoolArray) -> int:
    """How many of some key groups may move by a budget."""
    inside = who[budget.key_groups]
    return int(who.sum()) - int(inside.sum()) + fitting(budget.weights[inside], budget.most)
