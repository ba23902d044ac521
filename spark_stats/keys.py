"""Statistics of single keys: for mixed routing and key splitting, with millions of them.

Keys stay in Spark. What comes to the driver - the hottest keys, the compact records - is limited in rows, and asking
for more is an error that names the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyshift.models import arrays
from keyshift.models.errors import InputError
from keyshift.models.files.statistics import DRIVER_ROWS
from keyshift.models.placement import placement as place
from keyshift.models.routing import hlhe_step
from keyshift.spark_stats import discretisation, exact_sums
from keyshift.spark_stats.acceptance import read_tuples
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.statistics import rows_of
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows

if TYPE_CHECKING:
    import pandas as pd

for shipped in (discretisation, hlhe_step):
    cloudpickle.register_pickle_by_value(shipped)
_KEY = "__keyshift_key"


@dataclass(frozen=True)
class Keys:
    """Load and state of every key of one operator, in one window.

    Attributes
    ----------
    frame : DataFrame
        key, key_group, tuples, load (in the window), state (what the operator's last `windows` windows add).
    """

    frame: DataFrame
    key_groups: int

    def distinct(self) -> int:
        """Number of distinct keys that hold state or came in the window."""
        return self.frame.count()

    def top(self, count: int = 20, *, max_rows: int = DRIVER_ROWS) -> pd.DataFrame:
        """Return the keys with the most load, exactly, heaviest first; ties in the order of the keys."""
        count = arrays.whole("count", count, least=1, optional=False) or 1
        if count > max_rows:
            raise InputError(f"top {count} keys are more than max_rows = {max_rows} rows")
        return self.frame.orderBy(F.desc("load"), "key").limit(count).toPandas()

    def compact(
        self, nodes: int, *, degree: int = 1, placement: str = "ranges", max_rows: int = DRIVER_ROWS
    ) -> pd.DataFrame:
        """Return the compact records (d', d, h, load, state, count) of paper 4, section IV, for planning.

        Keys on the same node with the same home, load and state are one record. Nothing has moved yet: d' = d = h.
        Load and state are discretised by HLHE with the given degree R (1: whole numbers as they are), over the whole
        operator, in Spark; see `discretised`.

        Raises
        ------
        InputError
            More records than `max_rows`: take a larger degree.
        """
        homes = F.array(*(F.lit(home) for home in place(placement, self.key_groups, nodes).tolist()))
        keyed = self.frame.select("key", F.element_at(homes, F.col("key_group") + 1).alias("home"), "load", "state")
        for name in ("load", "state"):
            keyed = discretised(keyed, name, degree)
        records = keyed.groupBy("home", "load", "state").agg(F.count(F.lit(1)).alias("count"))
        made = rows_of(records, max_rows).sort_values(["home", "load", "state"], ascending=[True, False, False])
        made.insert(0, "node", made["home"])
        made.insert(0, "planned", made["home"])
        return made.reset_index(drop=True)


def discretised(frame: DataFrame, name: str, degree: int) -> DataFrame:
    """Replace a column by its HLHE representatives; the rows pass one executor, sorted, a batch at a time."""
    if degree < 1 or degree & (degree - 1):
        raise InputError(f"the degree of discretisation R = {degree} must be a power of two")
    positive = F.when(F.col(name) > 0, F.col(name))
    unit, largest = frame.agg(F.min(positive), F.max(name)).collect()[0]
    if unit is None:
        return frame
    ordered = frame.repartition(1).sortWithinPartitions(F.desc(name), "key")
    task = partial(discretisation.discretise, name=name, degree=degree, unit=unit, largest=largest / unit)
    return ordered.mapInArrow(task, frame.schema)


def collect_keys(
    events: DataFrame,
    topology: Topology,
    operator: str,
    *,
    time: str | None = None,
    window: str | None = None,
    origin: str | None = None,
    key_groups: int = 128,
    hash: str = "xxhash64",
    number: int | None = None,
) -> Keys:
    """Gather load and state per key of one operator in one window; the parameters are those of `collect`.

    Parameters
    ----------
    operator : str
        Its name.
    number : int, optional
        Number of the window; default: the last in which it accepts a tuple.
    """
    o, windows = topology.number(operator), Windows.of(window, origin)
    described = topology.operators[o]
    groups = KeyGroups(key_groups, hash)
    read_tuples(events, topology, time, windows, groups)  # refuses what does not fit, by the log's own columns
    keyed = events.withColumn(_KEY, F.expr(described.key))
    tuples = read_tuples(keyed, topology, time, windows, groups, keep=[_KEY])
    own = tuples.frame.where(F.col(f"group_{o}") >= 0)
    if number is None:
        number = own.agg(F.max("window")).collect()[0][0]
    if number is None:
        raise InputError(f"operator {operator!r} accepts no tuple of the log")
    inside = F.col("window") == number
    recent = own.where((F.col("window") <= number) & (F.col("window") > number - described.windows))
    cost, state = (tuples.measures[o, name].columns for name in ("cost", "state"))
    per_key = recent.groupBy(F.col(_KEY).alias("key"), F.col(f"group_{o}").alias("key_group")).agg(
        F.sum(inside.cast("long")).alias("tuples"),
        exact_sums.joined([F.sum(v * inside.cast("long")) for v in _columns(cost)]).alias("load"),
        exact_sums.joined([F.sum(v) for v in _columns(state)]).alias("state"),
    )
    return Keys(per_key, key_groups)


def _columns(names: tuple[str, ...]) -> list[Column]:
    return [F.col(name) for name in names] or [F.lit(1)]
