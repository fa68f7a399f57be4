"""Admission policies: what they match, their expressions, and what they say of a request."""
