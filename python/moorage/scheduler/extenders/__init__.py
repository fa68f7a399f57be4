"""HTTP extenders: configuration, transport, wire format, and the search with extenders."""
