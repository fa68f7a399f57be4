"""What tests need of the inside of cluster."""

# Which controller of volumes options ask for.
from moorage.cluster.cluster_setup import ClusterOptions as ClusterOptions

# Who binds claims, without a scheduler.
from moorage.cluster.cluster_setup import ExternalController as ExternalController
from moorage.cluster.cluster_setup import SimulatedController as SimulatedController
from moorage.cluster.cluster_setup import volume_controller as volume_controller

# A cordon, for changes that are tried.
from moorage.cluster.node_changes import with_cordon as with_cordon

# Each verb of a change, for pages that know them.
from moorage.cluster.verbs import BY_NAME as BY_NAME

# Changes in the format of records of a control plane.
from moorage.cluster.verbs import RequestedChange as RequestedChange

# Requests as values, before a rollout.
from moorage.cluster.workload_changes import ResourceRequest as ResourceRequest

# Which Jobs are suspended still.
from moorage.cluster.workload_changes import still_suspended as still_suspended
