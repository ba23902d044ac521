"""A known sequence of migrations: sweeps over all partitions, and two changes at once without them."""
