"""Workloads, problems, solutions, plans and periods on disk; `models/base/disk.py` is what opens them, and writes them whole."""
