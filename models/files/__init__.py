"""Files on disk: workloads, statistics, and streams of either, read with care and written whole."""
