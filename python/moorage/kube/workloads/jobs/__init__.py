"""What the Job controller decides (kubernetes v1.36, pkg/controller/job)."""
