"""What a cluster-autoscaler is told: its flags, and its node groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from moorage.kube import Node, Pod
from moorage.kube.model.resource_slices import ResourceSlice

T = TypeVar("T")
VERSION = "1.36.1"
"""Of the cluster-autoscaler that decides alike."""
EXPANDERS = ("random", "most-pods", "least-waste", "least-nodes", "price", "priority")
GPUS = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")


class PodPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Prices per hour of a cpu and of a GiB of memory that pods request, for the expander price."""

    cpu: float = 0.033174
    memory: float = 0.004446


@dataclass(frozen=True)
class Flags:
    """The flags, with the defaults of 1.36; times in seconds, memory in bytes, 0 totals for no limit.

    Attributes
    ----------
    expanders : tuple of str
        Of `EXPANDERS`; each decides among what the one before has left.
    cloud_provider : str
        Which compares groups; "" for the one that the nodes show.
    max_scale_down_parallelism, max_drain_parallelism : int
        Nodes that are deleted at once; those among them that have pods to be moved.
    """

    expanders: tuple[str, ...] = ("least-waste",)
    priorities: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    pod_prices: PodPrices = field(default_factory=PodPrices)
    expendable_pods_priority_cutoff: int = -10
    new_pod_scale_up_delay: float = 0.0
    bypassed_schedulers: tuple[str, ...] = ()
    max_nodes_total: int = 0
    max_nodes_per_scale_up: int = 1000
    max_cores: int | None = None
    max_memory: int | None = None
    min_cores: int = 0
    min_memory: int = 0
    cloud_provider: str = ""
    balance_similar_node_groups: bool = False
    balancing_ignore_labels: tuple[str, ...] = ()
    balancing_labels: tuple[str, ...] = ()
    force_ds: bool = False
    scale_from_unschedulable: bool = False
    startup_taints: tuple[str, ...] = ()
    status_taints: tuple[str, ...] = ()
    fastpath_binpacking: bool = False
    scale_up_simulation_for_skipped_node_groups: bool = False
    ok_total_unready_count: int = 3
    max_total_unready_percentage: float = 45.0
    max_node_startup_time: float = 900.0
    max_node_provision_time: float = 900.0
    scale_down_enabled: bool = True
    scale_down_unready_enabled: bool = True
    scale_down_utilization_threshold: float = 0.5
    scale_down_gpu_utilization_threshold: float = 0.5
    scale_down_unneeded_time: float = 600.0
    scale_down_unready_time: float = 1200.0
    scale_down_delay_after_add: float = 600.0
    scale_down_delay_after_delete: float = 0.0
    unremovable_node_recheck_timeout: float = 300.0
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    ignore_daemon_sets_utilization: bool = False
    ignore_mirror_pods_utilization: bool = False
    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True
    min_replica_count: int = 0
    blocking_system_pod_disruption_timeout: float = 3600.0


class Instance(Struct, frozen=True):
    """A machine of the cloud that is no node yet; `error` says that it could not be created."""

    id: str
    error: str = ""


@dataclass(frozen=True)
class ScaledGroup:
    """A group of equal nodes.

    Attributes
    ----------
    target : int or None
        The size that was asked for; None for the number of nodes and instances.
    template : Node or None
        What the provider says of a new node, for groups without a good node.
    template_pods, template_slices : tuple
        Pods and ResourceSlices of such a node.
    price : float or None
        Of a node per hour.
    requested : (int, float) or None
        Nodes of a scale-up that is under way, and how many seconds ago it began.
    overrides : mapping of str to value
        Of `Flags`, for this group.
    zero_or_max : bool
        Whether the group has no node or all of them.
    fails : bool
        Whether the provider refuses to add nodes.
    """

    name: str
    template: Node | None = None
    min_size: int = 0
    max_size: int = 1000
    target: int | None = None
    price: float | None = None
    template_pods: tuple[Pod, ...] = ()
    template_slices: tuple[ResourceSlice, ...] = ()
    instances: tuple[Instance, ...] = ()
    requested: tuple[int, float] | None = None
    overrides: Mapping[str, float | bool] = field(default_factory=dict)
    zero_or_max: bool = False
    fails: bool = False

    def flags(self, flags: Flags) -> Flags:
        """Return the flags that hold for this group."""
        changed: dict[str, Any] = dict(self.overrides)
        return replace(flags, **changed) if changed else flags


class PlacementHints(Struct):
    """On which node pods were placed last, by UID, in this loop and in the one before."""

    current: dict[str, str] = msgspec.field(default_factory=dict)
    old: dict[str, str] = msgspec.field(default_factory=dict)

    def get(self, uid: str) -> str | None:
        """Return the node of a pod."""
        return self.current.get(uid) or self.old.get(uid)

    def set(self, uid: str, node: str) -> None:
        """Note the node of a pod."""
        self.current[uid] = node

    def end_loop(self) -> None:
        """Forget what was last noted in the loop before this one."""
        self.old, self.current = self.current, {}


class ScaleUpRequest(Struct):
    """Nodes that were asked for and are awaited."""

    nodes: int
    time: float


class NodeFacts:
    """What loops have found of nodes, with the objects of which it follows: it holds as long as these are the
    same. What a loop does not ask for is forgotten."""

    def __init__(self) -> None:
        self._flags: Flags | None = None
        self._before: dict[Hashable, tuple[tuple[object, ...], Any]] = {}
        self._now: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

    def begin_loop(self, flags: Flags) -> None:
        """Keep what the loop before has asked for, if it had these flags."""
        self._before = self._now if flags == self._flags else {}
        self._flags, self._now = flags, {}

    def kept(self, question: Hashable, parts: tuple[object, ...], find: Callable[[], T]) -> T:
        """Return what follows of parts, and of the flags: what was found before, or finds now."""
        known = self._before.get(question)
        if known is None or known[0] != parts:
            known = parts, find()
        self._now[question] = known
        value: T = known[1]
        return value

    def __deepcopy__(self, _: object) -> NodeFacts:
        """Return one without facts: they follow of objects that it may not see."""
        return NodeFacts()


class Memory(Struct):
    """What is remembered from one loop to the next.

    Attributes
    ----------
    targets : dict of str to int
        Size that was asked for, by group.
    backoffs : dict of str to (float, float)
        Until when a group is left alone after a failure, and for how long that was.
    unneeded : dict of str to float
        Since when nodes are unneeded.
    recheck : dict of str to float
        Until when nodes that could not be removed are not looked at.
    hints, move_hints : PlacementHints
        Of pods that wait, and of those that are moved.
    last_hit : int
        Index of the node that took a pod last; a search begins behind it.
    """

    targets: dict[str, int] = msgspec.field(default_factory=dict)
    requests: dict[str, ScaleUpRequest] = msgspec.field(default_factory=dict)
    backoffs: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    failed_instances: set[str] = msgspec.field(default_factory=set)
    templates: dict[str, Any] = msgspec.field(default_factory=dict)
    unneeded: dict[str, float] = msgspec.field(default_factory=dict)
    recheck: dict[str, float] = msgspec.field(default_factory=dict)
    hints: PlacementHints = msgspec.field(default_factory=PlacementHints)
    move_hints: PlacementHints = msgspec.field(default_factory=PlacementHints)
    last_hit: int = 0
    added: float = -math.inf
    deleted: float = -math.inf
    latest: float = -math.inf
    interval: float = math.inf
    facts: NodeFacts = msgspec.field(default_factory=NodeFacts)
