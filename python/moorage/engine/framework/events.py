"""Cluster events, and the queueing hints that plugins register for them.

A plugin registers events that may make a pod schedulable that it has rejected, each with a queueing hint: a
function of the objects of an event that decides whether the pod is worth another attempt. Sources:
kube-scheduler v1.36, kube-scheduler/framework/types.go, framework/types.go and framework/events.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum, IntFlag
from functools import cache, partial
from operator import attrgetter
from types import MethodType
from typing import Any, TypeVar

import msgspec

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import PodGates, pod_requests
from moorage.kube import LabelSelectorMatcher, Node, Object, Pod, Resources
from moorage.kube.releases import FeatureGates
from moorage.lazy import NamedTuple


class ActionType(IntFlag):
    """The kind of a change, as bits; a registration may combine several."""

    NONE = 0
    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_NODE_PREEMPTION_POLICY = 256
    UPDATE_POD_LABEL = 512
    UPDATE_POD_SCALE_DOWN = 1024
    UPDATE_POD_SCALE_UP = 2048
    UPDATE_POD_TOLERATION = 4096
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 8192
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 16384
    UPDATE = 32764
    ALL = 32767

    @property
    def text(self) -> str:
        """Upstream's name, for example ``UpdateNodeLabel``; "" for other combinations of bits."""
        name = self.name or ""
        return "" if "|" in name or self == ActionType.NONE else name.title().replace("_", "")


WILDCARD = "*"
POD = "Pod"
ASSIGNED_POD = "AssignedPod"
UNSCHEDULED_POD = "UnscheduledPod"
TARGET_POD = "TargetPod"
UNSCHEDULABLE_POD = "UnschedulablePod"
POD_RESOURCES = frozenset({ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD, UNSCHEDULABLE_POD})
"""The resources of events of pods, all of which a registration of `POD` covers."""
NODE = "Node"
PERSISTENT_VOLUME = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
STORAGE_CLASS = "storage.k8s.io/StorageClass"
CSI_NODE = "storage.k8s.io/CSINode"
CSI_DRIVER = "storage.k8s.io/CSIDriver"
CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
DEVICE_CLASS = "resource.k8s.io/DeviceClass"
POD_GROUP = "scheduling.k8s.io/PodGroup"
COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"


def event_resource(kind: type[Object]) -> str:
    """Return the resource name of a kind: ``Node``, ``storage.k8s.io/CSINode``.

    Returns
    -------
    str
        The name under which plugins register events.
    """
    group = kind().api_version.rpartition("/")[0]
    return f"{group}/{kind.__name__}" if group else kind.__name__


class ClusterEvent(msgspec.Struct, frozen=True):
    """A change of an object of one resource, or the changes that a plugin registers.

    Attributes
    ----------
    resource : str
        Name of the resource. Changes of pods on nodes have ``AssignedPod``. Pods without a node have
        ``UnscheduledPod``, and an update of the waiting pod itself ``TargetPod``; up to v1.36 both have
        ``UnschedulablePod`` (`PodEvents`).
    label : str
        Name in metrics and logs; by default resource and action, for example ``NodeUpdateNodeTaint``.
    """

    resource: str
    action: ActionType
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            msgspec.structs.force_setattr(self, "label", f"{self.resource}{self.action.text}")

    @property
    def is_wildcard(self) -> bool:
        """Whether the event stands for any action on any resource."""
        return self.resource == WILDCARD and self.action == ActionType.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether this registration covers an event.

        Returns
        -------
        bool
            A general Update is covered only by a registration of all updates, a wildcard only by a wildcard.
        """
        same = self.resource in (incoming.resource, WILDCARD) or (
            self.resource == POD and incoming.resource in POD_RESOURCES
        )
        ours, theirs = int(self.action), int(incoming.action)
        return same and bool(ours & theirs) and theirs <= ours


class QueueingHint(Enum):
    """The decision whether a pod is retried after an event."""

    QUEUE = "Queue"
    QUEUE_SKIP = "QueueSkip"


QUEUE, QUEUE_SKIP = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP

H = TypeVar("H", bound=Callable[..., QueueingHint])
Hint = Callable[[Pod, Any, Any], QueueingHint]
"""Called with the rejected pod, the old and the new object; one of these is None where the event adds or
deletes. An exception counts as Queue."""


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """A registration of an event; without a hint a pod is retried after each such event.

    Attributes
    ----------
    of_unit : bool
        Whether the hint is Queue only for pods of the pod group that the new object is or belongs to, and
        PreEnqueue of the plugin is the same for all pods of a group.
    """

    event: ClusterEvent
    hint: Hint | None = None
    of_unit: bool = False


def on(
    resource: str, action: ActionType, hint: Hint | None = None, *, of_unit: bool = False
) -> ClusterEventWithHint:
    """Make a registration.

    Parameters
    ----------
    hint : Hint, optional
        Decides for each event whether a pod is retried; by default it always is.
    of_unit : bool
        Whether the hint concerns one pod group only; see `ClusterEventWithHint`.
    """
    return ClusterEventWithHint(_event(resource, action), hint, of_unit)


_event = cache(ClusterEvent)


def of_class(hint: H) -> H:
    """Mark a queueing hint that gives the same answer for all pods of a class, so that one is asked for all.

    Pods of a class are equal in namespace, labels, owner and the fields of spec that kernels read (volumes
    and claims are not among them; see `moorage._core.state.pod_class`). The answer may be another one for the
    pod that the event is about. It depends neither on conditions nor on resource versions. A method that
    overrides a marked one is not marked.
    """
    hint.of_class = True  # type: ignore[attr-defined]
    return hint


Key = Hashable


class HintIndex(NamedTuple):
    """An index of the pods for which a queueing hint may return Queue.

    It does so only for events that have a key of the pod, and for the pod that the event is about.

    Attributes
    ----------
    keys : callable
        Returns the keys of a rejected pod, which stay the same as long as it waits; for a hint `of_class`,
        those of all pods of its class. None for a pod that any event may move.
    event_keys : callable
        Returns the keys of an event by its old and its new object; None for an event that may move any pod.
    """

    keys: Callable[[Pod], frozenset[Key] | None]
    event_keys: Callable[[Any, Any], Iterable[Key] | None]


def indexed(
    keys: Callable[[Any, Pod], frozenset[Key] | None],
    event_keys: Callable[[Any, Any, Any], Iterable[Key] | None],
    by_class: bool = True,
) -> Callable[[H], H]:
    """Return a decorator of a plugin's method that is a queueing hint, which gives it an index.

    Parameters
    ----------
    keys, event_keys : method
        Of the same plugin; see `HintIndex`.
    by_class : bool
        Whether the hint is `of_class`, so that its index has classes. Otherwise it has pods.
    """

    def decorate(hint: H) -> H:
        hint.index = keys, event_keys  # type: ignore[attr-defined]
        return of_class(hint) if by_class else hint

    return decorate


def of_itself(hint: H) -> H:
    """Mark a plugin's method that is a queueing hint for updates of pods: Queue concerns that pod alone."""
    return indexed(lambda plugin, pod: frozenset(), lambda plugin, old, new: ())(hint)


def index_of(hint: Hint) -> HintIndex | None:
    """Return the index of a hint, or None.

    Returns
    -------
    HintIndex or None
        Equal for the hints of a plugin that have the same index.
    """
    methods = getattr(hint, "index", None)
    return methods and HintIndex(*(MethodType(method, hint.__self__) for method in methods))  # type: ignore[attr-defined]


def pod_labels(plugin: object, old: Pod | None, new: Pod | None) -> set[Key]:
    """Return the labels of the pod of an event, before and after it.

    Parameters
    ----------
    plugin : Plugin
        Unused, so that this is the `event_keys` of any plugin.
    """
    return {label for pod in (old, new) if pod is not None for label in pod.metadata.labels.items()}


def needed_labels(selectors: Iterable[LabelSelectorMatcher]) -> frozenset[Key] | None:
    """Return labels of which a pod has at least one if one of some selectors matches it.

    Returns
    -------
    frozenset of (str, str), or None
        None where there are no such labels.
    """
    labels: set[Key] = set()
    for selector in selectors:
        if selector.identity is None:  # matches nothing
            continue
        label_values = selector.asked_values()
        if not label_values:
            return None
        key, values = label_values[0]
        labels.update((key, value) for value in values)
    return frozenset(labels)


def queue_if(worth: object) -> QueueingHint:
    """Return Queue if a condition is true, else QueueSkip."""
    return QUEUE if worth else QUEUE_SKIP


def is_live(pod: Pod) -> bool:
    """Whether a pod has a node or a nominated node."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def is_same_pod(pod: Pod, other: Pod | None) -> bool:
    """Whether two objects are states of the same pod.

    Parameters
    ----------
    other : Pod or None
        The pod of an event; None if there is none.
    """
    return other is not None and other.metadata.uid == pod.metadata.uid


# ---- events that the scheduler itself makes ----------------------------------------------------------------

NODE_ADD = ClusterEvent(NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(NODE, ActionType.DELETE)
ASSIGNED_POD_ADD = ClusterEvent(ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(ASSIGNED_POD, ActionType.DELETE)
ASSIGNED_POD_UPDATE = ClusterEvent(ASSIGNED_POD, ActionType.UPDATE)
"""A change of a pod on a node that concerns no property that scheduling reads."""
UNSCHEDULABLE_TIMEOUT = ClusterEvent(WILDCARD, ActionType.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(WILDCARD, ActionType.ALL, "ForceActivate")

_CORE = POD, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
_STORAGE = CSI_NODE, CSI_DRIVER, CSI_STORAGE_CAPACITY, STORAGE_CLASS
_DEVICES = RESOURCE_CLAIM, DEVICE_CLASS
# Registered for plugins that do not extend EnqueueExtensions.
ANY_EVENT = tuple(on(resource, ActionType.ALL) for resource in (*_CORE, *_STORAGE, *_DEVICES))

# ---- what changed ------------------------------------------------------------------------------------------

Changed = Callable[[Any, Any], bool]


def _differs(attribute: str) -> Changed:
    """Return a predicate: whether an attribute, named by its path, differs between two objects."""
    read = attrgetter(attribute)
    return lambda old, new: bool(read(old) != read(new))


_NODE_CHANGES: tuple[tuple[ActionType, Changed], ...] = (
    (ActionType.UPDATE_NODE_TAINT, lambda old, new: old.spec.unschedulable and not new.spec.unschedulable),
    (
        ActionType.UPDATE_NODE_ALLOCATABLE,
        lambda old, new: not same_amounts(old.status.allocatable, new.status.allocatable),
    ),
    (ActionType.UPDATE_NODE_LABEL, _differs("metadata.labels")),
    (ActionType.UPDATE_NODE_TAINT, _differs("spec.taints")),
    (ActionType.UPDATE_NODE_CONDITION, lambda old, new: _conditions(old) != _conditions(new)),
    (ActionType.UPDATE_NODE_ANNOTATION, _differs("metadata.annotations")),
    (ActionType.UPDATE_NODE_PREEMPTION_POLICY, _differs("spec.pod_preemption_policy")),
    (ActionType.UPDATE_NODE_DECLARED_FEATURE, _differs("status.declared_features")),
)
_POD_CHANGES: tuple[tuple[ActionType, Changed], ...] = (
    (ActionType.UPDATE_POD_LABEL, _differs("metadata.labels")),
    (
        ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        lambda old, new: bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates,
    ),
    (
        ActionType.UPDATE_POD_TOLERATION,
        lambda old, new: len(old.spec.tolerations) != len(new.spec.tolerations),
    ),
    (ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, lambda old, new: _claims(old) != _claims(new)),
)


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    """Return the events of an update of a node.

    There is one event for each changed property that scheduling may read.

    Parameters
    ----------
    old, new : Node
        The node before and after the update.

    Returns
    -------
    list of ClusterEvent
        Often empty.
    """
    return [_event(NODE, action) for action, changed in _NODE_CHANGES if changed(old, new)]


def gates_of_changes(gates: FeatureGates) -> PodGates:
    """Return how requests are counted where a pod before and after a change is compared.

    spec.resources counts in any case (kube-scheduler v1.36, framework/events.go
    extractPodResourceRequestEvents, fit.go isSchedulableAfterPodScaleDown).
    """
    return PodGates(
        pod_level_resizing=gates["InPlacePodLevelResourcesVerticalScaling"],
        resizes_by_sums=gates.release.resizes_by_sums,
    )


class PodEvents:
    """The events of pods in a release.

    Attributes
    ----------
    added, updated : ClusterEvent
        The addition of a pod without a node, and an update of one that the queue does not know.
    resources : frozenset of str
        The resources that events of pods have.
    """

    def __init__(self, gates: FeatureGates) -> None:
        name_target = gates.release.pod_events_name_target
        unassigned = UNSCHEDULED_POD if name_target else UNSCHEDULABLE_POD
        self.added = ClusterEvent(unassigned, ActionType.ADD)
        self.updated = ClusterEvent(unassigned, ActionType.UPDATE)
        self._own = TARGET_POD if name_target else UNSCHEDULABLE_POD
        self._is_exact = gates.release.quantities_saturate
        self._requests = partial(pod_requests, gates=gates_of_changes(gates))
        self._changes: list[tuple[ActionType, Changed]] = [
            _POD_CHANGES[0],
            (ActionType.UPDATE_POD_SCALE_DOWN, self._is_scaled_down),
            *([(ActionType.UPDATE_POD_SCALE_UP, self._is_scaled_up)] if name_target else []),
            *_POD_CHANGES[1:],
        ]
        self.resources = frozenset({ASSIGNED_POD, unassigned, self._own})

    def of_update(self, old: Pod, new: Pod) -> list[ClusterEvent]:
        """Return the events of an update of a pod: one for each changed property that scheduling may read.

        Parameters
        ----------
        old, new : Pod
            The pod before and after the update.

        Returns
        -------
        list of ClusterEvent
            A general update if no such property has changed.
        """
        resource = ASSIGNED_POD if new.spec.node_name else self._own
        events: list[ClusterEvent] = []
        if old is not new:
            events = [_event(resource, action) for action, changed in self._changes if changed(old, new)]
        return events or [_event(resource, ActionType.UPDATE)]

    def _is_scaled_down(self, old: Pod, new: Pod) -> bool:
        """Whether a request is lower or removed, measured by the allocated resources."""
        if (old.spec is new.spec or old.spec == new.spec) and _resizes(old) == _resizes(new):
            return False
        now = self._requests(new)
        return any(
            name not in now
            # Up to v1.37 in thousandths.
            or (now[name] < was if self._is_exact else now[name].milli_value() < was.milli_value())
            for name, was in self._requests(old).items()
        )

    def _is_scaled_up(self, old: Pod, new: Pod) -> bool:
        """Whether a request is higher or new."""
        return self._is_scaled_down(new, old)


def same_amounts(a: Resources, b: Resources) -> bool:
    """Whether resource lists have equal quantities, for example ``1`` and ``1000m``."""
    return a == b or (
        a.keys() == b.keys() and all(Quantity(amount) == Quantity(b[name]) for name, amount in a.items())
    )


def _conditions(node: Node) -> Mapping[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


_allocated = attrgetter("container_statuses", "init_container_statuses", "allocated_resources", "resources")


def _resizes(pod: Pod) -> tuple[Any, ...]:
    """The status fields on which allocated requests depend; empty if none is set."""
    held = _allocated(pod.status)
    return (*held, pod.status.conditions) if any(held) else ()


def _claims(pod: Pod) -> tuple[Any, Any]:
    return pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status
