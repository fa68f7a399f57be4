"""The constraints of a pod in a cluster: by which nodes each is not met, and what would help."""
