"""Source distribution and wheel, as users get them."""
