"""What claims for devices find, and what would help them."""
