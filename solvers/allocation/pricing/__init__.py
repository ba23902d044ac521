"""Prices for sending and taking key groups: a lower bound by column generation, and branch and price upon it.

Begin with bound.py.
"""
