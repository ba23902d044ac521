"""A known sequence of migrations: begin with oms.py, which sweeps over all partitions, restricted.py over some of them."""
