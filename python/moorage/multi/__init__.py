"""Several schedulers on one cluster with optimistic concurrency, and the binder that resolves conflicts."""

from .binder import Binder as Binder
from .binder import Outcome as Outcome
from .binder import Placement as Placement
from .partition import assign_owners as assign_owners
from .pool import Pool as Pool
from .pool import Threads as Threads
from .ray_actors import RayActors as RayActors
from .ray_actors import RayBinder as RayBinder
from .worker import BinderUpdate as BinderUpdate
from .worker import ProposedPlacements as ProposedPlacements
from .worker import Worker as Worker
from .worker import WorkerInit as WorkerInit
