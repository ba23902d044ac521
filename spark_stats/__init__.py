"""From tuples to a workload with Spark: load, state size and traffic of every key group, window by window.

>>> from keyshift.spark_stats import Operator, Topology, collect
>>> topology = Topology(operators=[Operator(name="extract", key="tailnum"), Operator(name="sum", key="tailnum")],
...                     edges=[("extract", "sum")])

PySpark loads with the first name that needs it; nothing starts a session at import.

Begin with statistics.py.
"""

from __future__ import annotations

from typing import Any

from keyshift.models.base.lazily import lazily, on_first_use
from keyshift.models.errors import needing
from keyshift.spark_stats.topology import Operator, Topology

# Public names that load on first use: `__getattr__` finds them.
with lazily() as _LAZY:
    from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
    from keyshift.spark_stats.estimates import Estimate, estimate
    from keyshift.spark_stats.hadoop import fetch
    from keyshift.spark_stats.keys import collect_keys
    from keyshift.spark_stats.session import local_session
    from keyshift.spark_stats.sources import read_log, read_log_stream, read_query, read_table
    from keyshift.spark_stats.statistics import Stats, collect, transitions_of
    from keyshift.spark_stats.streaming import StatsStream
_opened = on_first_use(globals(), _LAZY)

__all__ = [
    "Estimate", "Operator", "Stats", "StatsStream", "Topology", "collect", "collect_keys", "estimate", "fetch", "local_session",
    "node_counts", "read_log", "read_log_stream", "read_query", "read_table", "transition_matrix", "transitions_of",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    with needing("pyspark", "statistics need PySpark: pip install '.[spark]' in a checkout of keyshift"):
        return _opened(name)
