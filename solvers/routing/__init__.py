"""Exact and relaxed answers to mixed routing. Begin with lagrangian.py: its prices decide most keys, statement.py the rest."""
