"""Which devices a claim gets on a node."""
