"""Mixed routing against the optimum: [Fang2016]'s figures 7 to 12, 15 and 17 to 21, and the gap that no paper reports.

    python benchmarks/mixed_routing.py [--quick] [--only PART ...] --out DIR

Every figure is the mean over some intervals of one seeded stream: in each, the method under test plans from where its own last plan
left the keys, except in the table of methods, where all start from the same place. *moved*, *bound*: % of all state. *above bound*:
how far the state moved lies above the best bound proven, in % (in the sweeps the linear relaxation's, elsewhere the exact method's).
*met*: intervals in which every limit was met; where not, the figures are those of the plan that missed one. *proven*: intervals with a
proven optimum. Times on a shared, busy two-core machine.
"""

from __future__ import annotations

from page import run

from keyshift.papers.fang2016 import adjustments, compact, hash_alone, methods, real_keys, scale_out, sweeps

if __name__ == "__main__":
    run("mixed-routing", "Mixed routing", __doc__, (methods, sweeps, compact, hash_alone, adjustments, scale_out, real_keys))  # fmt: skip
