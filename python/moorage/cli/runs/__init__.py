"""Runs over the cluster of a command: their outcomes, the gate, comparisons."""
