"""Nodes that are there."""
