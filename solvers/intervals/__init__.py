"""Exact and relaxed answers to interval migration.

Begin with ssm.py, one step: the band dynamic program and bounds at any size; printed.py is the paper as printed and repaired. A
known sequence of steps and a transition matrix have a folder each, sequence and policy; potentials bounds policies beyond
enumeration. partitions.py enumerates all partitions and finds the best partner of each; owners.py says which node takes which
interval; statement.py runs the declarative statements of step and sequence.
"""
