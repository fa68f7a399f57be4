"""What becomes workloads of Kueue."""
