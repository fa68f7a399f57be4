"""Objects as the API server stores them, in all of their fields."""
