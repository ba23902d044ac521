"""The published fast algorithms. This floor imports models, and solvers where an algorithm calls one."""
