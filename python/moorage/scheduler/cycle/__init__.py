"""One scheduling cycle: engines, what they answer, and its diagnosis."""
