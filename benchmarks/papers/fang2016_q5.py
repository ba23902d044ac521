"""[Fang2016], figure 16: TPC-H's query Q5 over a window that slides, on relations drawn here and counted by Spark."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keyshift as ks
from keyshift.generators.routing import ZipfStream, consistent_hash
from keyshift.papers.fang2016_queues import NODES, planned, split
from keyshift.papers.page import Page
from keyshift.spark_stats import Operator, Topology, collect, local_session

WINDOW, QUARTER, HOUR = 300, 900, 3600
"""Seconds of a window, between two changes of the frequencies, and in all; as in the paper."""
SKEW, ASIA = 0.8, 2
JOINS = ("customers", "orders", "suppliers")
CASES = {"mixed, 0.02": ("mixed", 0.02), "mixed, 0.2": ("mixed", 0.2), "readj, 0.02": ("readj", 0.02)}
Q5 = Topology(
    [
        Operator("customers", key="custkey", filter="kind = 'order'", cost="1.1"),
        Operator("orders", key="orderkey", cost="if(kind = 'line' and met, 2.1, 2.0)"),
        Operator("suppliers", key="suppkey", filter="kind = 'line' and met", cost="1.1"),
        Operator("revenue", key="nation", filter="kind = 'line' and met and nation = c_nation and region = 2"),
    ],
    [("customers", "orders"), ("orders", "suppliers"), ("suppliers", "revenue")],
)
"""Each join has workers of its own: to store or to look up costs a unit, a match a tenth. Customers and suppliers are held already; an order and
a line meet where both came in the same window. `met` says so, and the columns of the joined relations are there."""


def relations(scale: float, seed: int) -> dict[str, pd.DataFrame]:
    """The relations of Q5, orders and lines at a share of TPC-H's 1 GB, and an hour's stream of these.

    Foreign keys follow Zipf's law with z = 0.8, as in the paper; every quarter of an hour those of the stream swap frequencies, with
    f = 1. Nations of customers and suppliers are uniform, five to a region; prices are uniform.
    """
    rng = np.random.default_rng(seed)
    customers, suppliers, orders, lines = 150_000, 10_000, round(scale * 1_500_000), round(scale * 6_000_000)
    share = np.arange(1.0, customers + 1) ** -SKEW
    made = {
        "customer": pd.DataFrame({"custkey": np.arange(customers), "c_nation": rng.integers(0, 25, customers)}),
        "orders": pd.DataFrame({"orderkey": np.arange(orders),
                                "custkey": rng.permutation(customers)[rng.choice(customers, orders, p=share / share.sum())]}),
        "supplier": pd.DataFrame({"suppkey": np.arange(suppliers), "nation": rng.integers(0, 25, suppliers)}),
        "nation": pd.DataFrame({"nation": np.arange(25), "region": np.arange(25) // 5}),
    }  # fmt: skip
    streams = [ZipfStream(n, NODES, SKEW, 1.0, seed=seed) for n in (orders, suppliers)]
    parts = []
    for begin in range(0, HOUR, QUARTER):
        for stream in streams if begin else ():
            stream.advance()
        of_orders, of_suppliers = (stream.load / stream.load.sum() for stream in streams)
        for kind, count in (("order", orders // 4), ("line", lines // 4)):
            line = kind == "line"
            parts.append(pd.DataFrame({
                "at": begin + rng.integers(0, QUARTER, count), "kind": kind, "orderkey": rng.choice(orders, count, p=of_orders),
                "suppkey": rng.choice(suppliers, count, p=of_suppliers) if line else -1,
                "price": np.round(rng.uniform(900, 105_000, count), 2) * (1 - rng.integers(0, 11, count) / 100) if line else 0.0,
            }))  # fmt: skip
    return made | {"stream": pd.concat(parts, ignore_index=True)}


def joined(spark: SparkSession, made: Mapping[str, pd.DataFrame]) -> DataFrame:
    """The stream with what its rows are joined with, and whether a line met its order."""
    of = {name: spark.createDataFrame(frame) for name, frame in made.items()}
    rows = of["stream"].withColumn("window", F.floor(F.col("at") / WINDOW))
    seen = rows.where("kind = 'order'").select("window", "orderkey").distinct().withColumn("met", F.lit(True))
    rows = rows.join(seen, ["window", "orderkey"], "left").fillna(False, ["met"])
    rows = rows.join(of["orders"], "orderkey").join(of["customer"], "custkey")
    return rows.join(of["supplier"].join(of["nation"], "nation"), "suppkey", "left")


def recount(made: Mapping[str, pd.DataFrame]) -> pd.Series:
    """Q5's answer by pandas alone: the revenue of each nation of Asia."""
    rows = made["stream"].assign(window=made["stream"]["at"] // WINDOW)
    seen = rows.loc[rows["kind"] == "order", ["window", "orderkey"]].drop_duplicates()
    lines = (
        rows[rows["kind"] == "line"].merge(seen).merge(made["orders"]).merge(made["customer"]).merge(made["supplier"])
    )
    lines = lines[(lines["nation"] == lines["c_nation"]) & (lines["nation"] // 5 == ASIA)]
    return lines.groupby("nation")["price"].sum()


def counted(made: Mapping[str, pd.DataFrame]) -> tuple[dict[str, pd.DataFrame], pd.Series]:
    """By operator a row for each window and key with its load and tuples; and Q5's answer in Spark."""
    with local_session("q5") as spark:
        rows = joined(spark, made).persist()
        answer = rows.where(Q5.operators[-1].filter).groupBy("nation").agg(F.sum("price").alias("revenue")).toPandas()
        with collect(rows, Q5, time="timestamp_seconds(at)", window=f"{WINDOW} seconds") as stats:
            assert not stats.rejected_counts()
            found = {name: stats.keys(name).by_window.toPandas() for name in JOINS}
        rows.unpersist()
    return found, answer.set_index("nation")["revenue"].sort_index()


def followed(
    load: np.ndarray, state: np.ndarray, home: np.ndarray, method: str, theta: float
) -> tuple[np.ndarray, float]:
    """Loads of the nodes in every window, under a table planned from the window before; and state moved, in windows' worth."""
    at, loads, moved = home, [], 0.0
    for now, kept in zip(load, state, strict=True):
        loads.append(np.bincount(at, now, NODES))
        if method != "hash":
            w = ks.Workload(load=now, state=kept, current=at, home=home, nodes=NODES)
            then = planned(ks.MixedRouting(w, theta_max=theta, max_table_size=3_000), method)
            moved, at = moved + kept[then != at].sum() / kept.sum(), then
    return np.array(loads), moved


def q5(page: Page) -> None:
    """[Fang2016], Figure 16: Q5 of TPC-H as a continuous query, frequencies changing every quarter of an hour.

    Orders and lines are a twentieth of the paper's, customers and suppliers all; drawn here, joined and counted by Spark in windows of
    five minutes. A table is planned from one window and holds in the next. Three joins in a chain, ten workers each: a join that is behind
    holds up the others, so that the chain lets through what its fullest worker does; *sustained* is that, in percent of an even spread
    of the work that whole keys need. With PKG customers and suppliers are held by both workers of a key, and orders and lines are
    looked up on both (Figure 2(b)).
    """
    made = relations(0.005 if page.quick else 0.05, seed=4 + page.seed)
    frames, answer = counted(made)
    off = float((answer - recount(made)).abs().max() / answer.max())
    moved, nodes, even = dict.fromkeys((*CASES, "hash", "pkg"), 0.0), {}, {}
    for name, frame in frames.items():
        keys = frame["key"].to_numpy()
        shape = (HOUR // WINDOW, keys.max() + 1)
        load, tuples = (np.zeros(shape) for _ in range(2))
        for values, column in ((load, "load"), (tuples, "tuples")):
            values[frame["window"] - frame["window"].min(), keys] = frame[column]
        home, even[name] = consistent_hash(np.arange(shape[1]), NODES), load.sum(axis=1) / NODES
        for case, (method, theta) in {**CASES, "hash": ("hash", 0.0)}.items():
            nodes[case, name], state = followed(load, tuples, home, method, theta)
            moved[case] += state / len(JOINS)
        nodes["pkg", name] = split(load, tuples, broadcast=name == "orders")
    rows, table, changed = [], [], np.arange(HOUR // WINDOW) % (QUARTER // WINDOW) == 0
    for case, state in moved.items():
        through = np.array([100 * even[name] / nodes[case, name].max(axis=1) for name in JOINS])
        chain = through.min(axis=0)
        rows += [{"minute": 5 * t, "table": case, "sustained, %": value} for t, value in enumerate(chain)]
        table.append({"table": case, "sustained, %": chain.mean(), "where frequencies changed, %": chain[changed].mean(),
                      "elsewhere, %": chain[~changed].mean(), "narrowest": JOINS[int(through.mean(axis=1).argmin())],
                      "work over whole keys'": sum(nodes[case, n].sum() for n in JOINS) / sum(NODES * even[n].sum() for n in JOINS),
                      "state moved a window, %": 100 * state / len(chain), "answer off, %": 100 * off})  # fmt: skip
    page.table(table, "q5")
    page.draw("q5", "As Figure 16 of [Fang2016]: Q5, changes every 15 minutes.",
              {"frame": pd.DataFrame(rows), "x": "minute", "y": "sustained, %", "by": "table"}, size=(5.5, 3.8))  # fmt: skip
