"""The framework: what plugins are, what they answer, and the profile that puts them in order."""
