"""Caches of nodes and pods, for a scheduler and for a binder."""

from .binder import BinderCache as BinderCache
from .binder import CacheHandler as CacheHandler
from .binder import CachePodInfo as CachePodInfo
from .binder import QosNodeInfo as QosNodeInfo
from .binder import QosNodeInfoClone as QosNodeInfoClone
from .binder import SchedulingStatus as SchedulingStatus
from .binder import Store as Store
from .binder import StoreName as StoreName
from .binder import UnitStatus as UnitStatus
from .binder import Victims as Victims
from .binder import new_binder_cache as new_binder_cache
from .cluster_cache import ClusterCache as ClusterCache
from .cluster_cache import Participant as Participant
from .cluster_cache import Transaction as Transaction
from .node_info import ImageStateSummary as ImageStateSummary
from .node_info import NodeInfo as NodeInfo
from .node_info import NodeInfoClone as NodeInfoClone
from .node_info import Resource as Resource
from .node_tree import NodeTree as NodeTree
from .scheduler_cache import SchedulerCache as SchedulerCache
from .scheduler_cache import new_scheduler_cache as new_scheduler_cache
from .snapshot import CacheDump as CacheDump
from .snapshot import Snapshot as Snapshot
