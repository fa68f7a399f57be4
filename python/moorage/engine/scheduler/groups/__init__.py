"""Scheduling cycles of pod groups."""
