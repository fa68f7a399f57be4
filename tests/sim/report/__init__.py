"""Reports of replays and sweeps."""
