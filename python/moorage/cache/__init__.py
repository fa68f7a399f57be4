"""Caches: what the engine knows of nodes and pods, for a scheduler and for a binder."""

from .binder_cache import BinderCache as BinderCache
from .binder_cache import new_binder_cache as new_binder_cache
from .cache_handler import CacheHandler as CacheHandler
from .cache_pod_info import CachePodInfo as CachePodInfo
from .cache_pod_info import Victims as Victims
from .cluster_cache import ClusterCache as ClusterCache
from .cluster_cache import Participant as Participant
from .cluster_cache import Transaction as Transaction
from .node_info import ImageStateSummary as ImageStateSummary
from .node_info import NodeInfo as NodeInfo
from .node_info import NodeInfoClone as NodeInfoClone
from .node_info import Resource as Resource
from .node_tree import NodeTree as NodeTree
from .qos_node_info import QosNodeInfo as QosNodeInfo
from .qos_node_info import QosNodeInfoClone as QosNodeInfoClone
from .scheduler_cache import SchedulerCache as SchedulerCache
from .scheduler_cache import new_scheduler_cache as new_scheduler_cache
from .snapshot import CacheDump as CacheDump
from .snapshot import Snapshot as Snapshot
from .stores import SchedulingStatus as SchedulingStatus
from .stores import Store as Store
from .stores import StoreName as StoreName
from .stores import UnitStatus as UnitStatus
