"""Fast algorithms for minimum-cost load balancing [Guo2018]: ELB and CLB, and hashing. Begin with clb.py, which has both."""
