"""A problem with rules, as each formulation that takes them inherits it; and with key groups that move as one made one item."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from keyshift.models import records
from keyshift.models.base.figures import apart
from keyshift.models.base.lazily import sp
from keyshift.models.errors import InputError
from keyshift.models.problem import Limit, Number, Problem, Violation
from keyshift.models.rules import read_rule
from keyshift.models.rules.lowered import Closed, Form, Lowered, MoveBudget, Rooms, labels_of
from keyshift.models.rules.rule import Rule, Scope
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload

BROKEN = "broken_rules"
"""The measure of (5) in `keyshift.models.rules.lowered`, which `priorities` may put first."""
MOST_RULES = 20
"""Rules that `remedies` and `explain` look at one by one."""


def read_rules(given: Any) -> tuple[Rule, ...]:
    """The rules of a problem, or `InputError`."""
    if isinstance(given, str | Rule | Mapping):
        given = [given]
    if not isinstance(given, Iterable):
        raise InputError(f"rules = {given!r:.80} must be a list of rules")
    return tuple(read_rule(one, f"rules[{place}]") for place, one in enumerate(given))


@dataclass(frozen=True)
class NoWorse(Rule):
    """Rules that give way where they are broken today, or by an assignment that is given: none of them gets worse."""

    name: ClassVar[str] = "no_worse"
    words: ClassVar[tuple[str, ...]] = ()
    rules: tuple[Rule, ...]
    than: tuple[int, ...] | None = None

    @property
    def of_today(self) -> bool:
        return any(rule.of_today for rule in self.rules)

    def today(self, scope: Scope) -> IntArray:
        """The assignment that repairs are compared with: nothing may get worse than in it."""
        return scope.workload.current if self.than is None else np.array(self.than)

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        forms = Lowered.of(self.forms(scope), scope.workload.current, scope.places)
        if excess := forms.no_worse(self.today(scope)).excess(assignment):
            yield "broken by more than today", None, excess

    def forms(self, scope: Scope) -> Iterator[Form]:
        for rule in self.rules:
            yield from rule.forms(scope)

    def __str__(self) -> str:
        return "rules"


class Ruled(Problem):
    """A problem whose field `rules` says what the cluster does not allow besides.

    A subclass is a dataclass with the fields `workload` and `rules`. It calls `_read_rules` at the end of its ``__post_init__``,
    and adds `broken_rules` to its `violations`, `rule_conflicts` to its `conflicts` and `rule_limits` to its `limits`. Its
    methods keep the four forms of `lowered`.
    """

    rules: Sequence[Rule] = ()
    priorities: str | tuple[str, ...] = ()
    """None, but for problems under `keyshift.models.objectives.Prioritised`."""

    def _read_rules(self) -> None:
        """Read the field `rules`, or raise `InputError`; a rule that names what is not there is refused here.

        Where broken rules are what comes first of the priorities, those that are broken today give way.
        """
        self._put("rules", read_rules(self.rules))
        if BROKEN in self.priorities[1:]:
            raise InputError(f"priorities: {BROKEN} must come first")
        _ = self.lowered  # which refuses what is not there

    @cached_property
    def scope(self) -> Scope:
        """Key groups and nodes by number, name and label."""
        return Scope(self.workload, self.places)

    @property
    def soft_rule(self) -> NoWorse | None:
        """All rules as one that allows what is broken today; None unless "broken_rules" is a priority."""
        if BROKEN in self.priorities:
            return NoWorse(tuple(self.rules))
        return next((rule for rule in self.rules if isinstance(rule, NoWorse)), None)

    @property
    def stated_rules(self) -> Sequence[Rule]:
        """The rules as stated, also where they may stay broken."""
        soft = self.soft_rule
        return self.rules if soft is None else soft.rules

    @cached_property
    def stated(self) -> Lowered:
        """All rules in the four forms, also where they may stay broken."""
        scope = self.scope
        forms = [form for rule in self.stated_rules for form in rule.forms(scope)]
        return Lowered.of(forms, scope.workload.current, scope.places)

    @cached_property
    def lowered(self) -> Lowered:
        """The four forms that every answer keeps; a rule that is broken today counts as far as it is kept today."""
        soft = self.soft_rule
        return self.stated if soft is None else self.stated.no_worse(soft.today(self.scope))

    @cached_property
    def alike(self) -> IntArray:
        """A label for each key group: rules do not distinguish key groups with the same label on the same current node."""
        return np.unique(np.stack([self.stated.alike, self.lowered.alike]), axis=1, return_inverse=True)[1].ravel()

    def arguments(self) -> dict[str, Any]:
        """The problem's arguments, with its rules as files hold them; without rules there is no entry for them."""
        given = super().arguments()
        rules = given.pop("rules", ())
        return {**given, "rules": [rule.record() for rule in rules]} if rules else given

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **super().arguments()), ()  # the rules themselves: those of one's own are in no file

    def broken_rules(self, assignment: np.ndarray) -> list[Violation]:
        """What a canonical assignment breaks of the rules, as each rule words it."""
        scope, soft = self.scope, self.soft_rule
        rules = self.rules if soft is None else (soft,)
        return [found for rule in rules for found in rule.broken_in(scope, assignment)]

    @property
    def rule_limits(self) -> list[Limit]:
        """Limits in rules that `remedies` may relax: each number, each rule; beyond `MOST_RULES` the rest as one."""
        if self.soft_rule is not None:  # they give already
            return []
        found = [
            self._number(place, rule, name)
            for place, rule in enumerate(self.rules[:MOST_RULES])
            for name in rule.numbers
            if isinstance(getattr(rule, name), int | float)
        ]
        parts = [(str(rule), {place}) for place, rule in enumerate(self.rules[:MOST_RULES])]
        if rest := set(range(MOST_RULES, len(self.rules))):
            parts.append((f"the other {len(rest)} rules", rest))
        return found + [self._whole(name, dropped) for name, dropped in parts]

    def _number(self, place: int, rule: Rule, name: str) -> Limit:
        """One number of a rule."""

        def at(value: Number) -> Problem:
            looser = replace(rule, **{name: type(getattr(rule, name))(value)})
            return self.changed(rules=[*self.rules[:place], looser, *self.rules[place + 1 :]])

        whole, value = rule.counts, getattr(rule, name)
        ends = 0 if name == "at_least" else max(rule.enough(self.scope), value)
        return Limit(
            f"{name} of {rule}", value if whole else float(value), at, partial(rule.needed, self.scope, name),
            int(ends) if whole else ends, whole, 1.0 if whole else 0.1 * value or 1.0, down=name == "at_least",
        )  # fmt: skip

    def _whole(self, name: str, dropped: set[int]) -> Limit:
        """Some rules as a whole: 1 with them, 0 without."""

        def at(value: Number) -> Problem:
            kept = [rule for place, rule in enumerate(self.rules) if value or place not in dropped]
            return self.changed(rules=kept)

        return Limit(name, 1, at, ends=0, whole=True, down=True, drops=True)

    def recorded_rules(self) -> records.Record:
        """The four forms in exact numbers, for certificates; empty without rules."""
        low, allowed = self.lowered, 1 + records.ALLOWED
        if not low:
            return {}

        def weighed(form: Rooms | MoveBudget) -> tuple[records.Record, Callable[[float], int]]:
            weights = records.amounts(form.weights)
            unit = Fraction(weights["unit"])
            made = {"key_groups": form.key_groups.tolist(), "weights": weights}
            return made, lambda most: math.floor(Fraction(most) * allowed / unit)

        rooms, budgets = [], []
        for room in low.rooms:
            made, most = weighed(room)
            ends = {"least": np.ceil(room.least).astype(int).tolist(), "most": [most(float(x)) for x in room.most]}
            rooms.append({**made, "domain": room.domain.tolist(), **ends})
        for budget in low.budgets:
            made, most = weighed(budget)
            budgets.append({**made, "into": np.flatnonzero(budget.into).tolist(), "most": most(budget.most)})
        shut = [] if low.closed is None else [k for k, row in enumerate(low.closed) if row.any()]
        closed = [[k, np.flatnonzero(low.closed[k]).tolist()] for k in shut]  # type: ignore[index]  # else there are none
        merged = [one.tolist() for one in low.merged]
        return {"rules": {"merged": merged, "closed": closed, "rooms": rooms, "budgets": budgets}}

    def rule_conflicts(self) -> list[str]:
        """Rules that no assignment can keep, by arithmetic alone."""
        w, low = self.scope.workload, self.lowered
        found = []
        if low.closed is not None:
            nowhere = np.flatnonzero(low.closed.all(axis=1))[:3]
            found += [f"rules leave key group {w.key(k)} no node to run on" for k in nowhere]
        for room in low.rooms:
            inside = bool((room.domain >= 0).all())
            if inside and room.weights.sum() > room.most.sum() * (1 + 1e-9):
                said = self.scope.said(room.key_groups)
                most, weight = apart(room.most.sum(), room.weights.sum())
                found.append(f"rules have room for {most} of {weight} of key groups {said}")
            if room.least.sum() > room.weights.sum():
                said = self.scope.said(room.key_groups)
                least, weight = apart(room.least.sum(), room.weights.sum())
                found.append(f"rules need {least} of key groups {said}, which are {weight}")
        return found


# Key groups that move as one as one item: the same problem without *merged*, for searches ----------------------------


@dataclass(frozen=True)
class Forms(Rule):
    """Forms as a rule: what is left of all rules when key groups have become items."""

    name: ClassVar[str] = "forms"
    words: ClassVar[tuple[str, ...]] = ()
    lowered: Lowered

    def __post_init__(self) -> None:
        """Forms stay what they are: no file holds them."""

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        if excess := self.lowered.excess(assignment):
            yield "broken", None, excess

    def forms(self, scope: Scope) -> Iterator[Form]:
        if self.lowered.closed is not None:
            yield Closed(np.arange(self.lowered.current.size), self.lowered.closed)
        yield from self.lowered.rooms
        yield from self.lowered.budgets


@dataclass(frozen=True, eq=False)
class MergedItems:
    """Key groups that move as one are one item; any other is an item by itself.

    The item of merged key groups is where most of them are now. Those that are `apart` have to come there, and are paid for
    beforehand; to leave is charged as if all others moved, less what they weigh that are where it goes.

    Attributes
    ----------
    label : ndarray of int, shape (p,)
        The item of each key group.
    current : ndarray of int, shape (items,)
    lowered : Lowered
    """

    label: IntArray
    current: IntArray
    lowered: Lowered

    @classmethod
    def of(cls, lowered: Lowered) -> MergedItems:
        """The items of a problem's rules."""
        label = labels_of(lowered.merged, lowered.current.size)
        items = cls(label, np.zeros(int(label.max(initial=-1)) + 1, dtype=np.int64), lowered)
        return replace(items, current=items.contracted(lowered.current))

    @cached_property
    def apart(self) -> BoolArray:
        """Key groups that are not where their item is, shape (p,)."""
        return np.asarray(self.lowered.current != self.current[self.label])

    @cached_property
    def sums(self) -> sp.csr_array:
        """The matrix that sums over the key groups of each item, shape (p, items)."""
        p = self.label.size
        return sp.csr_array((np.ones(p), (np.arange(p), self.label)), shape=(p, self.current.size))

    def contracted(self, assignment: IntArray) -> IntArray:
        """The items' nodes: where most of their key groups are."""
        nodes = np.zeros(self.current.size, dtype=np.int64)
        nodes[self.label] = assignment
        for members in self.lowered.merged:
            nodes[self.label[members[0]]] = np.bincount(assignment[members]).argmax()
        return nodes

    def expanded(self, nodes: IntArray) -> IntArray:
        """The key groups' nodes."""
        return nodes[self.label]

    def forms(self, allowed: BoolArray, limits: Sequence[tuple[FloatArray, float]] = ()) -> Lowered:
        """The other forms, by items, which run where all of theirs may, as `allowed` says, shape (p, n).

        `limits` are more budgets: what moving each key group weighs, and the most that all may.
        """
        low = self.lowered
        may = np.ones((self.current.size, allowed.shape[1]), dtype=bool)
        np.logical_and.at(may, self.label, allowed)
        rooms = []
        for room in low.rooms:
            items, weights = self._weighed(room.key_groups, room.weights)
            rooms.append(Rooms(items, weights, room.domain, room.least, room.most))
        budgets = []
        for budget in low.budgets:
            values = np.zeros(self.label.size)
            values[budget.key_groups] = budget.weights
            budgets.append(self.budget(values, budget.into, budget.most))
        everywhere = np.ones(allowed.shape[1], dtype=bool)
        budgets += [self.budget(values, everywhere, most) for values, most in limits]
        return Lowered(self.current, (), ~may, tuple(rooms), tuple(budgets))

    def budget(self, values: FloatArray, into: BoolArray, most: float) -> MoveBudget:
        """A budget of moves, by items: what leaving weighs, and what it weighs less where some of theirs are."""
        total, apart = values @ self.sums, np.unique(self.label[self.apart & (values > 0)])
        items, less, spent = np.flatnonzero(total), None, 0.0
        if apart.size:
            there = np.zeros((self.current.size, into.size))
            np.add.at(there, (self.label, self.lowered.current), values)
            weighs = np.where(into, total[apart, None] - there[apart], 0.0)  # at each node, in all
            paid = weighs[np.arange(apart.size), self.current[apart]]
            spent, total[apart] = float(paid.sum()), total[apart] - paid
            saved = np.where(into, total[apart, None], 0.0) - (weighs - paid[:, None])
            saved[np.arange(apart.size), self.current[apart]] = 0.0
            place, nodes = np.nonzero(saved)
            less = (apart[place], nodes, saved[place, nodes])
        return MoveBudget(items, total[items], into, most - spent, less)

    def _weighed(self, key_groups: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
        total = np.bincount(self.label[key_groups], weights, self.current.size)
        items = np.flatnonzero(total)
        return items, total[items]

    def workload(self, w: Workload) -> Workload:
        """The workload of the items; traffic within an item is none."""
        traffic = None
        if w.traffic is not None:
            traffic = [
                _between(pairs, self.sums) for pairs in (w.window_traffic if w.earlier_traffic else (w.traffic,))
            ]
            traffic = traffic if w.earlier_traffic else traffic[0]
        return Workload(
            load=w.load @ self.sums, state=np.where(self.apart, 0.0, w.state) @ self.sums, current=self.current, nodes=w.capacity,
            draining=w.draining, domains=w.domains, traffic=traffic, home=None if w.home is None else self.contracted(w.home),
            resources={name: use @ self.sums for name, use in w.resources.items()},
        )  # fmt: skip

    def problem(self, problem: Any) -> Any:
        """The problem of the items of a key-group allocation, collocated or not: what keeps its limits keeps theirs."""
        w, most, cost = problem.workload, problem.max_migrations, problem.max_migration_cost
        allowed = getattr(problem, "allocation", problem).space.allowed
        limits = [] if most is None else [(np.ones(self.label.size), float(most))]
        changes: dict[str, Any] = {}
        if cost is not None and self.apart.any():
            limits.append((problem.alpha * w.state, cost))
            changes["max_migration_cost"] = None
        changes["rules"] = (Forms(self.forms(allowed, limits)),)
        if problem.scenarios is not None:
            changes["scenarios"] = np.asarray(problem.scenarios) @ self.sums
        return replace(problem, workload=self.workload(w), priorities=(), **changes)


def _between(traffic: sp.csr_array, sums: sp.csr_array) -> sp.coo_array:
    """Traffic between different items."""
    made = sp.coo_array(sums.T @ traffic @ sums)
    other = made.row != made.col
    return sp.coo_array((made.data[other], (made.row[other], made.col[other])), shape=made.shape)
