"""What tests need of the inside of cluster."""

# A cordon, for changes that are tried.
from moorage.changes.drain import with_cordon as with_cordon

# Requests as values, before a rollout.
from moorage.changes.requested_resources import ResourceRequest as ResourceRequest

# Which Jobs are suspended still.
from moorage.changes.suspended_workloads import still_suspended as still_suspended
