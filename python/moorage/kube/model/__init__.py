"""Kubernetes objects as structs."""
