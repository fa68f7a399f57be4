"""cluster-autoscaler: which groups of nodes grow and shrink."""
