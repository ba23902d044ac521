"""Reading one tuple: its window, its key group at every operator, and why an operator refuses it.

Nothing is dropped in silence: a tuple that cannot be used carries a number, `refused`, that says why, through the same
aggregation as the statistics. Zero: accepted wherever a filter lets it pass. Below zero: the whole row is unusable
(`ROW_REASONS`). Above: ``sum over operators o of reason[o] * 9**o`` (`OPERATOR_REASONS`); in Spark one column holds the
reasons of 19 operators, as much as 64 bits do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, or_
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.errors import InputError
from keyshift.spark_stats.expressions import attributes_of, check_analysed, check_order, check_parsed, check_text
from keyshift.spark_stats.failures import first_line, quiet
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.statistics_files import HIGH, LOW
from keyshift.spark_stats.topology import Operator, Topology
from keyshift.spark_stats.windows import Windows

CORRUPT = "_corrupt_record"
"""The column in which Spark's readers leave a row that they cannot parse."""

LATEST = 100_000_000_000
"""Largest number that is taken for seconds since 1970: the year 5138. Milliseconds of 1973 and later lie above it."""

LARGEST = 2.0**43
"""Largest cost or state of one tuple: with it 1,024 tuples still fit a 64-bit sum; an overflow stops the job."""

LATE, BEYOND, OUTSIDE = -3, -4, -5
"""The numbers in `refused` of a row that arrived too late, of one whose time is not a number of seconds, and of one whose time is
left out."""
NOWHERE = (-1, -2, BEYOND, OUTSIDE)
"""The numbers of rows that have no window."""

PER_NUMBER = 19
"""Operators whose reasons to refuse a tuple are packed in one 64-bit number: 9 ** 19 < 2 ** 63."""

SECONDS = r"^\s*[-+]?[0-9]+([.][0-9]*)?([eE][-+]?[0-9]+)?\s*$"
NOT_NUMBERS = r"[xXpP]|[0-9][.]?[dDfF]\s*$"
"""Texts that are numbers in Java alone: ``12d``, ``0x1p3``."""

AS_WRITTEN: dict[str, Any] = {"keyshift": "as written"}
"""The metadata of a column of texts whose types are not known: of CSV without a schema. Only such texts are read as numbers."""

ROW_REASONS = (
    "malformed row",
    "no time",
    "late",
    "time not in seconds (if milliseconds: timestamp_millis)",
    "before since, or not before until",
)
OPERATOR_REASONS = (
    "null key",
    "null cost",
    f"cost infinite or above {LARGEST:.15g}",
    "negative cost",
    "null state",
    f"state infinite or above {LARGEST:.15g}",
    "negative state",
    "bytes not usable",
)
BASE = len(OPERATOR_REASONS) + 1


Measures = dict[tuple[int, str], tuple[str, ...]]
"""By operator, and "cost", "state" or "bytes": the columns that hold the whole numbers of what is added up. Without any, it is 1
for every tuple, so that counting is enough; one: it is whole; two: see `split`. The same expressions share their columns."""


@dataclass(frozen=True)
class Tuples:
    """The log with columns `window`, `refused` (and `refused_1`, ...), `group_<o>` for every operator o, and the measures'.

    `group_<o>` is -1 where the tuple does not pass operator o. Behind those of the operators come those of the senders' keys that
    edges name; -1 where nothing is sent.
    """

    frame: DataFrame
    measures: Measures


def read_tuples(
    events: DataFrame,
    topology: Topology,
    time: str | None,
    windows: Windows,
    key_groups: KeyGroups,
    closed_until: int | None = None,
    keep: Sequence[str] = (),
    of: str | None = None,
) -> Tuples:
    """Evaluate the topology's expressions on every row of the log, or of the log `of` where there are more.

    A row is late when its window ends at or before `closed_until` (microseconds since 1970). Columns to `keep` stay.

    Raises
    ------
    InputError
        When an expression does not fit the log's columns or has the wrong type; no job has started then.
    """
    if of is None and topology.logs:
        raise InputError(f"the operators read more than one log: give one for each of {', '.join(topology.logs)}")
    corrupt = F.col(CORRUPT).isNotNull() if CORRUPT in events.columns else F.lit(False)
    log = Log(events, topology.trust)
    instant, beyond = (None, F.lit(False)) if time is None else log.instant(time)
    outside = F.lit(False) if instant is None else F.coalesce(~windows.inside(instant), F.lit(False))
    columns: dict[str, Column] = {"window": F.when(~outside, windows.index(instant))}
    reasons: list[Column] = []
    measures: Measures = {}
    values: dict[str, _Value] = {}
    row_reason = F.when(corrupt, -1).when(beyond, BEYOND).when(outside, OUTSIDE)
    row_reason = row_reason.when(columns["window"].isNull(), -2)
    if closed_until is not None:
        row_reason = row_reason.when(windows.end(columns["window"]) <= closed_until, LATE)
    for o, operator in enumerate(topology.operators):
        if operator.log != of:
            reasons.append(F.lit(0))
            columns[f"group_{o}"] = F.lit(-1)
            continue
        reason, group = _accept(log, operator, key_groups, row_reason.isNull(), values)
        reasons.append(reason)
        columns[f"group_{o}"] = group
        for name in ("cost", "state", "bytes"):
            text = getattr(operator, name)
            if text is not None:
                measures[o, name] = () if _is_one(text) else tuple(values[text][1])
    for at, (edge, text) in enumerate(topology.senders, start=len(reasons)):
        source, destination = topology.numbered_edges[edge]
        columns[f"group_{at}"] = F.lit(-1)
        if topology.operators[destination].log == of:
            what, size = topology.sender_of(edge), topology.operators[source].bytes
            key = log.column(what, text)
            log.refuse_other_type(what, text, topology.operators[source].key)
            sent = row_reason.isNull() & key.isNotNull() & (columns[f"group_{destination}"] >= 0)
            if size in values:
                bad, reason = reduce(or_, values[size][0]), reasons[source]
                reasons[source] = F.when((reason == 0) & sent & bad, len(OPERATOR_REASONS)).otherwise(reason)
                sent = sent & ~bad
            columns[f"group_{at}"] = F.when(sent, key_groups.column(key, log.kind(text))).otherwise(-1)
    columns |= dict(item for _, own in values.values() for item in own.items())
    for start, name in zip(range(0, len(reasons), PER_NUMBER), code_columns(len(reasons)), strict=True):
        part = enumerate(reasons[start : start + PER_NUMBER])
        columns[name] = reduce(add, (reason.cast("long") * F.lit(BASE**o) for o, reason in part))
    columns["refused"] = F.coalesce(row_reason.cast("long"), columns["refused"])
    columns["window"] = F.coalesce(columns["window"], F.lit(0))
    frame = events.select(*keep, *(column.alias(name) for name, column in columns.items()))
    return Tuples(frame, measures)


def read_all(
    events: DataFrame | Mapping[str, DataFrame],
    topology: Topology,
    time: str | None,
    windows: Windows,
    key_groups: KeyGroups,
) -> Tuples:
    """The tuples of one log, or of more, each for the operators that name it."""
    if not isinstance(events, Mapping):
        return read_tuples(events, topology, time, windows, key_groups)
    if set(events) != set(topology.logs):
        said = f"the logs are {', '.join(events)}; the operators read {', '.join(topology.logs) or 'one log'}"
        raise InputError(said)
    parts = [read_tuples(events[name], topology, time, windows, key_groups, of=name) for name in topology.logs]
    whole = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), (part.frame for part in parts))
    measures = reduce(or_, (part.measures for part in parts))
    whole = whole.fillna(0, [name for name in whole.columns if name.startswith("value")])
    return Tuples(whole, measures)


_Value = tuple[list[Column], dict[str, Column]]
"""A cost, state or bytes expression: what is wrong with it, and the columns that hold it."""


def _accept(
    log: Log, operator: Operator, key_groups: KeyGroups, usable: Column, values: dict[str, _Value]
) -> tuple[Column, Column]:
    """Return one operator's reason to refuse a tuple (0: none) and its key group (-1: the tuple does not pass)."""
    what = f"operator {operator.name!r}"
    key = log.column(f"{what}: key", operator.key)
    passes = usable
    if operator.filter is not None:
        holds = log.boolean(f"{what}: filter", operator.filter)
        passes = passes & F.coalesce(holds, F.lit(False))
    reason = F.when(~passes, 0).when(key.isNull(), 1)
    for name, text, first in (("cost", operator.cost, 2), ("state", operator.state, 5), ("bytes", operator.bytes, 8)):
        if text is None or _is_one(text):
            continue
        if text not in values:
            values[text] = _value(log, f"{what}: {name}", text, f"{operator.log or ''}_{len(values)}")
        bad = values[text][0]
        if name == "bytes":
            bad = [reduce(or_, bad)]
        for offset, complaint in enumerate(bad):
            reason = reason.when(complaint, first + offset)
    reason = reason.otherwise(0)
    kind = log.kind(operator.key)
    return reason, F.when(passes & (reason == 0), key_groups.column(key, kind)).otherwise(-1)


def _value(log: Log, what: str, text: str, number: str) -> _Value:
    value, whole = log.number(what, text)
    # Null, not finite (or beyond what can be added up), negative.
    endless = F.lit(False) if whole else F.isnan(value) | (F.abs(value) > LARGEST)
    complaints = [value.isNull(), endless, value < 0]
    fine = ~reduce(or_, complaints)
    limbs = split(value, whole=whole)
    columns = {f"value{number}_{i}": F.when(fine, limb).otherwise(0) for i, limb in enumerate(limbs)}
    return complaints, columns


def _is_one(text: str) -> bool:
    return text.strip() == "1"


class Log:
    """Reads Spark SQL over the columns of one log: parsed, checked and analysed before any job starts.

    Parameters
    ----------
    frame : DataFrame
    trust : bool
        Take any expression; else see `keyshift.spark_stats.expressions`.
    """

    def __init__(self, frame: DataFrame, trust: bool = False) -> None:
        self.frame, self.trust = frame, trust
        self._known: dict[str, tuple[Column, T.DataType]] = {}
        self._as_written = any(field.metadata == AS_WRITTEN for field in frame.schema)

    def column(self, what: str, text: str) -> Column:
        """Return the expression as a column; `what` is it for the message if it is refused."""
        if text not in self._known:
            if not self.trust:
                check_text(what, text)
            try:
                with quiet():
                    self._known[text] = self._analysed(what, text)
            except PySparkException as error:
                texts = self._as_written and "DATATYPE_MISMATCH" in str(error)
                hint = "; the columns are texts: give a schema, or cast them" if texts else self._awkward(text)
                raise InputError(f"{what} = {text!r} cannot be read: {first_line(error)}{hint}") from None
        return self._known[text][0]

    def _awkward(self, text: str) -> str:
        """How to write the columns that an expression names, and whose names are more than a word."""
        plain = re.compile(r"[^\W\d]\w*")
        found = [f"`{name}`" for name in self.frame.columns if name in text and not plain.fullmatch(name)]
        return f"; in backticks such a name is a column's: {', '.join(found)}" if found else ""

    def kind(self, text: str) -> T.DataType:
        """Return the type of an expression that has been read."""
        return self._known[text][1]

    def refuse_other_type(self, what: str, text: str, key: str) -> None:
        """Refuse a sender's key that is of another type than its operator's: its hash would be another."""
        kinds = [self.kind(known).simpleString() for known in (text, key)]
        if kinds[0] != kinds[1]:
            raise InputError(f"{what} = {text!r} is of type {kinds[0]}, the operator's key of type {kinds[1]}: cast it")

    def boolean(self, what: str, text: str) -> Column:
        """Return a condition."""
        column, kind = self.column(what, text), self.kind(text)
        if not isinstance(kind, T.BooleanType):
            raise InputError(f"{what} = {text!r} is of type {kind.simpleString()}, expected boolean")
        return column

    def number(self, what: str, text: str) -> tuple[Column, bool]:
        """Return a number as a long or a double, and whether it is whole."""
        column, kind = self.column(what, text), self.kind(text)
        if isinstance(kind, T.IntegralType):
            return column.cast("long"), True
        if isinstance(kind, T.NumericType):
            return column.cast("double"), False
        if isinstance(kind, T.StringType) and self._as_written:
            return F.when(~column.rlike(NOT_NUMBERS), column.try_cast("double")), False
        raise InputError(f"{what} = {text!r} is of type {kind.simpleString()}, not a number")

    def instant(self, text: str) -> tuple[Column, Column]:
        """Return the time of a row as a timestamp, and whether it is a number too large for seconds since 1970."""
        column, kind = self.column("time", text), self.kind(text).simpleString()
        if kind in ("timestamp", "timestamp_ntz", "date"):
            return column.cast("timestamp"), F.lit(False)
        if kind == "string":  # seconds, where it is a number: 2024 is no year
            seconds = F.when(column.rlike(SECONDS), column.try_cast("double"))
            beyond = F.coalesce(F.abs(seconds) >= LATEST, F.lit(False))
            clock = F.when(seconds.isNull(), column.try_cast("timestamp"))
            return F.coalesce(clock, F.when(~beyond, seconds).cast("timestamp")), beyond
        if kind in ("int", "bigint", "double"):
            return F.when(F.abs(column) < LATEST, column).cast("timestamp"), F.abs(column) >= LATEST
        raise InputError(f"time = {text!r} is of type {kind}, expected timestamp")

    def _refuse_missing(self, what: str, text: str, names: Iterable[Sequence[str]]) -> None:
        """Refuse a column that the log has not, also where Spark has something else of that name, such as the user's."""
        known = {name.lower() for name in (*self.frame.columns, "_metadata")}
        for parts in names:
            if parts[0].lower() not in known and (not self.trust or len(parts) == 1):
                said = ", ".join(name for name in self.frame.columns if name != CORRUPT) or "none"
                raise InputError(
                    f"{what} = {text!r}: the log has no column {parts[0]!r}; its columns are {said}{self._awkward(text)}"
                )

    def _analysed(self, what: str, text: str) -> tuple[Column, T.DataType]:
        """Parse and analyse; a classic session only, since `keyshift.spark_stats.session` refuses others."""
        session: Any = self.frame.sparkSession
        parsed = session._jsparkSession.sessionState().sqlParser().parseExpression(text)
        self._refuse_missing(what, text, attributes_of(parsed))
        if not self.trust:
            check_parsed(what, text, parsed)
        column = F.expr(text)
        chosen: Any = self.frame.select(column)
        if not self.trust:
            check_analysed(what, text, chosen._jdf.queryExecution().analyzed())
        if self._as_written:
            check_order(what, text, chosen._jdf.queryExecution().analyzed(), AS_WRITTEN)
        return column, chosen.schema[0].dataType


def whole_code(codes: Iterable[int]) -> int:
    """Put the numbers of 19 operators each together."""
    return sum(int(code) * BASE ** (PER_NUMBER * i) for i, code in enumerate(codes))


def reasons_of(code: int, topology: Topology) -> list[tuple[str | None, str]]:
    """Return (operator, kind) for each reason packed in a `refused` number."""
    if code < 0:
        return [(None, ROW_REASONS[-code - 1])]
    found: list[tuple[str | None, str]] = []
    for name in topology.names:
        code, reason = divmod(code, BASE)
        if reason:
            found.append((name, OPERATOR_REASONS[reason - 1]))
    return found


def counts_by_kind(codes: Iterable[tuple[int, int]], topology: Topology) -> dict[str, int]:
    """Rows by kind; a row counts once for a kind, however many operators refused it."""
    counts: Counter[str] = Counter()
    for code, rows in codes:
        counts.update(dict.fromkeys((kind for _, kind in reasons_of(code, topology)), rows))
    return counts


def code_columns(operators: int) -> list[str]:
    """Names of the columns that say why a tuple is refused, by so many operators."""
    return ["refused", *(f"refused_{i}" for i in range(1, -(-operators // PER_NUMBER)))]


def quoted(name: str) -> str:
    """The name of a column as Spark reads it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


# Sums that do not depend on the order in which Spark adds. A double is rounded to a multiple of 2**-44 (6e-14) and split in two
# whole numbers, ``x = high / 2**10 + low / 2**44`` with ``|low| <= 2**33``. Whole numbers add up exactly in any order, so that
# the same log gives the same bytes on any number of executors, in one batch or in many. Whole costs are not rounded at all.


def split(value: Column, *, whole: bool) -> list[Column]:
    """Return the whole numbers that stand for a value: one if it is whole, else the high and the low one."""
    if whole:
        return [value.cast("long")]
    high = F.rint(value * HIGH)
    return [high.cast("long"), F.rint((value - high / HIGH) * LOW).cast("long")]


def joined(sums: list[Column]) -> Column:
    """Return the sum as a double, from the sums of the whole numbers."""
    if len(sums) == 1:
        return sums[0].cast("double")
    return sums[0].cast("double") / HIGH + sums[1].cast("double") / LOW


def three(sums: list[Column]) -> tuple[Column, Column, Column]:
    """Return (whole, high, low), so that whole and fractional sums fit one table."""
    nothing = F.lit(0).cast("long")
    return (sums[0], nothing, nothing) if len(sums) == 1 else (nothing, sums[0], sums[1])
