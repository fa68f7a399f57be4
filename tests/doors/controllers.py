"""What tests need of the inside of controllers."""

from moorage.controllers.persistent_volume import ControllerParameters as ControllerParameters
from moorage.controllers.persistent_volume import InMemoryProvisioner as InMemoryProvisioner
from moorage.controllers.persistent_volume import VolumePlugin as VolumePlugin
from moorage.controllers.persistent_volume.controller import (
    PersistentVolumeController as PersistentVolumeController,
)
from moorage.controllers.persistent_volume.controller import WorkQueue as WorkQueue
from moorage.controllers.persistent_volume.controller import new_controller as new_controller
from moorage.controllers.persistent_volume.driver_topology import unknown_topologies as unknown_topologies
from moorage.controllers.persistent_volume.in_memory_plugin import InMemoryVolume as InMemoryVolume
from moorage.controllers.persistent_volume.operations import Operations as Operations
from moorage.controllers.persistent_volume.operations import Work as Work
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
from moorage.controllers.resource_claims.resource_claim_controller import (
    ResourceClaimController as ResourceClaimController,
)
from moorage.controllers.workloads import ClusterControllers as ClusterControllers
from moorage.controllers.workloads import disruption_controller as disruption_controller
from moorage.controllers.workloads.daemon_set_controller import DaemonSetController as DaemonSetController
from moorage.objects.workloads import daemon_rollout as daemon_rollout
from moorage.objects.workloads.ages import seconds as seconds
from moorage.objects.workloads.daemon_pods import node_of as node_of
from moorage.objects.workloads.daemon_pods import should_run as should_run
from moorage.objects.workloads.jobs.cron_runs import due as due
from moorage.objects.workloads.jobs.cron_runs import next_run as next_run
from moorage.objects.workloads.kinds.kind_table import RULES as RULES
from moorage.objects.workloads.missing_pods import create_daemons as create_daemons
from moorage.objects.workloads.missing_pods import daemon_spec as daemon_spec
from moorage.objects.workloads.missing_pods import written_revision as written_revision
from moorage.objects.workloads.naming import Names as Names
from moorage.objects.workloads.naming import stable_uid as stable_uid
from moorage.objects.workloads.naming import template_hash as template_hash
from moorage.objects.workloads.ownership import FINISHED as FINISHED
from moorage.objects.workloads.ownership import is_active as is_active
from moorage.objects.workloads.ownership import is_healthy as is_healthy
from moorage.objects.workloads.pod_claims import ephemeral_claims as ephemeral_claims
from moorage.objects.workloads.revisions import is_updated as is_updated
from moorage.objects.workloads.revisions import mark_of as mark_of
from moorage.objects.workloads.top_controller import Workload as Workload
from moorage.objects.workloads.top_controller import Workloads as Workloads
