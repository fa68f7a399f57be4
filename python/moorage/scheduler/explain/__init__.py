"""Explanations: why a pod fits nowhere, and the changes with which it would fit."""
