"""The published heuristic for replicas of hot key groups: replication, then packing. Begin with greedy.py."""
