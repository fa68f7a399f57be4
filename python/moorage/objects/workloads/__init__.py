"""Expansion of workloads to pods, ownership, names."""
