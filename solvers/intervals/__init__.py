"""Exact and relaxed answers to interval migration, a folder for each problem: step, sequence, policy.

partitions.py enumerates all partitions and finds the best partner of each; owners.py says which node takes which interval;
metric_bounds.py bounds instances of any size; statement.py runs the declarative statements of step and sequence.
"""
