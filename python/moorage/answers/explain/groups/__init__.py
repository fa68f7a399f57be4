"""Explanations of pod groups."""
