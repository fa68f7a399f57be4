"""Scheduling policies of the literature, as plugins."""

from .policy_registry import policies as policies
