"""The in-tree plugins, one file each."""
