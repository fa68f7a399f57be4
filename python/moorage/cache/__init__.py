"""Caches of nodes and pods, for a scheduler and for a binder."""

from .binder.binder_cache import BinderCache as BinderCache
from .binder.binder_cache import new_binder_cache as new_binder_cache
from .binder.cache_handler import CacheHandler as CacheHandler
from .binder.cache_pod_info import CachePodInfo as CachePodInfo
from .binder.cache_pod_info import Victims as Victims
from .binder.qos_node_info import QosNodeInfo as QosNodeInfo
from .binder.qos_node_info import QosNodeInfoClone as QosNodeInfoClone
from .binder.stores import SchedulingStatus as SchedulingStatus
from .binder.stores import Store as Store
from .binder.stores import StoreName as StoreName
from .binder.stores import UnitStatus as UnitStatus
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
