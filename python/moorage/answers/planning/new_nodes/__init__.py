"""How many new nodes pods need."""
