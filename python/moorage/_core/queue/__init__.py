"""The scheduling queue: where each waiting pod is, and the pods in flight."""
