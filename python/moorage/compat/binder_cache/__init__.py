"""BinderCache: the cache of a binder, which validates and binds the proposals of several schedulers."""

from .binder_cache import BinderCache as BinderCache
from .binder_cache import new_binder_cache as new_binder_cache
from .cache_handler import CacheHandler as CacheHandler
from .cache_pod_info import CachePodInfo as CachePodInfo
from .cache_pod_info import Victims as Victims
from .qos_node_info import QosNodeInfo as QosNodeInfo
from .qos_node_info import QosNodeInfoClone as QosNodeInfoClone
from .stores import SchedulingStatus as SchedulingStatus
from .stores import Store as Store
from .stores import StoreName as StoreName
from .stores import UnitStatus as UnitStatus
