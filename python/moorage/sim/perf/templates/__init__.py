"""Go templates, as scheduler_perf's object files use them."""
