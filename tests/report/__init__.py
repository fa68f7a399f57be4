"""Reports: pages and pictures."""
