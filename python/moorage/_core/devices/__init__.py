"""Devices of claims, and GPU shares."""
