"""Priorities, stage by stage: begin with `lexicographic` in search.py, which asks exact.py or its own search for later stages."""
