"""The code of kube-scheduler beside moorage, on scenarios that are bred from the vectors; needs Go."""
