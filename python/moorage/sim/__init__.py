"""Simulations: made-up clusters, and what a run comes to."""
