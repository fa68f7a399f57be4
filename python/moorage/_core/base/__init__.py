"""Buffers, symbols, sets, the change log, selectors and quantities."""
