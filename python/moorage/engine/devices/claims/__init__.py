"""The claims of pods: what is cached, in flight and written."""
