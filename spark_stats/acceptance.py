"""What happens to one tuple: its window, its key group at every operator, and why an operator refuses it.

Nothing is dropped in silence: a tuple that cannot be used carries a number, `refused`, that says why, through the same
aggregation as the statistics. Nought: accepted wherever a filter lets it pass. Below nought: the whole row is unusable
(`ROW_REASONS`). Above: ``sum over operators o of reason[o] * 9**o`` (`OPERATOR_REASONS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.errors import InputError
from keyshift.spark_stats import exact_sums
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.topology import Operator, Topology
from keyshift.spark_stats.windows import Windows

ROW_REASONS = ("malformed row", "no time", "late")
OPERATOR_REASONS = (
    "null key",
    "null cost",
    "cost not finite",
    "negative cost",
    "null state",
    "state not finite",
    "negative state",
    "bytes not usable",
)
BASE = len(OPERATOR_REASONS) + 1


@dataclass(frozen=True)
class Measure:
    """One number per tuple that is added up: the cost, the state or the bytes of an operator."""

    operator: int
    name: str
    limbs: int
    """0: the number is 1 for every tuple, so that counting is enough; 1: whole; 2: see `exact_sums`."""

    def column(self, limb: int) -> str:
        """Name of a column that holds one of its whole numbers."""
        return f"{self.name}_{self.operator}_{limb}"

    @property
    def columns(self) -> list[str]:
        """Names of all its columns."""
        return [self.column(limb) for limb in range(self.limbs)]


@dataclass(frozen=True)
class Tuples:
    """The log with one column `window`, one `refused`, and for every operator `group_<o>` and its measures.

    `group_<o>` is null where the tuple does not pass operator o.
    """

    frame: DataFrame
    measures: dict[tuple[int, str], Measure]


def read_tuples(
    events: DataFrame, topology: Topology, time: str | None, windows: Windows, key_groups: KeyGroups
) -> Tuples:
    """Evaluate the topology's expressions on every row of the log.

    Raises
    ------
    InputError
        When an expression does not fit the log's columns or has the wrong type; no job has started then.
    """
    corrupt = F.col("_corrupt_record").isNotNull() if "_corrupt_record" in events.columns else F.lit(False)
    instant = None if time is None else _expression(events, "time", time, ("timestamp",))
    columns: dict[str, Column] = {"window": windows.index(instant)}
    reasons: list[Column] = []
    measures: dict[tuple[int, str], Measure] = {}
    row_reason = F.when(corrupt, -1).when(columns["window"].isNull(), -2)
    for o, operator in enumerate(topology.operators):
        found, own = _operator_columns(events, o, operator, key_groups, row_reason.isNull())
        reasons.append(found.pop("reason"))
        columns |= found
        measures |= {(o, measure.name): measure for measure in own}
    operators = reduce(add, (reason.cast("long") * F.lit(BASE**o) for o, reason in enumerate(reasons)))
    columns["refused"] = F.coalesce(row_reason.cast("long"), operators)
    return Tuples(events.select(*(column.alias(name) for name, column in columns.items())), measures)


def _operator_columns(
    events: DataFrame, o: int, operator: Operator, key_groups: KeyGroups, usable: Column
) -> tuple[dict[str, Column], list[Measure]]:
    """Return `reason`, `group_<o>` and the measures' columns of one operator."""
    what = f"operator {operator.name!r}"
    key = _expression(events, f"{what}: key", operator.key, None)
    passes = usable
    if operator.filter is not None:
        passes = passes & F.coalesce(
            _expression(events, f"{what}: filter", operator.filter, ("boolean",)), F.lit(False)
        )
    reason = F.when(~passes, 0).when(key.isNull(), 1)
    values: dict[Measure, list[Column]] = {}
    for name, text, first in (("cost", operator.cost, 2), ("state", operator.state, 5), ("bytes", operator.bytes, 8)):
        if text is None:
            continue
        if text.strip() == "1":
            values[Measure(o, name, 0)] = []
            continue
        value, whole = _number(events, f"{what}: {name}", text)
        bad = _complaints(value, whole)
        if name == "bytes":
            reason = reason.when(reduce(lambda a, b: a | b, bad), first)
        else:
            for offset, complaint in enumerate(bad):
                reason = reason.when(complaint, first + offset)
        values[Measure(o, name, 1 if whole else 2)] = exact_sums.split(value, whole=whole)
    reason = reason.otherwise(0)
    accepted = passes & (reason == 0)
    columns = {
        "reason": reason,
        f"group_{o}": F.when(accepted, key_groups.column(key, events.select(key).schema[0].dataType)),
    }
    for measure, limbs in values.items():
        columns |= {measure.column(i): F.when(accepted, limb) for i, limb in enumerate(limbs)}
    return columns, list(values)


def _complaints(value: Column, whole: bool) -> list[Column]:
    """Null, not finite (or beyond what can be added up), negative."""
    if whole:
        return [value.isNull(), F.lit(False), value < 0]
    return [value.isNull(), F.isnan(value) | (F.abs(value) > exact_sums.LARGEST), value < 0]


def _number(events: DataFrame, what: str, text: str) -> tuple[Column, bool]:
    """Return the expression as a long or a double, and whether it is whole."""
    column = _expression(events, what, text, None)
    kind = events.select(column).schema[0].dataType
    if isinstance(kind, T.IntegralType):
        return column.cast("long"), True
    if isinstance(kind, T.NumericType):
        return column.cast("double"), False
    raise InputError(f"{what} = {text!r} is of type {kind.simpleString()}, not a number")


def _expression(events: DataFrame, what: str, text: str, types: tuple[str, ...] | None) -> Column:
    """Parse and analyse one SQL expression over the log, before any job starts."""
    try:
        column = F.expr(text)
        kind = events.select(column).schema[0].dataType.simpleString()
    except (AnalysisException, ParseException) as error:
        raise InputError(f"{what} = {text!r} cannot be read: {first_line(error)}") from None
    if types is None or kind in types:
        return column
    if types == ("timestamp",) and kind in ("timestamp_ntz", "date", "string", "int", "bigint", "double"):
        return column.try_cast("timestamp") if kind == "string" else column.cast("timestamp")
    raise InputError(f"{what} = {text!r} is of type {kind}, expected {' or '.join(types)}")


def first_line(error: Exception) -> str:
    """Return the first sentence of one of Spark's long messages."""
    return str(error).strip().splitlines()[0].split(" SQLSTATE:")[0]
