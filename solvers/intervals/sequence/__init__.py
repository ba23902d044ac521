"""A known sequence of migrations: oms.py sweeps over all partitions, restricted.py over some of them."""
