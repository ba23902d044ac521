"""Studies: many instances, many methods, one table of gaps. Begin with `study.py`; `drawing.py` draws the instances."""
