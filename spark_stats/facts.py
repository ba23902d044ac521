"""One pass over the log: the facts from which every statistic follows.

An edge needs the number of tuples for each pair of key groups, which already tells the load and the state of its two
operators. So the topology is covered by *carriers*: its edges, and the operators that no edge touches. Each tuple is
counted once for every carrier, in one aggregation with one shuffle; load and state are then sums over the rows that
result.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyshift.spark_stats.acceptance import Measure, Tuples
from keyshift.spark_stats.topology import Topology


@dataclass(frozen=True)
class Carrier:
    """An edge, or an operator without one. `owned` lists the operators whose load and state it tells."""

    number: int
    sides: tuple[int, ...]
    owned: tuple[int, ...]

    @property
    def is_edge(self) -> bool:
        """Whether this carrier counts pairs."""
        return len(self.sides) == 2


@dataclass(frozen=True)
class Facts:
    """Columns: window, refused, carrier, source, destination, tuples, and the sums of the owned measures.

    `source` and `destination` are key groups, null where the tuple does not pass that side; a carrier of one operator
    has no destination. `refused` is nought except on carrier 0, which sees every tuple. Each side's measures are in
    columns named by `side_columns`.
    """

    frame: DataFrame
    carriers: tuple[Carrier, ...]
    measures: dict[tuple[int, str], Measure]


def carriers_of(topology: Topology) -> tuple[Carrier, ...]:
    """Cover the topology: every edge, then every operator that has none; each operator is owned once."""
    owned: set[int] = set()
    made: list[Carrier] = []
    alone = [o for o in range(len(topology.operators)) if not any(o in edge for edge in topology.numbered_edges)]
    for sides in [*topology.numbered_edges, *((o,) for o in alone)]:
        fresh = tuple(o for o in sides if o not in owned)
        owned.update(fresh)
        made.append(Carrier(len(made), sides, fresh))
    return tuple(made)


def gather(tuples: Tuples, topology: Topology) -> Facts:
    """Aggregate the tuples into facts: one scan, one shuffle."""
    carriers = carriers_of(topology)
    sums = _sum_names(carriers, tuples)
    rows = [_carrier_row(carrier, tuples, sums) for carrier in carriers]
    if len(rows) == 1:
        spread = tuples.frame.select(*(column.alias(name) for name, column in rows[0].items()))
    else:
        structs = [F.struct(*(column.alias(name) for name, column in row.items())) for row in rows]
        useless = F.col("source").isNull() & F.col("destination").isNull() & (F.col("carrier") != 0)
        spread = tuples.frame.select(F.inline(F.array(*structs))).where(~useless)
    keys = ["window", "refused", "carrier", "source", "destination"]
    totals = [F.sum(name).alias(name) for name in sums]
    return Facts(spread.groupBy(*keys).agg(F.count(F.lit(1)).alias("tuples"), *totals), carriers, tuples.measures)


def side_columns(measure: Measure, side: int) -> list[str]:
    """Names of the columns that hold a measure of a carrier's first (0) or second (1) side."""
    return [f"{measure.name}_{'source' if side == 0 else 'destination'}_{limb}" for limb in range(measure.limbs)]


def carried(carrier: Carrier, measures: dict[tuple[int, str], Measure]) -> list[tuple[int, Measure]]:
    """List (side, measure) that a carrier adds up: cost and state of owned operators, bytes along an edge."""
    found = []
    for side, o in enumerate(carrier.sides):
        names = ["cost", "state"] if o in carrier.owned else []
        if carrier.is_edge and side == 0:
            names.append("bytes")
        found += [(side, measures[o, name]) for name in names if (o, name) in measures]
    return found


def _sum_names(carriers: tuple[Carrier, ...], tuples: Tuples) -> list[str]:
    names = {name for c in carriers for side, m in carried(c, tuples.measures) for name in side_columns(m, side)}
    return sorted(names)


def _carrier_row(carrier: Carrier, tuples: Tuples, sums: list[str]) -> dict[str, Column]:
    """Return the columns that one tuple contributes to one carrier."""
    nothing = F.lit(None).cast("int")
    row: dict[str, Column] = {
        "window": F.col("window"),
        "refused": F.col("refused") if carrier.number == 0 else F.lit(0).cast("long"),
        "carrier": F.lit(carrier.number),
        "source": F.col(f"group_{carrier.sides[0]}"),
        "destination": F.col(f"group_{carrier.sides[1]}") if carrier.is_edge else nothing,
    }
    filled: dict[str, Column] = {}
    for side, measure in carried(carrier, tuples.measures):
        for name, column in zip(side_columns(measure, side), measure.columns, strict=True):
            filled[name] = F.col(column)
    return row | {name: filled.get(name, F.lit(None).cast("long")) for name in sums}
