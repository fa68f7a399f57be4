"""Questions to a twin: what a request asks becomes the arguments of a command, and its output the answer."""
