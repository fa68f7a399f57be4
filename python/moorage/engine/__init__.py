"""What places pods, and what builders embed: each part is a package with its own door."""
