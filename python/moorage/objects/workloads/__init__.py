"""Expansion of workloads to pods, ownership of pods, and generated names."""
