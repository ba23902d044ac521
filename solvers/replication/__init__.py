"""Methods for replicas of hot key groups. Begin with statement.py."""
