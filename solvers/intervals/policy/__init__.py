"""Policies for uncertain node counts. Begin with mtm.py, policy iteration (policy_iteration.py) with a certified interval.

potentials.py answers beyond enumeration, with a proven bound; restricted.py looks ahead over some partitions only; statement.py
(a linear program) and value_iteration.py write all costs out, for small policies; saved_policy.py is computed once and
asked in microseconds.
"""
