"""Informers, indexers and listers over a store."""
