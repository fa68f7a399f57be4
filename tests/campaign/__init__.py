"""The campaign: long runs with a seed, whose figures docs/testing.md states."""
