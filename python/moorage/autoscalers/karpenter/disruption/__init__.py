"""Which nodes go: those that are empty, that drifted, or whose pods cost less elsewhere."""
