"""What every floor builds on: compiled kernels, checks of values, names and labels, figures, files on disk.

Begin with guards.py.
"""
