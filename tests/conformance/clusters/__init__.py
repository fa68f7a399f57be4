"""Records of a real control plane: which pods exist after a change."""
