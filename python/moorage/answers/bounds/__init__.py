"""What can be placed at most: linear programs, and the process that solves them."""
