"""Patches of stored objects."""
