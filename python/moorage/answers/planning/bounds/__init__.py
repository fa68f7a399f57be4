"""How much can be placed at most: the relaxation of a placement, and its linear program."""
