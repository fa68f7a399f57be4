"""Which pods kinds of other projects make: one table, and what follows from it."""
