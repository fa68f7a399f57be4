"""Placing pods: batches, templates, preemption, and binding cycles."""
