"""What-if queries: the feasible nodes of a changed pod, or of the pod in a changed cluster; and the changes
that they confirm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.base.resources import PodGates
from moorage._core.state.node_table import NodeTable
from moorage.cluster.node_changes import ArrivingDaemons, NodeCopies, slices_for
from moorage.controllers.store_control import admission_of
from moorage.engine.framework import CycleState, FilterPlugin, PreFilterRun, StatusError
from moorage.engine.plugins.volume_binding import VolumeBinding
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.engine.scheduler.cycle.examine import examine
from moorage.engine.scheduler.cycle.node_search import NO_ROWS
from moorage.engine.volume.volumes_in_use import VolumesInUse
from moorage.kube import Node, Pod
from moorage.kube.admission.chain import Admission
from moorage.kube.admission.request import RefusedError
from moorage.kube.model.policy import RuntimeClass
from moorage.kube.model.resource_claims import ResourceClaim
from moorage.kube.model.resource_slices import ResourceSlice
from moorage.kube.model.storage import CSIStorageCapacity
from moorage.kube.model.workload import PodTemplateSpec
from moorage.kube.workloads.missing_pods import MAKERS
from moorage.store import Indexer, Lister, ObjectClient, find_object

from .claim_explanations import PodClaims

WITH_TEMPLATE = {kind.__name__: kind for kind in MAKERS}


class Probe:
    """Searches for feasible nodes of a changed pod, or of a pod in a changed cluster.

    Parameters
    ----------
    engine : Engine
        Over a fork of the cluster, which probes may change.
    pod : Pod
        The pod that fits nowhere.

    Attributes
    ----------
    requests : dict of str to int
        Effective requests of the pod that are not zero, in millicores, bytes, or the resource's own unit; and
        1 of ``pods``.
    devices : PodClaims or None
        Of the pod; None where its placement does not depend on devices.
    """

    def __init__(self, engine: Engine, pod: Pod) -> None:
        self.engine = engine
        self.pod = pod
        classes = engine.cache.state.classes
        shape = classes.shape_of(classes.intern(pod))
        requests = {"pods": 1} | shape.needs
        self.requests = {resource: request for resource, request in requests.items() if request}
        self.tolerations = shape.tolerations
        self.devices = PodClaims.of(engine, pod)
        self._copies = NodeCopies(cast(ObjectClient, engine.handle.client))
        self._storage: dict[str, tuple[CSIStorageCapacity, ...]] = {}  # by name of a copy

    @property
    def table(self) -> NodeTable:
        """The node table of the fork."""
        return self.engine.cache.state.table

    @property
    def gates(self) -> PodGates:
        """The gates on which requests depend."""
        return self.engine.cache.state.classes.gates

    @property
    def resources(self) -> list[str]:
        """Names of the requested resources."""
        return [resource for resource in self.requests if resource != "pods"]

    def begin(self, pod: Pod) -> tuple[CycleState, PreFilterRun]:
        """Begin a cycle for a pod, up to PreFilter."""
        state = self.engine.framework.new_state(pod)
        self.engine.begin_cycle(state.target)
        ran = self.engine.framework.run_pre_filter_plugins(state, pod)
        self.engine.begin_search(state, pod, ran)
        return state, ran

    def feasible(self, pod: Pod) -> npt.NDArray[np.int32]:
        """Find the feasible nodes of a pod by all filters of the profile.

        Returns
        -------
        (n,) int32 array
            Rows in list order; empty where the cycle fails with an error.
        """
        state, ran = self.begin(pod)
        if ran.rejection is not None:
            return NO_ROWS
        try:
            rows, verdicts = self.engine.search.verdicts(*state.target)
        except StatusError:
            return NO_ROWS
        fits: npt.NDArray[np.int32] = rows[verdicts == 0]
        return fits

    def count_feasible(self, pod: Pod) -> int:
        """Return the number of feasible nodes of a pod."""
        return len(self.feasible(pod))

    @contextmanager
    def assuming(
        self, claims: Iterable[ResourceClaim] = (), slices: Iterable[ResourceSlice] = ()
    ) -> Iterator[None]:
        """Change claims and add devices inside the context; without any of these this does nothing."""
        if self.devices is None:
            yield
            return
        with self.devices.state.assuming(claims, slices):
            yield

    @cached_property
    def daemons(self) -> ArrivingDaemons:
        """The pods that DaemonSets make for nodes."""
        return ArrivingDaemons(cast(ObjectClient, self.engine.handle.client))

    @contextmanager
    def changed(
        self, node: Node, claims: Iterable[ResourceClaim] = (), slices: Iterable[ResourceSlice] = ()
    ) -> Iterator[None]:
        """Change or add a node inside the context. Of the pods that DaemonSets make for it then, those that
        fit are placed first.

        Parameters
        ----------
        node : Node
            Replaces the node of its name, or is added.
        claims : iterable of ResourceClaim
            Changed claims.
        slices : iterable of ResourceSlice
            The devices of an additional node.
        """
        state = self.engine.cache.state
        before = self.nodes_named([node.name])[0] if state.has_node(node.name) else None
        with self.engine.cache.transaction(), self.assuming(claims, slices), self._with_storage_of(node):
            state.set_node(node)
            for pod in self.daemons.pods_for(node, before):
                if self.count_feasible(pod):
                    state.add_pod(replace(pod, spec=replace(pod.spec, node_name=node.name)))
            yield

    @contextmanager
    def _with_storage_of(self, node: Node) -> Iterator[None]:
        """Have volumes made in the storage of a copy inside the context."""
        plugin = self.volume_binding if node.name in self._storage else None
        sources = None if plugin is None else plugin.sources
        if plugin is None or sources is None or sources.csi_storage_capacity_lister is None:
            yield
            return
        listed = Indexer[CSIStorageCapacity]({})
        for capacity in (*sources.csi_storage_capacity_lister.list(), *self._storage[node.name]):
            listed.put(capacity.key, capacity)
        lister = Lister(CSIStorageCapacity, listed)
        plugin.binder.sources = replace_fields(sources, csi_storage_capacity_lister=lister)
        try:
            yield
        finally:
            plugin.binder.sources = sources

    @cached_property
    def volume_binding(self) -> VolumeBinding | None:
        """The plugin that binds the claims of the pod; None for a pod without claims."""
        plugins = self.engine.profile.at(FilterPlugin) if any(self.pod.claim_keys()) else ()
        return next((plugin for plugin in plugins if isinstance(plugin, VolumeBinding)), None)

    @cached_property
    def _admission(self) -> Admission:
        return admission_of(cast(ObjectClient, self.engine.handle.client))

    @cached_property
    def _is_as_stored(self) -> bool:
        """Whether the API server would store the pod as it is; if not, its rules are newer than the pod."""
        stored = _admitted(self._admission, self.pod)
        return stored is not None and stored.spec == self.pod.spec

    def stored(self, pod: Pod) -> Pod | None:
        """Return a changed pod as the API server would store it, quotas apart; None if it would refuse it."""
        return _admitted(self._admission, pod) if self._is_as_stored else pod

    @cached_property
    def template(self) -> Pod | None:
        """The pod as the template of its controller has it; None without one.

        What the pod has beside it, webhooks or other controllers have set, and would set again.
        """
        owner = self.pod.metadata.controller()
        kind = None if owner is None else WITH_TEMPLATE.get(owner.kind)
        if owner is None or kind is None:
            return None
        client = cast(ObjectClient, self.engine.handle.client)
        controller: Any = find_object(client, kind, owner.name, self.pod.namespace)
        template: PodTemplateSpec | None = controller and controller.spec.template
        admission = admission_of(client, has_webhooks=False)
        return None if template is None else _admitted(admission, replace(self.pod, spec=template.spec))

    @cached_property
    def runtime_class(self) -> RuntimeClass | None:
        """The runtime class of the pod."""
        name = self.pod.spec.runtime_class_name
        return None if name is None else find_object(self.engine.handle.client, RuntimeClass, name)

    def copy_of(self, node: Node, ending: str = "-copy") -> Node:
        """Return a new node like a node, with a name that no node has.

        Parameters
        ----------
        ending : str, optional
            Of the name.
        """
        name = node.name + ending
        while self.engine.cache.state.has_node(name):
            name += "-copy"
        copy = self._copies.copy(node, name)
        if any(self.pod.claim_keys()):
            self.engine.handle.derived(VolumesInUse.of).attached.like[name] = node.name
            self._storage[name] = tuple(self._copies.storage(node, copy))
        return replace(copy, metadata=replace(copy.metadata, uid=f"node/{name}"))

    def slices_of_copy(self, node: Node, copy: Node) -> tuple[ResourceSlice, ...]:
        """Return the devices that a copy of a node has."""
        published = () if self.devices is None else self.devices.published()
        return tuple(slices_for(published, node.name, copy.name))

    def count_feasible_with(self, node: Node, slices: Iterable[ResourceSlice] = ()) -> int:
        """Return the number of feasible nodes of the pod with a changed or an additional node, see
        `changed`."""
        with self.changed(node, slices=slices):
            return self.count_feasible(self.pod)

    def fit_error(self, pod: Pod) -> str:
        """Return the FitError text of a pod, or the error of its cycle."""
        examination = examine(self.engine, pod, self.engine.cache.state.view.node_names())
        return examination.error or examination.fit_error

    def rows(self) -> npt.NDArray[np.int32]:
        """Return the rows of all nodes in list order, as (n,) int32 array."""
        self.engine.cache.state.view.refresh()
        return self.engine.cache.state.view.rows()

    def nodes_named(self, names: Iterable[str]) -> list[Node]:
        """Return the node objects of names."""
        find_row = self.table.find_row
        rows = [find_row(name) for name in names]
        return self.nodes(np.array(rows, dtype=np.int32))

    def nodes(self, rows: npt.NDArray[np.int32]) -> list[Node]:
        """Return the node objects of rows.

        Parameters
        ----------
        rows : (n,) int32 array
        """
        listed = self.table.objects
        objects = (listed[row] for row in rows.tolist())
        return [node for node in objects if node is not None]


def _admitted(admission: Admission, pod: Pod) -> Pod | None:
    """Return a pod as the API server would store it; None if it would refuse it."""
    with suppress(RefusedError):
        return admission.admit_uncharged(pod)
    return None


def largest(limit: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 1 to a limit that fits, by bisection; 0 if none does.

    Parameters
    ----------
    fits : callable
        True for all numbers up to one, False for all above.
    """
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


# ---- changes that are offered ------------------------------------------------------------------------------

LOWER = "lower-request"
SMALLER_CLAIM = "smaller-claim"
TOLERATE = "add-toleration"
FEWER_DEVICES = "fewer-devices"
LABEL = "add-label"
UNCORDON = "uncordon-node"
NODE = "add-node"
DEVICE_CLASS = "device-class"
TOLERATE_DEVICE = "tolerate-device"
ADD_SELECTOR = "add-selector"
SPREAD = "change-spread"
FREE_CLAIM = "free-claim"
DROP = "drop"
DROP_DEVICE_RULE = "drop-device-rule"
REPROVISION = "reprovision-claim"
ROLLOUT = "change-rollout"
KINDS = {
    LOWER: 0,
    SMALLER_CLAIM: 0,
    FEWER_DEVICES: 0,
    TOLERATE: 1,
    UNCORDON: 1,
    LABEL: 1,
    NODE: 1,
    DEVICE_CLASS: 1,
    TOLERATE_DEVICE: 1,
    ADD_SELECTOR: 1,
    SPREAD: 1,
    REPROVISION: 1,
    ROLLOUT: 1,
    FREE_CLAIM: 2,
    DROP: 2,
    DROP_DEVICE_RULE: 2,
}
"""Order of the changes: lower requests, additions, what others or the pod give up."""


@dataclass(frozen=True, slots=True)
class HelpfulChange:
    """One change of a pod or of the cluster that places the pod.

    Attributes
    ----------
    kind : str
        A key of `KINDS`.
    text : str
        The change in words.
    feasible_nodes : int
        Number of feasible nodes after the change.
    pod : Pod
        The pod after the change.
    edit : callable or None
        Makes the change of the pod to others that are like it; None for a change of the cluster.
    amount : float
        Relative reduction of the effective request, of the number of devices or of a claim, 0 to 1; 0 for
        other kinds.
    values : dict of str to object
        What changes, in values of JSON; by kind as in the schema ``explain.moorage.dev/v1``.
    node : Node or None
        The added node, or the node with its new label or without its cordon.
    claims : tuple of ResourceClaim
        The changed claims.
    slices : tuple of ResourceSlice
        The devices of the added node.
    """

    kind: str
    text: str
    feasible_nodes: int
    pod: Pod = field(repr=False)
    edit: Callable[[Pod], Pod] | None = field(default=None, compare=False, repr=False)
    amount: float = 0.0
    values: dict[str, Any] = field(default_factory=dict)
    node: Node | None = field(default=None, repr=False)
    claims: tuple[ResourceClaim, ...] = field(default=(), repr=False)
    slices: tuple[ResourceSlice, ...] = field(default=(), repr=False)


def claim_values(claim: str, before: str = "", after: str = "", request: str = "") -> dict[str, str]:
    """Return the values of a change of a claim."""
    return {"claim": claim, "request": request, "from": before, "to": after}


def tried(
    probe: Probe, kind: str, text: str, edit: Callable[[Pod], Pod], values: dict[str, Any]
) -> Iterator[HelpfulChange]:
    """Yield a change of the pod, if it places it."""
    pod = edit(probe.pod)
    feasible = probe.count_feasible(pod)
    if feasible:
        yield HelpfulChange(kind, text, feasible, pod, edit, values=values)
