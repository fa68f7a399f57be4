"""HTTP extenders: configuration, transport and wire format. The search with extenders is the scheduler's."""
