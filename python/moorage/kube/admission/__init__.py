"""What an API server admits: the rules for whole objects, with all of their fields."""
