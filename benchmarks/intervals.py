"""Figures 12 to 15 and 17 of [Ding2015] on word-count loads and hourly flights, and the sizes that are reached.

    python benchmarks/intervals.py [--quick] [--only PART ...] --out DIR

Loads and states: the words of `count_1w.txt` hashed to m tasks, the load of a task the count of its words, its state their number; without
the file a flattened Zipf law of 100,000 words. The hash is the first under which every count from 8 to 16 nodes is feasible at tau = 0.2.
Node counts: hourly departures of 2013 scaled to 8..16; the transition matrix counts the real changes of January to November, the 100
consecutive migrations are the first of December. Costs are mean shares of all the state; gamma = 0.8; CPU times of one thread.
"""

from __future__ import annotations

from page import run

from keyshift.papers.ding2015 import by_gamma, by_tasks, by_tau, known_sequences, sizes

if __name__ == "__main__":
    run("intervals", "Interval migration", __doc__, (by_tau, by_tasks, by_gamma, known_sequences, sizes))
