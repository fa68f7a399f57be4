"""Runs over a cluster and its changes: the outcome of each pod, the gate, comparisons."""
