"""What tests need of the inside of cluster."""

from moorage.changes.drain import reason_to_stay as reason_to_stay
from moorage.changes.drain import with_cordon as with_cordon
from moorage.changes.requested_resources import ResourceRequest as ResourceRequest
from moorage.changes.restarts import restarted as restarted
from moorage.changes.suspended_workloads import still_suspended as still_suspended
