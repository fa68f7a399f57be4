"""Text of an expression to its tree."""
