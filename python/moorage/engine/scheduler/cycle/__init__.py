"""The scheduling cycle: engines, results and diagnosis."""
