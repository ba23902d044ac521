"""The five papers' figures, tables and numbers: a registry of all of them, and the experiments that `keyshift reproduce` runs.

The registry is `figures.yaml`; `registry.py` reads it and runs what it names. Each paper's experiments are in the module of its name.
"""
