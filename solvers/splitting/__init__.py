"""Exact and relaxed answers to key splitting and key placement.

Begin with flow.py, the maximum flow whose cuts prove the least largest load; statement.py makes whole messages of it.
"""
