"""Volumes in use on nodes, attach limits, and migration to CSI."""
