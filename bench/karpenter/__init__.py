"""Beside Karpenter's own code."""
