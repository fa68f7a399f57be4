"""What tests need of the inside of controllers."""

# Rounds and calls are counted.
from moorage.controllers import disruption_controller as disruption_controller
from moorage.controllers import persistent_volume as persistent_volume

# The controller of DaemonSets, in whose place its slow twin is put.
from moorage.controllers.daemon_set_controller import DaemonSetController as DaemonSetController
from moorage.controllers.persistent_volume import PersistentVolumeController as PersistentVolumeController
from moorage.controllers.persistent_volume import WorkQueue as WorkQueue
from moorage.controllers.persistent_volume import new_controller as new_controller

# The controller by itself: when it looks at anything again, and what an undo of the store does to it.
from moorage.controllers.queues.queued_pods import queued_unit as queued_unit
from moorage.controllers.resource_claim_controller import ResourceClaimController as ResourceClaimController

# The controller by itself: tables of upstream's tests, its threads, locks and metrics.
from moorage.controllers.volume_operations import Operations as Operations

# What a volume plugin is, for plugins that tests write.
from moorage.controllers.volume_plugins import InMemoryProvisioner as InMemoryProvisioner
from moorage.controllers.volume_plugins import RecyclableVolumePlugin as RecyclableVolumePlugin

# Operations and volumes in memory: tables of upstream's tests, locks, and threads that fail.
from moorage.controllers.volume_plugins import VolumeInUseError as VolumeInUseError
from moorage.controllers.volume_plugins import VolumeOptions as VolumeOptions

# Sentences about unknown provisioners, without a command.
from moorage.controllers.volume_plugins import unknown_topologies as unknown_topologies
