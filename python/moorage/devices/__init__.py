"""Devices of dynamic resource allocation: selectors, pools, the allocator, claims in use."""
