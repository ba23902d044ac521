"""Policies for uncertain node counts. Begin with mtm.py, policy iteration with a certified interval.

restricted.py looks ahead over some partitions only; statement.py (a linear program) and value_iteration.py write all costs
out, for small policies; saved_policy.py is computed once and asked in microseconds.
"""
