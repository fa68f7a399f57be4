"""What plugins are called with and return."""
