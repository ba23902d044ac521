"""Policies for uncertain node counts. Begin with mtm.py, policy iteration (policy_iteration.py) with a certified interval.

potentials.py answers beyond enumeration, with a proven bound, or looks ahead over some partitions only; written_out.py
(a linear program, value iteration) writes all costs out, for small policies; saved_policy.py is computed once and asked in
microseconds.
"""
