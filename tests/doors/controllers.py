"""What tests need of the inside of controllers."""

# Its documented names, for the parameters of its functions.
from moorage.controllers import persistent_volume as persistent_volume

# The controller by itself: tables of upstream's tests, its threads, locks and metrics.
from moorage.controllers.persistent_volume import ControllerParameters as ControllerParameters
from moorage.controllers.persistent_volume import InMemoryProvisioner as InMemoryProvisioner
from moorage.controllers.persistent_volume import VolumePlugin as VolumePlugin
from moorage.controllers.persistent_volume.controller import (
    PersistentVolumeController as PersistentVolumeController,
)
from moorage.controllers.persistent_volume.controller import WorkQueue as WorkQueue
from moorage.controllers.persistent_volume.controller import new_controller as new_controller

# Sentences about unknown provisioners, without a command.
from moorage.controllers.persistent_volume.driver_topology import unknown_topologies as unknown_topologies

# Operations and volumes in memory: tables of upstream's tests, locks, and threads that fail.
from moorage.controllers.persistent_volume.in_memory_plugin import InMemoryVolume as InMemoryVolume
from moorage.controllers.persistent_volume.operations import Operations as Operations

# What a volume plugin is, for plugins that tests write.
from moorage.controllers.persistent_volume.volume_plugins import (
    DeletableVolumePlugin as DeletableVolumePlugin,
)
from moorage.controllers.persistent_volume.volume_plugins import (
    ProvisionableVolumePlugin as ProvisionableVolumePlugin,
)
from moorage.controllers.persistent_volume.volume_plugins import (
    RecyclableVolumePlugin as RecyclableVolumePlugin,
)
from moorage.controllers.persistent_volume.volume_plugins import RecycleEventRecorder as RecycleEventRecorder
from moorage.controllers.persistent_volume.volume_plugins import VolumeInUseError as VolumeInUseError
from moorage.controllers.persistent_volume.volume_plugins import VolumeOptions as VolumeOptions

# The controller by itself: when it looks at anything again, and what an undo of the store does to it.
from moorage.controllers.resource_claims.resource_claim_controller import (
    ResourceClaimController as ResourceClaimController,
)

# Rounds and calls are counted.
from moorage.controllers.workloads import ClusterControllers as ClusterControllers
from moorage.controllers.workloads import disruption_controller as disruption_controller

# The controller of DaemonSets, in whose place its slow twin is put.
from moorage.controllers.workloads.daemon_set_controller import DaemonSetController as DaemonSetController

# Looks at a rollout are counted: only what has changed is looked at.
from moorage.objects.workloads import daemon_rollout as daemon_rollout

# Times in seconds, for clocks and twins.
from moorage.objects.workloads.ages import seconds as seconds

# The slow twin of DaemonSets takes the rules of a single pod and node from here.
from moorage.objects.workloads.daemon_pods import node_of as node_of
from moorage.objects.workloads.daemon_pods import should_run as should_run

# Times of CronJobs, schedule by schedule.
from moorage.objects.workloads.jobs.cron_runs import due as due
from moorage.objects.workloads.jobs.cron_runs import next_run as next_run

# The table of kinds, each of which a test has to expand.
from moorage.objects.workloads.kinds.kind_table import RULES as RULES

# Rules of a single pod for the slow twin of DaemonSets.
from moorage.objects.workloads.missing_pods import create_daemons as create_daemons
from moorage.objects.workloads.missing_pods import daemon_spec as daemon_spec
from moorage.objects.workloads.missing_pods import written_revision as written_revision

# Names, UIDs and hashes, one by one.
from moorage.objects.workloads.naming import Names as Names
from moorage.objects.workloads.naming import stable_uid as stable_uid
from moorage.objects.workloads.naming import template_hash as template_hash

# Rules of a single pod for the slow twin of DaemonSets.
from moorage.objects.workloads.ownership import FINISHED as FINISHED
from moorage.objects.workloads.ownership import is_active as is_active
from moorage.objects.workloads.ownership import is_healthy as is_healthy

# Claims of a pod's own, which others would make.
from moorage.objects.workloads.pod_claims import ephemeral_claims as ephemeral_claims

# Rules of a single pod for the slow twin of DaemonSets.
from moorage.objects.workloads.revisions import is_updated as is_updated
from moorage.objects.workloads.revisions import mark_of as mark_of

# Who is at the top of the owners of a pod; and workloads of outcomes that are made by hand.
from moorage.objects.workloads.top_controller import Workload as Workload
from moorage.objects.workloads.top_controller import Workloads as Workloads
