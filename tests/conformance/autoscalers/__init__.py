"""Loops of autoscalers."""
