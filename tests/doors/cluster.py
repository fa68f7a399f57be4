"""What tests need of the inside of cluster."""

# Limits are lowered, a clock is replaced, and what must not be made is counted or refused.
from moorage.cluster import pod_scheduler as scheduler

# A cordon, for changes that are tried.
from moorage.cluster.changes.drain import with_cordon as with_cordon

# Requests as values, before a rollout.
from moorage.cluster.changes.requested_resources import ResourceRequest as ResourceRequest

# Which Jobs are suspended still.
from moorage.cluster.changes.suspended_workloads import still_suspended as still_suspended

# Which controller of volumes options ask for.
from moorage.cluster.cluster_options import ClusterOptions as ClusterOptions

# How many classes of pods are kept.
from moorage.cluster.pod_scheduler import FEW_CLASSES as FEW_CLASSES

# Who binds claims, without a scheduler.
from moorage.cluster.volume_controllers import ExternalController as ExternalController
from moorage.cluster.volume_controllers import SimulatedController as SimulatedController
from moorage.cluster.volume_controllers import volume_controller as volume_controller

# Two names of the room are the same.
__all__ = ["scheduler"]
