"""Instance types of providers, and where they are read from."""
