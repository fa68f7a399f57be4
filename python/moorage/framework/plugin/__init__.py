"""What a plugin is, is given, and answers."""
