"""Objects from files and back: decoding, defaults, building a cluster, writing."""
