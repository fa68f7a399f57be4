"""The in-tree plugins; small neighbours share a module. `registry.py` lists them all."""
