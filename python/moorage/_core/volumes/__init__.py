"""What pods need of nodes for their volumes, and the volumes in use."""
