"""What tests need of the inside of cluster."""

# Texts of amounts, resource by resource.
from moorage.cluster.amounts import compared as compared
from moorage.cluster.amounts import offered as offered
from moorage.cluster.amounts import readable as readable

# How many threads bind pods.
from moorage.cluster.cluster_setup import THREADS as THREADS

# Which controller of volumes options ask for.
from moorage.cluster.cluster_setup import ClusterOptions as ClusterOptions

# Who binds claims, without a scheduler.
from moorage.cluster.cluster_setup import ExternalController as ExternalController
from moorage.cluster.cluster_setup import SimulatedController as SimulatedController
from moorage.cluster.cluster_setup import threads_for as threads_for

# The clock of a cluster's own store.
from moorage.cluster.cluster_setup import time_of as time_of
from moorage.cluster.cluster_setup import volume_controller as volume_controller

# How many pods may be tried for offers, of which there can be too many.
from moorage.cluster.played_changes import PlayedChanges as PlayedChanges

# How a request is lowered: where, by how much, and that the rest of the pod stays.
from moorage.cluster.requirements import drop_request as drop_request
from moorage.cluster.requirements import effective_request as effective_request

# A selector is taken apart as conflicts need it; a pod tolerates one more taint.
from moorage.cluster.requirements import finer_constraints as finer_constraints
from moorage.cluster.requirements import lower as lower

# Constraints are dropped one by one, to see that the changes of an explanation are all there are.
from moorage.cluster.requirements import term_constraints as term_constraints

# Each verb of a change, for pages that know them.
from moorage.cluster.verbs import BY_NAME as BY_NAME

# Changes in the format of records of a control plane.
from moorage.cluster.verbs import RequestedChange as RequestedChange

# Requests as values, before a rollout.
from moorage.cluster.workload_changes import ResourceRequest as ResourceRequest

# Which Jobs are suspended still.
from moorage.cluster.workload_changes import still_suspended as still_suspended
