"""What the API server refuses of new and changed objects, beside the rules of single fields."""
