"""The plugins about volumes and resource claims as a profile holds them until a pod has any.

Their facts stand here: what profile, queue and signatures read of them for all pods. At the first call that
facts do not answer, a plugin becomes whole, in place: its module is imported then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any

from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.kube import Pod
from moorage.kube.model.resource_claims import DeviceClass, ResourceClaim

from ..framework import events
from ..framework.claim_plugins import ClaimPlugin, ClaimsPlugin
from ..framework.events import ActionType, on
from ..framework.in_tree_plugins import UNSIGNED, CorePostFilter, gates_only_with
from ..framework.interface import Plugin, is_open

_CHANGES = ActionType.ADD | ActionType.UPDATE
_OF_ALL_PODS = "another", "close", "events_to_register", "lister", "required_handle", "sign_pod", "skips"
"""The methods of base classes that no whole plugin overrides but by its facts."""
NO_CLAIMS = "no new claims to deallocate"
NOT_FOUND = "not found"


class PluginFacts(ClaimPlugin):
    """The facts of a plugin. A method without a body is that of the whole plugin."""

    def hint(self, name: str) -> events.Hint:
        """Return the queueing hint that is a method of the whole plugin."""
        method: events.Hint = getattr(self, name)
        return method


class VolumeRestrictionsFacts(PluginFacts):
    """Filter of kube-scheduler v1.36, volumerestrictions/."""

    name = "VolumeRestrictions"

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(events.POD, ActionType.DELETE, self.hint("after_pod_deleted")),
            on(events.NODE, ActionType.ADD),
            on(events.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, self.hint("after_claim_added")),
        ]


class VolumeZoneFacts(PluginFacts):
    """Filter of kube-scheduler v1.36, volumezone/."""

    name = "VolumeZone"

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(events.STORAGE_CLASS, ActionType.ADD, self.hint("after_class_added")),
            on(events.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(events.PERSISTENT_VOLUME_CLAIM, _CHANGES, self.hint("after_claim_change")),
            on(events.PERSISTENT_VOLUME, _CHANGES, self.hint("after_volume_change")),
        ]


class NodeVolumeLimitsFacts(PluginFacts):
    """Filter of kube-scheduler v1.36, nodevolumelimits/csi.go."""

    name = "NodeVolumeLimits"

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(events.CSI_NODE, _CHANGES, self.hint("after_csi_node_change")),
            on(events.POD, ActionType.DELETE, self.hint("after_pod_deleted")),
            on(events.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, self.hint("after_claim_added")),
            on(events.VOLUME_ATTACHMENT, ActionType.DELETE, self.hint("after_detached")),
        ]


_EMPTY_FIRST = {"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}


class VolumeBindingFacts(
    PluginFacts, fwk.ReservePlugin, fwk.PreBindPlugin, fwk.PreScorePlugin, fwk.ScorePlugin
):
    """Filter, Reserve, PreBind, and Score by storage capacity (kube-scheduler v1.36, volumebinding/)."""

    name = "VolumeBinding"
    default_args = {"bindTimeoutSeconds": 600}
    gated_args = {("StorageCapacityScoring", True): {"shape": _EMPTY_FIRST}}

    def skips(self, method: str) -> bool:
        return method != "pre_score" or not self.args.get("shape")

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(events.STORAGE_CLASS, _CHANGES, self.hint("after_class_change")),
            on(events.PERSISTENT_VOLUME_CLAIM, _CHANGES, self.hint("after_claim_change")),
            on(events.PERSISTENT_VOLUME, _CHANGES),
            on(events.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(events.CSI_NODE, _CHANGES, self.hint("after_csi_node_change")),
            on(events.CSI_DRIVER, ActionType.UPDATE, self.hint("after_driver_change")),
            on(events.CSI_STORAGE_CAPACITY, _CHANGES, self.hint("after_capacity_change")),
        ]


class DynamicResourcesFacts(
    PluginFacts,
    ClaimsPlugin,
    fwk.PreEnqueuePlugin,
    CorePostFilter,
    fwk.PodGroupPostFilterPlugin,
    fwk.ScorePlugin,
    fwk.ReservePlugin,
    fwk.PreBindPlugin,
):
    """The plugin of kube-scheduler v1.36, dynamicresources/."""

    name = "DynamicResources"
    default_weight = 2
    feature_gate = "DynamicResourceAllocation"
    default_args = {"filterTimeout": "10s", "bindingTimeout": "10m0s"}
    gated_args = {("DRASchedulerFilterTimeout", False): {"filterTimeout": None}}

    def sign_pod(self, pod: Pod) -> fwk.Status | None:  # type: ignore[override]
        return UNSIGNED if pod.spec.resource_claims else None

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        wakes = self.required_handle().release.claim_deletion_wakes
        of_claims = _CHANGES | ActionType.DELETE if wakes else _CHANGES
        generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return [
            on(events.NODE, nodes),
            on(events.RESOURCE_CLAIM, of_claims, self.hint("after_claim_change")),
            on(events.POD, generated, self.hint("after_pod_change")),
            on(events.DEVICE_CLASS, _CHANGES),
            on(events.RESOURCE_SLICE, _CHANGES),
        ]

    @gates_only_with("resource_claims")
    def pre_enqueue(self, pod: Pod) -> fwk.Status | None:
        return self.gated(pod)

    def gated(self, pod: Pod) -> fwk.Status | None:
        """Why a pod with claims waits."""
        raise NotImplementedError

    # ---- pods without claims -------------------------------------------------------------------------------

    @property
    def has_classes(self) -> bool:
        """Whether there are device classes, or have been."""
        handle = self.handle
        return (
            handle is not None
            and handle.informers is not None
            and bool(handle.informers.lister(DeviceClass).changes)
        )

    def concerns(self, pod: Pod) -> bool:
        may_concern = pod.spec.scheduling_group is not None or self.has_classes
        return may_concern and self.asks_for_devices(pod)

    def asks_for_devices(self, pod: Pod) -> bool:
        """Whether devices count for a pod without claims, whose group or resources may have some."""
        raise NotImplementedError

    def delegated_resources(self) -> frozenset[str]:
        return self.provided_resources() if self.has_classes else frozenset()

    def provided_resources(self) -> frozenset[str]:
        """Return the extended resources of device classes."""
        raise NotImplementedError

    @property
    def demand_version(self) -> int:
        handle = self.required_handle()
        has_claims = handle.informers.lister(ResourceClaim).changes or self.delegated_resources()
        return self.generation() if has_claims and handle.framework is not None else 0

    def generation(self) -> int:
        """Return the generation of the demands, once they know all claims."""
        raise NotImplementedError

    # ---- PostFilter ----------------------------------------------------------------------------------------

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        return False

    def may_free_claims(self, state: fwk.CycleState) -> bool:
        cycle: Any = state.find(self.name)
        return cycle is not None and bool(cycle.claims)

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        return self.without_help(NO_CLAIMS), False

    def without_help(self, text: str) -> str:
        """Return the text of a PostFilter that frees no claim; since v1.37 it has none."""
        return text if self.required_handle().release.claims_without_help_are_told else ""

    def failure(self, state: fwk.CycleState) -> fwk.Status | None:
        """Return the Error of a cycle whose PreFilter ended before this plugin wrote its state."""
        if self.name in state.skip_filter_plugins or state.find(self.name) is not None:
            return None
        return fwk.Status(fwk.Code.ERROR, (NOT_FOUND,), self.name)


class DynamicResourcesNoScoreFacts(DynamicResourcesFacts, without="score"):
    """DynamicResources up to v1.34, which did not score."""


class LateHint:
    """A queueing hint of a plugin that is not whole yet."""

    def __init__(self, plugin: Plugin, name: str) -> None:
        self.plugin, self.name = plugin, name

    def __call__(self, pod: Pod, old: Any, new: Any) -> fwk.QueueingHint:
        hint: fwk.QueueingHint = getattr(self.plugin, self.name)(pod, old, new)
        return hint

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__self__":  # which protocols of Python ask for
            raise AttributeError(name)
        return getattr(getattr(self.plugin, self.name), name)


def asleep(facts: type[PluginFacts], module: str) -> type[Plugin]:
    """Return the class of plugins that become whole: the class in a module here that has the name of its
    facts."""
    name = facts.__name__.removesuffix("Facts")

    def awake(self: PluginFacts) -> PluginFacts:
        whole = getattr(import_module(f".{module}", __package__), name)
        fresh = whole(self.args, self.handle)
        # No lock, which an interrupt could leave held: the fields of whoever is first count, each step can be
        # taken again, and what has changed since stays.
        fields = vars(self)
        first = fields.setdefault("_whole", vars(fresh))
        for attribute, value in first.items():
            fields.setdefault(attribute, value)
        self.__class__ = whole
        fields.pop("_whole", None)
        return self

    def attribute_of_whole(self: PluginFacts, attribute: str) -> Any:
        if attribute.startswith("__"):  # which protocols of Python ask for
            raise AttributeError(attribute)
        return getattr(self.awake(), attribute)

    methods: dict[str, Any] = {
        method: _waking(method) for method in dir(facts) if _is_of_whole(facts, method)
    }
    methods |= {"awake": awake, "hint": lambda self, name: LateHint(self, name)}
    kind: type[Plugin] = type(name, (facts,), methods | {"__getattr__": attribute_of_whole})
    kind.extension_points = facts.extension_points
    return kind


def _is_of_whole(facts: type[PluginFacts], name: str) -> bool:
    """Whether facts do not answer a method."""
    owner = next(kind for kind in facts.__mro__ if name in vars(kind))
    method = vars(owner)[name]
    if name.startswith("_") or not isinstance(method, FunctionType):
        return False
    return is_open(method) if issubclass(owner, PluginFacts) else name not in _OF_ALL_PODS


def _waking(name: str) -> Callable[..., Any]:
    def wake(self: PluginFacts, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.awake(), name)(*args, **kwargs)

    return wake
