"""What a cluster has seen: pods that could not be created or that kubelets refuse, conditions of objects."""
