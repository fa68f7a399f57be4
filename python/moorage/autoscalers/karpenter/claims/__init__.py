"""Claims in the making, and what they are made of."""
