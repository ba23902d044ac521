"""What the simulated figures share: rates, and how latencies are said."""

from __future__ import annotations

import keyshift as ks

RATE = 1000.0
"""Tuples a second that a node serves ([Guo2018], section 5.2)."""
BANDWIDTH = 10_000.0
"""Tuples of state a second that a node sends and receives: ours."""
ROOM = 1000
"""Tuples at a node before the source stops: ours."""


def ms(found: ks.simulation.Simulation) -> dict[str, float]:
    """Latencies in milliseconds."""
    return {"mean, ms": 1e3 * found.latency_mean, "95 %, ms": 1e3 * found.latency_p95, "99 %, ms": 1e3 * found.latency_p99,
            "largest, ms": 1e3 * found.latency_max}  # fmt: skip
