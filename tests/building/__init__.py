"""How the compiled core is built."""
