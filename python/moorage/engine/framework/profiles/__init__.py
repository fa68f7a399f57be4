"""Profiles: which plugins run where, compiled for the core or called in Python."""
