"""Fast algorithms for collocated allocation: ALBIC, COLA, and the balancers they are compared with.

Begin with albic.py, which is Algorithm 2 of [Madsen2016] step by step: partitions.py finds the pairs that talk and cuts
sets of them, comparisons.py hands over to the allocation program.
"""
