"""Decisions: plans, search, candidates, choice, the cycle, and native plugins."""
