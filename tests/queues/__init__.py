"""Queues of Kueue."""
