"""What is on nodes: room, use and devices, and who holds them."""
