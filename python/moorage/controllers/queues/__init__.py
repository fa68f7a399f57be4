"""Kueue among the controllers."""
