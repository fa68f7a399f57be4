"""Caches of nodes and pods of a scheduler."""

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
