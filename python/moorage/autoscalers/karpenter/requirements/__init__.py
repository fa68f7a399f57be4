"""Requirements on labels: algebra over sets of values."""
