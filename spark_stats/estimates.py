"""A quick look at a log from a sample of its rows: loads of key groups, with the error that sampling has, and heavy keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyshift.models.base import guards
from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import KeyGroups, label
from keyshift.spark_stats.key_tables import KeyLog
from keyshift.spark_stats.session import persisted, refuse_connect_frame
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows


@dataclass(frozen=True)
class Estimate:
    """What a sample says of the whole log: no statistics, and no problem can be made of it.

    `loads`: operator, key_group, tuples, load, error - one standard deviation of the load. `keys`: operator, key, tuples, of the
    most frequent keys.
    """

    sample: float
    loads: pd.DataFrame
    keys: pd.DataFrame


@in_one_sentence()
def estimate(
    events: DataFrame,
    topology: Topology,
    sample: float,
    *,
    time: str | None = None,
    since: Any = None,
    until: Any = None,
    key_groups: int = 128,
    hash: str = "xxhash64",
    seed: int = 0,
    keys: int = 10,
) -> Estimate:
    r"""Estimate the load of each key group from a share of the log's rows, each drawn by itself.

    With x the costs of the rows drawn and f the share, the load :math:`\sum x / f` has the variance
    :math:`(1 - f) \sum x^2 / f^2`, estimated without bias. Heavy keys come from Spark's sketch ``approx_top_k``.

    Parameters
    ----------
    sample : float
        The share, above 0 and at most 1. The log is read whole, and once; what is spared is the counting.
    time, since, until, key_groups, hash
        As for `keyshift.spark_stats.collect`; there is one window.
    seed : int, default 0
        Draws the rows.
    keys : int, default 10
        Keys to name, for each operator.
    """
    refuse_connect_frame(events)
    share = guards.real("sample", sample, optional=False, above=True)
    if share > 1:
        raise InputError(f"sample = {sample:g} must be at most 1")
    if topology.logs:
        raise InputError("an estimate reads one log: the operators name more than one")
    log = KeyLog.of(
        events.sample(share, seed),
        topology,
        time,
        Windows.of(None, None, None, since, until),
        KeyGroups(key_groups, hash),
    )
    parts = []
    for o, name in enumerate(topology.names):
        cost = log.joined(o, "cost") if log.measures[o, "cost"] else F.lit(1.0)
        key = label(F.col(f"key_{o}"), log.kind(o)).cast("string")
        columns = {"operator": F.lit(name), "key_group": F.col(f"group_{o}"), "key": key, "cost": cost}
        parts.append(F.struct(*(column.alias(what) for what, column in columns.items())))
    rows = persisted(log.frame.select(F.inline(F.array(*parts))).where("key_group >= 0"))
    try:
        of_group = rows.groupBy("operator", "key_group").agg(
            F.round(F.count(F.lit(1)) / share).cast("long").alias("tuples"),
            (F.sum("cost") / share).alias("load"),
            (F.sqrt((1 - share) * F.sum(F.col("cost") ** 2)) / share).alias("error"),
        )
        order: dict[str, Any] = {"ascending": [True, False, True], "ignore_index": True}
        loads = of_group.toPandas().sort_values(["operator", "load", "key_group"], **order)
        top = F.call_function("approx_top_k", F.col("key"), F.lit(keys), F.lit(max(10_000, 10 * keys))).alias("top")
        named = rows.groupBy("operator").agg(top).select("operator", F.inline("top"))
        heavy = named.selectExpr(
            "operator", "item as key", f"cast(round(count / {share!r}) as long) as tuples"
        ).toPandas()
        heavy = heavy.sort_values(["operator", "tuples", "key"], **order)
    finally:
        rows.unpersist()
    return Estimate(share, loads, heavy)
