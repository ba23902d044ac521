"""A plan as JSON can hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models.workload import FloatArray

if TYPE_CHECKING:
    from keyshift.models.plans.plan import Plan


def record_of(plan: Plan) -> dict[str, Any]:
    """Every field of a plan's file, in its order."""
    made = plan.made_for
    return {
        "format": "keyshift-plan",
        "version": 1,
        "problem": plan.problem,
        "parameters": dict(plan.parameters),
        "method": plan.method,
        "status": plan.status,
        "objective": plan.objective,
        "bound": plan.bound,
        "measure": plan.measure,
        "seconds": plan.seconds,
        "seconds_bound": plan.seconds_bound,
        "state_moved": plan.state_moved,
        "peak_load": plan.peak_load,
        "load_distance": list(plan.load_distance),
        "overload": plan.overload,
        "overload_bound": plan.overload_bound,
        "parallel": plan.parallel,
        "bandwidth": None if plan.bandwidth is None else plan.bandwidth.tolist(),
        "notes": list(plan.notes),
        "workload": {
            "fingerprint": made.fingerprint,
            "rest": made.rest,
            "load": made.load.tolist(),
            "state": made.state.tolist(),
            "current": made.current.tolist(),
            "capacity": made.capacity.tolist(),
            "draining": made.draining.tolist(),
            "keys": None if made.keys is None else list(made.keys),
            "node_names": None if made.node_names is None else list(made.node_names),
        },
        "nodes": {"capacity": plan.capacity.tolist(), "leaving": plan.leaving.tolist()},
        "limits": {
            name: {"limit": _or_none(limit), "held": plan.held[name].tolist(), "usage": plan.usage[name].tolist()}
            for name, limit in plan.limits.items()
        },
        "phases": [{"start": p.start, "end": p.end, "bound": p.bound, "load_distance": p.load_distance} for p in plan.phases],
        "moves": [
            dict(zip(("key_group", "source", "target", "gain", "phase", "start", "end"), row, strict=True))
            for row in zip(
                *(
                    array.tolist()
                    for array in (
                        plan.key_group, plan.source, plan.target, plan.gain, plan.phase, plan.start, plan.end
                    )
                ),
                strict=True,
            )
        ],
    }  # fmt: skip


def _or_none(limit: FloatArray) -> list[float | None]:
    """JSON knows no infinity."""
    return [value if np.isfinite(value) else None for value in limit.tolist()]
