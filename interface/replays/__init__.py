"""Replay: the adaptation loop over a stream of workloads. Begin with adaptation.py, which holds `keyshift.replay`."""
