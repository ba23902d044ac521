"""Workloads, problems, solutions and plans on disk. Begin with workload.py; `models/base/disk.py` opens files and writes them."""
