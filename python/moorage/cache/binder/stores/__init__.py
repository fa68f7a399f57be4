"""The stores that a BinderCache is made of."""

from .common import Store as Store
from .common import StoreName as StoreName
from .deleted_marker_store import DeletedMarkerStore as DeletedMarkerStore
from .node_store import NodeStore as NodeStore
from .pdb_store import PdbStore as PdbStore
from .pod_store import PodStore as PodStore
from .reservation_store import ReservationStore as ReservationStore
from .unit_status_store import SchedulingStatus as SchedulingStatus
from .unit_status_store import UnitStatus as UnitStatus
from .unit_status_store import UnitStatusStore as UnitStatusStore
