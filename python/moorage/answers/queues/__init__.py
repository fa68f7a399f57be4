"""What is asked of queues of Kueue."""
