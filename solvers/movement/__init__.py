"""Least movement within load limits, by its declarative statements: all in statement.py."""
