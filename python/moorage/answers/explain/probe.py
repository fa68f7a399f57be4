"""What-if queries: the feasible nodes of a changed pod, or of the pod in a changed cluster."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace as replace_fields
from functools import cached_property, partial
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import PodGates
from moorage._core.decide.batch_rows import Placements
from moorage._core.decide.pod_batch import PodBatch, Route, Routes
from moorage._core.state.node_table import NodeTable
from moorage._core.state.pod_spec import bound
from moorage.cluster.examine import examine_nodes, score_rows
from moorage.cluster.helpful_changes import HelpfulChange, Kind, ObjectEdit, tried
from moorage.cluster.node_changes import ArrivingDaemons, NodeCopies, slices_for
from moorage.cluster.played_changes import PlayedChanges, has_owner_of
from moorage.cluster.requirements import asked_by_container
from moorage.controllers.api_server import admission_of
from moorage.engine.framework import (
    CycleState,
    FilterPlugin,
    Plugin,
    PreFilterRun,
    ReservePlugin,
    StatusError,
)
from moorage.engine.plugins.dynamic_resources import DynamicResources
from moorage.engine.plugins.volume_binding import VolumeBinding
from moorage.engine.preemption.eviction_units import priority_of
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.engine.scheduler.cycle.results import NO_ROWS
from moorage.engine.volume.assume_cache import PVCAssumeCache
from moorage.engine.volume.volumes_in_use import VolumesInUse
from moorage.errors import examples
from moorage.kube import Node, Object, PersistentVolumeClaim, Pod
from moorage.kube.admission.chain import Admission
from moorage.kube.admission.request import RefusedError
from moorage.kube.model.policy import RuntimeClass
from moorage.kube.model.resource_claims import ResourceClaim
from moorage.kube.model.resource_slices import ResourceSlice
from moorage.kube.model.storage import CSIStorageCapacity
from moorage.kube.model.workload import PodTemplateSpec
from moorage.kube.workloads.missing_pods import MAKERS
from moorage.kube.workloads.ownership import is_active
from moorage.store import Indexer, Lister, ObjectClient, find_object

from ..asked_pods import begin_search, without_number
from .examine_preemption import examine_preemption
from .pod_claims import ClaimExplanation, PodClaims

ObjectT = TypeVar("ObjectT", bound=Object)
PluginT = TypeVar("PluginT", bound=Plugin)
_SHORT = {"PersistentVolume": "pv", "PersistentVolumeClaim": "pvc"}
MOST_IN_CORE, MOST_WAITING = 1000, 20
"""Maximum numbers of pods that wait alike for which changes are tried."""
MOST_VICTIMS = 3
"""Victims of a changed pod that its text names."""
WITH_TEMPLATE = {kind.__name__: kind for kind in MAKERS}


class Probe:
    """Searches for feasible nodes of a changed pod, or of a pod in a changed cluster.

    Parameters
    ----------
    engine : Engine
        Over a fork of the cluster, which probes may change.
    pod : Pod
        The pod that fits nowhere.
    evicts : bool, optional
        Whether nodes are feasible, too, where the pod evicts others, if there are no other ones.
    played : PlayedChanges, optional
        Makes changes by the verbs of a user, where they can be undone.

    Attributes
    ----------
    requests : dict of str to int
        Effective requests of the pod that are not zero, in millicores, bytes, or the resource's own unit; and
        1 of ``pods``.
    kinds : set of str
        The kinds of changes that were tried.
    devices : PodClaims or None
        Of the pod; None where its placement does not depend on devices.
    """

    def __init__(
        self,
        engine: Engine,
        pod: Pod,
        kinds: set[Kind] | None = None,
        evicts: bool = False,
        played: PlayedChanges | None = None,
    ) -> None:
        self.engine = engine
        self.pod = pod
        self.evicts, self.played = evicts, played
        self.kinds = set[Kind]() if kinds is None else kinds
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
        return begin_search(self.engine, pod)

    def feasible(self, pod: Pod) -> npt.NDArray[np.int32]:
        """Find the feasible nodes of a pod by all filters of the profile.

        Returns
        -------
        (n,) int32 array
            Rows in list order; empty where the cycle fails with an error.
        """
        rows = self._search(*self.begin(pod))
        if self.evicts and not len(rows):
            candidates = examine_preemption(self.engine, pod).dry_run.candidates
            rows = np.array([self.table.find_row(each.name) for each in candidates], dtype=np.int32)
        return rows

    def _search(self, state: CycleState, ran: PreFilterRun) -> npt.NDArray[np.int32]:
        """Return the feasible nodes of a cycle that has begun."""
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

    @cached_property
    def daemons(self) -> ArrivingDaemons:
        """The pods that DaemonSets make for nodes."""
        return ArrivingDaemons(cast(ObjectClient, self.engine.handle.client))

    @contextmanager
    def changed(self, edits: Sequence[ObjectEdit]) -> Iterator[Pod]:
        """Change the pod and the cluster inside the context. Of the pods that DaemonSets make for a changed
        or an additional node, those that fit are placed first, unless the pod has a higher priority. Claims
        and slices for devices do nothing where the placement of the pod does not depend on devices.

        Returns
        -------
        context manager
            Its value is the pod after the changes.
        """
        state, pod, devices, nodes = (
            self.engine.cache.state,
            self.pod,
            dict[type[Object] | None, list[Any]](),
            [],
        )
        with ExitStack() as stack:
            stack.enter_context(self.engine.cache.transaction())
            for about, key, change in edits:
                if about is Pod and not key:
                    pod = change(pod)
                elif about is Node:
                    before = self.nodes_named([key])[0] if state.has_node(key) else None
                    nodes.append((before, change(before)))
                elif about is PersistentVolumeClaim:
                    claim = change(self._pvc_cache.get(key))
                    stack.enter_context(self._stored(claim))
                    stack.enter_context(self._assumed(claim))
                elif about in (ResourceClaim, ResourceSlice):
                    devices.setdefault(about, []).append(change(None))
                elif about is not None:
                    stack.enter_context(self._stored(change(None)))
            if self.devices is not None and devices:
                claims, slices = devices.get(ResourceClaim, ()), devices.get(ResourceSlice, ())
                stack.enter_context(self.devices.state.assuming(claims, slices))
            for before, node in nodes:
                stack.enter_context(self._with_storage_of(node))
                state.set_node(node)
                for daemon in self.daemons.pods_for(node, before):
                    comes_first = priority_of(daemon) >= priority_of(pod)
                    if comes_first and len(self._search(*self.begin(daemon))):
                        state.add_pod(replace(daemon, spec=replace(daemon.spec, node_name=node.name)))
            yield pod

    @contextmanager
    def _assumed(self, claim: PersistentVolumeClaim) -> Iterator[None]:
        """Have the binder see another state of a claim inside the context."""
        cache = self._pvc_cache
        before = cache.get(claim.key)
        cache.assume(claim)
        try:
            yield
        finally:
            cache.restore(claim.key)
            if cache.get(claim.key) is not before:
                cache.assume(before)

    @contextmanager
    def _stored(self, obj: Object) -> Iterator[None]:
        """Have plugins see an object inside the context."""
        indexer = self.engine.handle.informers.informer(type(obj)).indexer
        before = indexer.put(obj.key, obj)
        try:
            yield
        finally:
            indexer.put(obj.key, before)

    def lister(self, kind: type[ObjectT]) -> Lister[ObjectT]:
        """Return the lister of a kind."""
        lister: Lister[ObjectT] = self.engine.handle.informers.lister(kind)
        return lister

    def absent(self, kind: type[Object], key: str = "") -> str:
        """Say that the input lacks an object, or has none of its kind, and how to add it."""
        name, resource = kind.__name__, _SHORT.get(kind.__name__, kind.__name__.lower())
        namespace, _, own = key.rpartition("/")
        if not self.lister(kind).list():
            every = " -A" if namespace else ""
            return f"the input has no {name}; add `kubectl get {resource}{every} -o yaml`"
        what = f"{resource} -n {namespace} {own}" if namespace else f"{resource} {own}"
        return f"the input has no {name} {key}; if the cluster has it, add `kubectl get {what} -o yaml`"

    def tried(self, change: HelpfulChange) -> Iterator[HelpfulChange]:
        """Yield a change if it places the pod, as the API server would store it."""
        yield from tried(self, change, partial(self._judge, change))

    def _judge(self, change: HelpfulChange, pod: Pod) -> dict[str, Any]:
        """Return the number of feasible nodes for the pod after a change, as the API server would store it;
        {} for none, if it would refuse the changed pod, if what it puts back (such as the node selector of
        the runtime class) keeps it off all nodes, or if its template does not have what changes."""
        stored: Pod | None = pod
        if change.changes_pods:
            stored = self.stored(pod) if self._is_of_template(change) else None
        feasible = 0 if stored is None else self.count_feasible(stored)
        if stored is None or not feasible:
            return {}
        many = len(self.waiting) > 1
        placed = self.count_placed([*map(change.of, self.waiting)]) if many else 0
        gain = {"feasible_nodes": feasible, "pod": stored, "placed": placed}
        if self.evicts and (choice := examine_preemption(self.engine, stored, everywhere=False).choice):
            candidate = choice.candidate
            victims = [f"{each.key} ({priority_of(each)})" for each in candidate.victims.pods]
            text = f"{change.text}: it then evicts {examples(victims, MOST_VICTIMS)} on {candidate.name}"
            values = change.values | {"victims": [each.key for each in candidate.victims.pods]}
            return gain | {"placed": int(many), "text": text, "values": values}
        return gain

    @cached_property
    def alike(self) -> tuple[Pod, ...]:
        """The pods of its controller that wait like it, itself first."""
        controller, state = self.pod.metadata.controller(), self.engine.cache.state
        if controller is None:
            return (self.pod,)
        client, intern = cast(ObjectClient, self.engine.handle.client), state.classes.intern
        own = intern(without_number(self.pod))
        alike = [
            pod
            for pod in client.list(Pod, self.pod.namespace)[0]
            if pod.metadata.is_controlled_by(controller.uid)
            and is_active(pod)
            and pod.key != self.pod.key
            and not (pod.spec.node_name or state.has_pod(pod))
            and intern(without_number(pod)) == own
        ]
        return (self.pod, *alike)

    @cached_property
    def running(self) -> int:
        """Number of pods of its controller that have a node."""
        client, state = cast(ObjectClient, self.engine.handle.client), self.engine.cache.state
        pods: list[Pod] = client.list(Pod, self.pod.namespace)[0]
        others = (pod for pod in pods if pod.key != self.pod.key and has_owner_of(self.pod, pod))
        return sum(pod.spec.node_name != "" or state.has_pod(pod) for pod in others)

    @cached_property
    def waiting(self) -> tuple[Pod, ...]:
        """Those of them for which changes are tried."""
        return self.alike[: MOST_IN_CORE if self._is_in_core(self.pod) else MOST_WAITING]

    def places_all(self, changes: Iterable[HelpfulChange]) -> bool:
        """Whether one of some changes that help places all of them."""
        return any(change.placed in (0, len(self.waiting)) for change in changes)

    def _is_in_core(self, pod: Pod) -> bool:
        """Whether the core places such a pod by itself."""
        if PodClaims.of(self.engine, pod) is not None or not self.engine.profile.is_in_core:
            return False
        return not self._batch([pod]).route(0) & ~Route.PORTS

    def _batch(self, pods: Sequence[Pod]) -> PodBatch:
        return PodBatch(self.engine.cache.state, pods, Routes(lambda *_: 0))

    def count_placed(self, pods: Sequence[Pod]) -> int:
        """Return how many pods that are alike get a node one after the other, each on its best one."""
        state = self.engine.cache.state
        with self.engine.cache.transaction(), self._taking_devices():
            if self._is_in_core(pods[0]):
                placed = Placements(state, len(pods))
                self.engine.placer.place(self._batch(pods), placed)
                return int(np.count_nonzero(placed.rows >= 0))
            for at, pod in enumerate(pods):
                cycle, ran = self.begin(pod)
                rows = self._search(cycle, ran)
                if not len(rows):
                    return at
                *_, total = score_rows(self.engine, cycle, rows)
                best = state.table.row_name(int(rows[np.argmax(total)]))
                state.assume_pod(bound(pod, best))
                active = self.engine.framework.profile_for(cycle, pod).active(ReservePlugin)
                for plugin in active:
                    if isinstance(plugin, DynamicResources):
                        plugin.reserve(cycle, pod, best)
        return len(pods)

    @contextmanager
    def _taking_devices(self) -> Iterator[None]:
        """Have placed pods take devices, which those after them find taken or share, inside the context."""
        handle = self.engine.handle
        if self.devices is None:
            yield
            return
        before, handle.group_cycle = handle.group_cycle, object()
        try:
            with self.devices.state.assuming():
                yield
        finally:
            handle.group_cycle = before

    def _is_of_template(self, change: HelpfulChange) -> bool:
        """Whether the template of a pod's controller has what changes, so that new pods have the change."""
        template = self.template
        if template is None:
            return True
        edits = change.values.get("edits", ())
        amounts = asked_by_container(template, change.values["resource"]) if edits else {}
        is_there = all(amounts.get(edit["container"]) == Quantity(edit["from"]) for edit in edits)
        return is_there and change.of(template) != template

    def count_feasible_with(self, *edits: ObjectEdit) -> int:
        """Return the number of feasible nodes of the pod with changes, see `changed`."""
        with self.changed(edits) as pod:
            return self.count_feasible(pod)

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

    def filter_of(self, kind: type[PluginT]) -> PluginT | None:
        """Return the filter of a kind in the profile of the pod."""
        plugins = self.engine.profile.complete.at(FilterPlugin)
        return next((plugin for plugin in plugins if isinstance(plugin, kind)), None)

    @cached_property
    def claims(self) -> list[ClaimExplanation]:
        """What the claims of the pod for devices ask for, and find on all nodes."""
        return [] if self.devices is None else self.devices.explanations(self.nodes(self.rows()))

    @cached_property
    def volume_binding(self) -> VolumeBinding | None:
        """The plugin that binds the claims of the pod; None for a pod without claims."""
        return self.filter_of(VolumeBinding) if any(self.pod.claim_keys()) else None

    @property
    def _pvc_cache(self) -> PVCAssumeCache:
        assert self.volume_binding is not None
        assert self.volume_binding.sources is not None
        return self.volume_binding.sources.pvc_cache

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

    def needs_runtime(self, keys: Container[str]) -> str:
        """Return what a change adds that gives a node labels of these keys: it may be the runtime class that
        asks for them, whose handler the node has to have."""
        scheduling = None if self.runtime_class is None else self.runtime_class.scheduling
        if (
            self.runtime_class is None
            or scheduling is None
            or not any(key in keys for key in scheduling.node_selector)
        ):
            return ""
        return f", if it has the runtime {self.runtime_class.handler}"

    def copy_of(self, node: Node, ending: str = "-copy", labels: Mapping[str, str] = {}) -> Node:
        """Return a new node like a node, with a name that no node has.

        Parameters
        ----------
        labels : mapping of str to str, optional
            That it has in any case.
        """
        name = node.name + ending
        while self.engine.cache.state.has_node(name):
            name += "-copy"
        copy = self._copies.copy(node, name, labels)
        if any(self.pod.claim_keys()):
            self.engine.handle.derived(VolumesInUse.of).attached.like[name] = node.name
            self._storage[name] = tuple(self._copies.storage(node, copy))
        return replace(copy, metadata=replace(copy.metadata, uid=f"node/{name}"))

    def slices_of_copy(self, node: Node, copy: Node) -> tuple[ResourceSlice, ...]:
        """Return the devices that a copy of a node has."""
        published = () if self.devices is None else self.devices.published()
        return tuple(slices_for(published, node.name, copy.name))

    def fit_error(self, pod: Pod) -> str:
        """Return the FitError text of a pod, or the error of its cycle."""
        examination = examine_nodes(self.engine, pod, self.engine.cache.state.view.node_names())
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


# ---- changes of claims -------------------------------------------------------------------------------------


def claim_values(claim: str, before: str = "", after: str = "", request: str = "") -> dict[str, str]:
    """Return the values of a change of a claim."""
    return {"claim": claim, "request": request, "from": before, "to": after}
