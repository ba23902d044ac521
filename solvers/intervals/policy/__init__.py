"""Policies for uncertain node counts: policy iteration, restricted and small policies, the saved policy."""
