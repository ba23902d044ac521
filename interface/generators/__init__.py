"""The instances one can draw: every paper's generator of synthetic streams, each with its sources and its seed.

Begin with allocation.py.
"""
