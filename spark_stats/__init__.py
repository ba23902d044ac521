"""From tuples to a workload with Spark: load, state size and traffic of every key group, window by window.

>>> from keyshift.spark_stats import Operator, Topology, collect
>>> topology = Topology(operators=[Operator(name="extract", key="tailnum"), Operator(name="sum", key="tailnum")],
...                     edges=[("extract", "sum")])

PySpark loads with the first name that needs it; nothing starts a session at import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from keyshift.models.errors import MissingDependencyError
from keyshift.spark_stats.topology import Operator, Topology

if TYPE_CHECKING:
    from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
    from keyshift.spark_stats.collect import collect
    from keyshift.spark_stats.hadoop import fetch
    from keyshift.spark_stats.keys import collect_keys
    from keyshift.spark_stats.session import local_session
    from keyshift.spark_stats.sources import read_log, read_log_stream
    from keyshift.spark_stats.statistics import Stats
    from keyshift.spark_stats.streaming import StatsStream
    from keyshift.spark_stats.transitions import transitions_of

_LAZY = {
    "Stats": "keyshift.spark_stats.statistics",
    "StatsStream": "keyshift.spark_stats.streaming",
    "collect": "keyshift.spark_stats.collect",
    "collect_keys": "keyshift.spark_stats.keys",
    "fetch": "keyshift.spark_stats.hadoop",
    "node_counts": "keyshift.models.intervals.policy.transitions",
    "transition_matrix": "keyshift.models.intervals.policy.transitions",
    "transitions_of": "keyshift.spark_stats.transitions",
    "read_log": "keyshift.spark_stats.sources",
    "read_log_stream": "keyshift.spark_stats.sources",
    "local_session": "keyshift.spark_stats.session",
}

__all__ = [
    "Operator",
    "Stats",
    "StatsStream",
    "Topology",
    "collect",
    "collect_keys",
    "fetch",
    "local_session",
    "node_counts",
    "read_log",
    "read_log_stream",
    "transition_matrix",
    "transitions_of",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'keyshift.spark_stats' has no attribute {name!r}")
    try:
        module = importlib.import_module(_LAZY[name])
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pyspark":
            raise
        raise MissingDependencyError(
            "statistics need PySpark: pip install '.[spark]' in a checkout of keyshift"
        ) from None
    globals()[name] = value = getattr(module, name)
    return value
