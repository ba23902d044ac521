"""Fast algorithms for collocated allocation: ALBIC, COLA, and the balancers they are compared with.

Begin with albic.py, which is Algorithm 2 of [Madsen2016] step by step: comparisons.py finds the pairs that talk, cuts
sets of them, and hands over to the allocation program.
"""
