"""Caches of nodes and pods of a scheduler."""

from moorage._core.base.sets import PortSets as PortSets
from moorage._core.base.sets import TaintSets as TaintSets
from moorage._core.state.node_table import NodeTable as NodeTable
from moorage._core.state.node_table import TableColumns as TableColumns

from .node_info import CacheDump as CacheDump
from .node_info import ImageStateSummary as ImageStateSummary
from .node_info import NodeInfo as NodeInfo
from .node_info import NodeInfoClone as NodeInfoClone
from .node_info import Resource as Resource
from .node_info import Snapshot as Snapshot
from .scheduler_cache import ClusterCache as ClusterCache
from .scheduler_cache import Participant as Participant
from .scheduler_cache import SchedulerCache as SchedulerCache
from .scheduler_cache import Transaction as Transaction
from .scheduler_cache import new_scheduler_cache as new_scheduler_cache
