"""Decoding of configuration files as Go decodes them."""
