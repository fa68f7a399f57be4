"""Preemption: pods of higher priority take the place of others."""
