"""Values of partitions that are sums over their intervals: bounds and policies beyond enumeration. Begin with dual.py."""
