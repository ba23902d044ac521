"""What keyshift gathers from a log, as tests compare it."""

from __future__ import annotations

from keyshift.spark_stats import Operator, Topology, collect, collect_keys


def keyed(frame, key, **options):
    """Tuples by key, as the text or number that it is."""
    rows = collect_keys(frame, Topology([Operator("o", key=key)]), **options).frame.select("key", "tuples").collect()
    return {row["key"]: row["tuples"] for row in rows}


def stats_of(frame, time=None, window=None, since=None, until=None, trust=False, **operator):
    """Loads of one operator by window, and what is refused."""
    topology = Topology([Operator("o", **{"key": "'all'", **operator})], trust=trust)
    with collect(frame, topology, time=time, window=window, since=since, until=until, key_groups=2) as stats:
        loads = stats.load.groupBy("window_start").agg({"load": "sum"}).orderBy("window_start").collect()
        return [row["sum(load)"] for row in loads], stats.rejected_counts()
