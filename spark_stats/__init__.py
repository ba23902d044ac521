"""From tuples to load, state-size and traffic matrices, with PySpark. This floor imports models only."""
