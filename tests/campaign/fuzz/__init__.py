"""Fuzzing of all that reads input."""
