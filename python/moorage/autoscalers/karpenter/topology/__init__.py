"""Pods counted by domain: spread, affinity, anti-affinity."""
