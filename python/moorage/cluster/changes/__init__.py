"""Changes of a cluster: what an operator does with kubectl, written to the store of a scheduler."""
