"""The way back: a plan that brings every key group home."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from keyshift.models.plans.made_for import MadeFor
from keyshift.models.plans.phase import Phase
from keyshift.models.plans.transfers import net_change
from keyshift.models.plans.way import Way
from keyshift.models.plans.worth import distance_gains
from keyshift.models.workload import FloatArray

if TYPE_CHECKING:
    from keyshift.models.plans.plan import Plan


def undone(plan: Plan) -> Plan:
    """The same transfers the other way round and in the opposite order."""
    end = max([plan.seconds, *(p.end for p in plan.phases)])  # sums of many parts round, each its own way
    order = np.lexsort((plan.key_group, end - plan.start, end - plan.end))
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    last = len(plan.phases) - 1
    distances = [plan.load_distance[0], *(p.load_distance for p in plan.phases[:-1])]
    phases = tuple(
        Phase(
            last - p.number, tuple(sorted(int(place[row]) for row in p.moves)), end - p.end, end - p.start,
            p.bound, distances[p.number],
        )
        for p in reversed(plan.phases)
    )  # fmt: skip
    turned = {r: plan.held[r] + _change(plan, r) for r in plan.held}
    way = Way(plan.made_for.load, plan.capacity, plan.leaving, plan.loads_after, plan.loads_before)
    worth = distance_gains(way, plan.assignment, plan.current, plan.key_group[order])
    return replace(
        plan,
        made_for=_made_for_after(plan),
        status="undo", objective=None, bound=None, measure="load distance", assignment=plan.current.copy(),
        key_group=plan.key_group[order], source=plan.target[order], target=plan.source[order],
        load=plan.load[order], state=plan.state[order], gain=worth,
        start=(end - plan.end)[order], end=(end - plan.start)[order], phase=(last - plan.phase)[order],
        phases=phases, notes=(), usage={r: u[order] for r, u in plan.usage.items()}, held=turned,
    )  # fmt: skip


def _made_for_after(plan: Plan) -> MadeFor:
    """The workload once the plan is carried out, new nodes included."""
    made, new = plan.made_for, plan.capacity.size - plan.made_for.capacity.size
    return replace(
        made,
        current=plan.assignment.copy(),
        capacity=plan.capacity.copy(),
        draining=np.concatenate([made.draining, np.zeros(new, dtype=bool)]),
    )


def _change(plan: Plan, resource: str) -> FloatArray:
    return net_change(plan.usage[resource][None, :], plan.source, plan.target, plan.capacity.size)[0]
