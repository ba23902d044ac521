"""Figures. Every function takes answers or tables and draws with Matplotlib, which loads when the first is drawn.

Begin with
comparison.py.
"""
