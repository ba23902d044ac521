"""A known sequence of migrations: oms.py sweeps over all partitions, two_changes.py does two changes without them."""
