"""Fast algorithms for minimum-cost load balancing [Guo2018]: ELB and CLB, and hashing. Both are in clb.py."""
