"""What several schedulers over one cluster need: `binder_cache`."""
