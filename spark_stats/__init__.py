"""From tuples to a workload with Spark: load, state size and traffic of every key group, window by window.

>>> from keyshift.spark_stats import Operator, Topology, collect
>>> topology = Topology(operators=[Operator(name="extract", key="tailnum"), Operator(name="sum", key="tailnum")],
...                     edges=[("extract", "sum")])

PySpark loads when a log is first touched; importing this package starts nothing.
"""

from keyshift.spark_stats.collect import collect
from keyshift.spark_stats.statistics import Stats
from keyshift.spark_stats.topology import Operator, Topology

__all__ = ["Operator", "Stats", "Topology", "collect"]
