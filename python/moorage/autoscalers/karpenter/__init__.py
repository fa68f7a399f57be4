"""Karpenter: which nodes come for pods that wait, and which go."""
