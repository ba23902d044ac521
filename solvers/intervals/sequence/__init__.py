"""A known sequence of migrations: oms.py sweeps over all partitions, and does two changes without them."""
