"""Simulations of the cluster's controllers."""
