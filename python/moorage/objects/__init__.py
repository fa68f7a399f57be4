"""Kubernetes objects: structs, quantities, selectors, reading, defaults and validation."""
