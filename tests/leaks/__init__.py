"""Memory: nothing leaks, and an operation that runs out of it changes nothing."""
