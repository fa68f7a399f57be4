"""Applies manifests to objects that exist, as kubectl apply does, and refuses what the API server refuses."""
