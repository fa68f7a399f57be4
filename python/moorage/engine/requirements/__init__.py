"""What a pod asks for, as constraints that can be dropped and requests that can be lowered."""
