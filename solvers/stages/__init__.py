"""Priorities, stage by stage: begin with lexicographic.py, which asks exact.py or search.py for each later stage."""
