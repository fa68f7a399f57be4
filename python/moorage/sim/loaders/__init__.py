"""Loaders: read traces into timelines, row by row."""
