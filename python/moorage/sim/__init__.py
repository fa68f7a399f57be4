"""Simulations: synthetic clusters, benchmarks, and summaries of runs."""
