"""What the controllers of a cluster do, simulated."""
