"""Validation of objects, with the texts of the API server."""
