"""Key-group allocation over several windows: begin with rounds.py, the phases that "milp" takes there."""
