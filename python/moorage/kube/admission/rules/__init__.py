"""What the API server wants of the fields of objects, by struct."""
