"""Spark: routing the rows of a DataFrame by a plan, and the state that a streaming query holds.

Nothing here runs Python row by row on the workers, but for a `Partitioner`, whose decisions depend on all rows before.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike

from keyshift.engines.formats import entries_of, table_of
from keyshift.heuristics.splitting.partitioner import Partitioner
from keyshift.models import Solution
from keyshift.models.base import guards
from keyshift.models.errors import InputError, needing
from keyshift.models.placement import placement as place
from keyshift.models.routing import RoutingTable

with needing("pyspark", "keyshift.engines.spark needs PySpark: pip install '.[spark]' in a checkout of keyshift"):
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

from keyshift.spark_stats.acceptance import quoted
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import KeyGroups, label

NODE = "node"
_LABEL, _EXCEPTION = "__keyshift_label", "__keyshift_exception"


def route(
    df: DataFrame,
    plan: RoutingTable | Partitioner | Solution | ArrayLike,
    *,
    key: str,
    nodes: int,
    labels: Sequence[Hashable] | None = None,
    key_groups: int = 128,
    hash: str = "xxhash64",
    placement: str = "ranges",
) -> DataFrame:
    """Add a column `node`: the node that each row goes to under a plan.

    A key's *home* is the node of its key group, as in `keyshift.spark_stats`: ``placement(hash(key) % key_groups)``.

    ====================  ==========================================================================================
    plan                  node of a row
    ====================  ==========================================================================================
    `RoutingTable`        the table's node if the key has an entry, else its home: equal to `RoutingTable.lookup`
    `Solution`            of mixed routing: its table; of any problem on key groups: its assignment
    array of int          of shape (key_groups,): the node of the key's group
    `Partitioner`         its decisions, row by row; each Spark partition has its own copy and is one source
    ====================  ==========================================================================================

    All but the last are native columns: a join with a broadcast table, or a look-up in a literal. A partitioner runs in
    Python on Arrow batches, and needs keyshift on the workers.

    Parameters
    ----------
    df : DataFrame
    plan : RoutingTable, Partitioner, Solution or array_like
    key : str
        The column of keys. A null has no entry in any table and goes to the home node of null.
    nodes : int
        Number of nodes.
    labels : sequence, optional
        For a table: the key at each position of the workload it is for (`workload.keys`). Default: the positions
        themselves, for keys that are whole numbers. For composite keys: their JSON text, as in
        `keyshift.spark_stats.key_groups.label`.
    key_groups, hash, placement
        As for `keyshift.spark_stats.collect` and `Stats.workload`.

    Raises
    ------
    InputError
        A column that is not there or has the name `node`; a node, key group or label that does not fit.
    """
    guards.whole("nodes", nodes, least=1, optional=False)
    for name, there in ((key, True), (NODE, False)):
        if (name in df.columns) != there:
            raise InputError(f"the DataFrame has {'no' if there else 'already a'} column {name!r}")
    groups = KeyGroups(key_groups, hash)
    if isinstance(plan, Partitioner):
        return _by_partitioner(df, plan, key, nodes)
    routed: Any = plan
    if isinstance(plan, Solution):
        table, known = table_of(plan)
        routed, labels = plan.assignment if table is None else table, known if labels is None else labels
    kind = df.schema[key].dataType
    group = groups.column(F.col(quoted(key)), kind)
    if isinstance(routed, RoutingTable):
        return _by_table(df, routed, key, nodes, labels, _node_of(group, place(placement, key_groups, nodes)))
    return df.withColumn(NODE, _node_of(group, _assignment(routed, key_groups, nodes)))


def _assignment(plan: ArrayLike, key_groups: int, nodes: int) -> np.ndarray:
    given = guards.indices("plan", plan, length=key_groups, what="node")
    if given.max(initial=0) >= nodes:
        said = f"plan[{int(np.argmax(given))}] = {given.max()} is not a node: they are numbered 0 to {nodes - 1}"
        raise InputError(said)
    return given


def _node_of(group: Column, node: np.ndarray) -> Column:
    """The node of a key group, looked up in a literal array."""
    return F.element_at(F.array(*(F.lit(int(i)) for i in node)), group + 1)


def _by_table(
    df: DataFrame, table: RoutingTable, key: str, nodes: int, labels: Sequence[Hashable] | None, home: Column
) -> DataFrame:
    """Join the exceptions to the rows: a left join with a broadcast table of one row a key, so rows stay as they are."""
    if table.size == 0:
        return df.withColumn(NODE, home)
    if table.nodes.max() >= nodes:
        raise InputError(f"the table names node {table.nodes.max()}: there are nodes 0 to {nodes - 1}")
    named = [name for name, _ in entries_of(table, labels)]
    kind = df.schema[key].dataType
    text = not isinstance(kind, T.IntegralType)
    if labels is None and text:
        raise InputError(f"column {key!r} holds {kind.simpleString()}, but a table has positions only: give labels")
    wrong = next((name for name in named if isinstance(name, str) != text), None)
    if wrong is not None:
        raise InputError(f"the table's key {wrong!r} does not fit column {key!r} of type {kind.simpleString()}")
    entries = pd.DataFrame({_LABEL: named, _EXCEPTION: table.nodes.astype(np.int32)})
    named_by = T.StructField(_LABEL, T.StringType() if text else T.LongType())
    schema = T.StructType([named_by, T.StructField(_EXCEPTION, T.IntegerType())])
    exceptions = F.broadcast(df.sparkSession.createDataFrame(entries, schema))
    labelled = df.withColumn(_LABEL, label(F.col(quoted(key)), kind)).withColumn(NODE, home)
    joined = labelled.join(exceptions, _LABEL, "left")
    node = F.coalesce(F.col(_EXCEPTION), F.col(NODE))
    return joined.select(*(F.col(quoted(name)) for name in df.columns), node.alias(NODE))


def _by_partitioner(df: DataFrame, partitioner: Partitioner, key: str, nodes: int) -> DataFrame:
    if partitioner.workers != nodes:
        raise InputError(f"the partitioner has {partitioner.workers} workers, nodes = {nodes}")
    schema = T.StructType([*df.schema.fields, T.StructField(NODE, T.IntegerType())])
    return df.mapInArrow(partial(_assign, partitioner=partitioner, key=key), schema)


def _assign(batches: Iterable[pa.RecordBatch], partitioner: Partitioner, key: str) -> Iterator[pa.RecordBatch]:
    """On a worker: add the column `node` to one task's batches, a source of its own. A null counts as an empty text, or as 0."""
    own = copy.deepcopy(partitioner)
    for batch in batches:
        column = batch.column(batch.schema.get_field_index(key))
        filled = column.fill_null("" if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) else 0)
        keys = filled.to_numpy(zero_copy_only=False)
        node = np.asarray(own.feed(keys), dtype=np.int32) if keys.size else np.zeros(0, dtype=np.int32)
        yield batch.append_column(NODE, pa.array(node, pa.int32()))


def partition_by_node(df: DataFrame, nodes: int, *, node: str = NODE) -> DataFrame:
    """Shuffle rows so that the rows of node i are Spark's partition i, as the plan says.

    Spark places a row by ``pmod(hash(columns), nodes)``. For each node this finds a number whose hash is that node, and
    partitions the rows by that number.
    """
    numbers = _numbers(df.sparkSession, nodes)
    salt = F.element_at(F.array(*(F.lit(number) for number in numbers)), F.col(quoted(node)) + 1)
    column = "__keyshift_salt"
    return df.withColumn(column, salt).repartition(nodes, column).drop(column)


def _numbers(spark: SparkSession, nodes: int) -> list[int]:
    """For each node the first whole number that Spark's hash partitioning sends to it."""
    tried = max(64, 40 * nodes)
    rows = spark.range(tried).select("id", F.pmod(F.hash(F.col("id").cast("int")), F.lit(nodes)).alias("to"))
    first = rows.groupBy("to").agg(F.min("id").alias("id")).toPandas().set_index("to")["id"]
    missing = [i for i in range(nodes) if i not in first.index]
    if missing:
        raise InputError(f"no number below {tried} falls on node {missing[0]}: too many nodes")
    return [int(first[i]) for i in range(nodes)]


@in_one_sentence()
def read_state(checkpoint: str, *, spark: SparkSession | None = None, operator: int = 0) -> pd.DataFrame:
    """Read the sizes of a streaming query's state, partition by partition, from its checkpoint.

    Parameters
    ----------
    checkpoint : str
        The query's checkpoint location.
    spark : SparkSession, optional
        Default: the active one.
    operator : int, default 0
        Number of the stateful operator in the query.

    Returns
    -------
    pandas.DataFrame
        partition, rows, bytes: number of keys, and the bytes of keys and values as JSON, to compare
        partitions (the store packs them in another way). Every partition that holds a key.
    """
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise InputError("no Spark session is active: give one")
    store = session.read.format("statestore").option("operatorId", operator).load(checkpoint)
    size = F.octet_length(F.to_json(F.struct("key", "value")))
    grouped = store.groupBy(F.col("partition_id").alias("partition"))
    found = grouped.agg(F.count(F.lit(1)).alias("rows"), F.sum(size).alias("bytes")).toPandas()
    return found.sort_values("partition", ignore_index=True)
