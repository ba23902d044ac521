"""Least movement within load limits, by its declarative statements: begin with statement.py."""
