"""HTTP extenders: configuration, transport, wire format, and the search that asks them."""
