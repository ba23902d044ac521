"""The state of the operators at the end of each window, from the amounts that each window adds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from keyshift.spark_stats.topology import Topology

STATE = ["state_whole", "state_high", "state_low"]


def held(added: DataFrame, topology: Topology, seen: Sequence[int]) -> DataFrame:
    """State over the last `windows` windows of each operator, as whole numbers.

    What window t adds is held from t to t + windows - 1: +x at t, -x at t + windows, and a running sum between
    these breakpoints. Two rows for each one read, however long the state is kept.
    """
    keys, parts = ["operator", "key_group"], []
    for o, operator in enumerate(topology.operators):
        own = added.where(F.col("operator") == o).select("window", *keys, *STATE)
        if operator.windows == 1 or not seen:
            parts.append(own)
            continue
        gone = own.select(F.col("window") + operator.windows, *keys, *(-F.col(name) for name in STATE))
        changes = own.union(gone).groupBy(*keys, "window").agg(*(F.sum(name).alias(name) for name in STATE))
        order = Window.partitionBy(*keys).orderBy("window")
        until = F.least(F.lead("window").over(order) - 1, F.lit(seen[-1]))
        running = changes.select(
            *keys,
            F.col("window").alias("since"),
            until.alias("until"),
            *(F.sum(name).over(order).alias(name) for name in STATE),
        )
        lasting = running.where("since <= until")
        parts.append(lasting.select(F.explode(F.sequence("since", "until")).alias("window"), *keys, *STATE))
    return reduce(lambda a, b: a.unionByName(b), parts)
