"""One local search for all that places key groups on nodes.

Begin with program.py, what a search reads and keeps in step; lowering.py makes it from a problem, annealing.py and the
formulations' own folders say how it is cooled. A move is a function of moves.py; terms.py says what a step changes;
second_moments.py has the move and the term for squares over many windows.
"""
