"""Hostile instances of every problem, and what is true of them by an oracle that shares no code with the library.

A module for each problem draws instances (`draw`), builds the library's problem from one (`build`) and knows the truth
about it (`Truth`): plain Python, exact fractions, every assignment tried, written from the problems' docstrings alone.
``python -m hostile --help`` runs them at scale, with `tests` on the path; `make hostile` does.
"""
