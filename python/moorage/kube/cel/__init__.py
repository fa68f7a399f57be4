"""CEL, the Common Expression Language, as selectors of devices use it."""
