"""Stream engines: read a cluster, write a plan. One module an engine, loaded when it is imported by name. Begin with kafka.py."""
