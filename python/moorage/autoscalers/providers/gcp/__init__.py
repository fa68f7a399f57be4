"""Machine types of Google Cloud."""
