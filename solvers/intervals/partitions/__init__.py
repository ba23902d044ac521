"""All partitions of the tasks into intervals, and the best partner of each: shared by sequences and policies."""
