"""Preemption: importance, budgets, dry runs, the preemptor."""
