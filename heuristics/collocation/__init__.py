"""Fast algorithms for collocated allocation: ALBIC, COLA, and the balancers they are compared with."""
