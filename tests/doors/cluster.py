"""What tests need of the inside of cluster."""

# Why a pod stays, for each kind of pod; and a cordon, for changes that are tried.
from moorage.changes.drain import reason_to_stay as reason_to_stay
from moorage.changes.drain import with_cordon as with_cordon

# Requests as values, before a rollout.
from moorage.changes.requested_resources import ResourceRequest as ResourceRequest

# A restart of one object, and which Jobs are suspended still.
from moorage.changes.restarts import restarted as restarted
from moorage.changes.suspended_workloads import still_suspended as still_suspended
