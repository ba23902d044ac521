"""Solvers for transfer scheduling: bounds, an exact model, list schedules, and orders that keep limits on the way."""
