"""How a profile runs the plugins of each extension point."""
