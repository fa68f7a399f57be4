"""Vectors of Karpenter: passes over pods, over nodes, and both in turns."""
