"""The scheduler cache: what the engine knows of nodes and pods."""

from .node_info import ImageStateSummary as ImageStateSummary
from .node_info import NodeInfo as NodeInfo
from .node_info import NodeInfoClone as NodeInfoClone
from .node_info import Resource as Resource
from .node_tree import NodeTree as NodeTree
from .scheduler_cache import Participant as Participant
from .scheduler_cache import SchedulerCache as SchedulerCache
from .scheduler_cache import Transaction as Transaction
from .scheduler_cache import new_scheduler_cache as new_scheduler_cache
from .snapshot import CacheDump as CacheDump
from .snapshot import Snapshot as Snapshot
