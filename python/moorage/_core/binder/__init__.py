"""What the binder's cache and its stores keep."""
