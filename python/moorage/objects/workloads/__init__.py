"""Pods of workloads: expansion by their templates, ownership, names."""
