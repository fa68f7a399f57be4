"""Which volumes are in use on which node, attach limits and migration."""
