"""Key splitting measured: Table II and figures 4 to 9 of [Nasir2015] on our streams, and the optimum beside them.

    python benchmarks/key_splitting.py [--quick] [--only PART ...] --out DIR

Where a study has the flow optimum, every run of an online scheme is compared with it; the script fails if a run is below it.
Throughput and latency are simulated in latency.py. In the figures, an imbalance of 1e-8 stands for none.
"""

from __future__ import annotations

from page import run

from keyshift.papers.nasir2015 import choices, estimates, skew, sources, table_2, theorem

if __name__ == "__main__":
    run("key_splitting", "Key splitting", __doc__, (table_2, estimates, skew, choices, sources, theorem))
