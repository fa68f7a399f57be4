"""A module per command, which is imported when the command runs."""
