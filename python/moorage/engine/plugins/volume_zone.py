"""VolumeZone: the zones and regions of a pod's volumes must match those of its node."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage._core.state.cluster_state import ClusterState
from moorage.engine import framework as fwk
from moorage.kube import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.store.errors import NotFoundError as ObjectNotFoundError

from ..framework.plugin import events
from ..framework.plugin.events import ActionType, of_class, on, queue_if
from ..framework.plugin.evidence import Evidence, EvidencePlugin, FindEvidence, Inquiry, Rows
from ..framework.plugin.lazy_attribute import lazy_attribute
from ..framework.runtime.in_tree_plugins import Attachment, BoundClaims, Mask, VolumePlugin, VolumesOfBatch
from ..volume.claims import WAIT_FOR_FIRST_CONSUMER, claim_class
from .claim_evidence import claim_fact, claims_of
from .volume_restrictions import claim_names

TOPOLOGY_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
DELIMITER = "__"
STATE = "PreFilterVolumeZone"
LIMIT = 1 << 10  # maximum number of cached masks
ELSEWHERE = fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had no available volume zone",))
STATUSES = None, ELSEWHERE
NO_CLAIM_NAME = "PersistentVolumeClaim had no name"
NO_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"
NO_MODE = 'VolumeBindingMode not set for StorageClass "{}"'
NO_VOLUME_NAME = "PersistentVolume had no name"
BETA_TO_GA = dict(zip(TOPOLOGY_LABELS[:2], TOPOLOGY_LABELS[2:], strict=True))
Topology = tuple[str, frozenset[str]]
"""A topology label of a volume and its values."""


class PodTopologies(Struct, frozen=True):
    """The topology of the volumes of a pod.

    Attributes
    ----------
    topologies : tuple of (str, frozenset of str)
        Label key and allowed values.
    elsewhere : (rows,) bool array
        By row of the node table, whether the node has topology labels that do not match.
    """

    topologies: tuple[Topology, ...]
    elsewhere: npt.NDArray[np.bool_]


class VolumeZone(VolumePlugin, EvidencePlugin):
    """Filter of kube-scheduler v1.36, volumezone/."""

    name = "VolumeZone"
    needs_are_described = True

    _static_version = -1

    @lazy_attribute
    def _elsewhere(self) -> dict[tuple[Topology, ...], npt.NDArray[np.bool_]]:
        return {}

    # ---- decisions -----------------------------------------------------------------------------------------

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        topologies = self._topologies(pod)
        if isinstance(topologies, fwk.Status):
            return topologies
        if not topologies:
            return fwk.SKIP
        state.write(STATE, PodTopologies(topologies, self._mask(topologies)))
        return None

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        try:
            topologies = state.read(STATE).topologies
        except fwk.NotFoundError:
            topologies = self._topologies(pod)
        if isinstance(topologies, fwk.Status):
            return topologies
        labels = {} if node_info.node is None else node_info.node.metadata.labels
        if not any(label in labels for label in TOPOLOGY_LABELS):
            return None
        for key, values in topologies:
            value = labels.get(key, labels.get(BETA_TO_GA.get(key, key)))
            if value is None or value not in values:
                return ELSEWHERE
        return None

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        try:
            pod_topologies: PodTopologies = state.read(STATE)
        except fwk.NotFoundError:
            statuses = [self.filter(state, pod, info) for info in nodes]
            return fwk.Answers(np.arange(len(nodes)), statuses)
        elsewhere = pod_topologies.elsewhere.take(nodes.rows).view(np.uint8)
        return fwk.Answers(elsewhere, STATUSES)

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: VolumesOfBatch | None = None
    ) -> tuple[Topology, ...]:
        topologies = [(claim.name, item) for claim, volume in claims for item in _topology(volume).items()]
        named = claim_names(pod) if topologies else ()  # claims of ephemeral volumes do not count
        return tuple([item for name, item in topologies if name in named])

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        return ~self._mask(cast(tuple[Topology, ...], needs)), []

    def evidence(self, inquiry: Inquiry) -> FindEvidence:
        def find(rows: Rows, status: fwk.Status) -> Iterator[Evidence]:
            for claim in claims_of(inquiry.pod, self.lister(PersistentVolumeClaim)):
                name, storage_class = claim.spec.volume_name, claim_class(claim) or None
                if not name:
                    if status.reasons != ELSEWHERE.reasons:
                        text = f"not bound, class {storage_class or '(none)'}"
                        yield claim_fact(claim.key, text, storage_class, len(rows))
                    continue
                try:
                    topology = _topology(self.lister(PersistentVolume).get(name))
                except ObjectNotFoundError:
                    text = f"bound to missing volume {name}"
                    yield claim_fact(claim.key, text, storage_class, len(rows), volume=name)
                    continue
                elsewhere = self._mask(tuple(topology.items()))[rows]
                if topology and elsewhere.any():
                    zones = ", ".join(
                        f"{key} in [{', '.join(sorted(each))}]" for key, each in topology.items()
                    )
                    text = f"bound to volume {name}, for {zones}"
                    nodes = int(np.count_nonzero(elsewhere))
                    yield claim_fact(claim.key, text, storage_class, nodes, volume=name)

        return find

    def _topologies(self, pod: Pod) -> tuple[Topology, ...] | fwk.Status:
        """The zones and regions of the volumes of the pod's claims, or a rejection."""
        claims, volumes = self.lister(PersistentVolumeClaim), self.lister(PersistentVolume)
        topologies: list[Topology] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            if not name:
                return _unresolvable(NO_CLAIM_NAME)
            try:
                claim = claims.get(f"{pod.namespace}/{name}")
                if not claim.spec.volume_name:
                    why = self._why_unbound(claim)
                    if why:
                        return _unresolvable(why)
                    continue
                topologies += _topology(volumes.get(claim.spec.volume_name)).items()
            except ObjectNotFoundError as error:
                return _unresolvable(str(error))
        return tuple(topologies)

    def _why_unbound(self, claim: PersistentVolumeClaim) -> str:
        """The reason against a claim without a volume; "" if it is bound with its first consumer."""
        name = claim_class(claim)
        if not name:
            return NO_CLASS
        mode = self.lister(StorageClass).get(name).volume_binding_mode
        if mode is None:
            return NO_MODE.format(name)
        return "" if mode == WAIT_FOR_FIRST_CONSUMER else NO_VOLUME_NAME

    def _mask(self, topologies: tuple[Topology, ...]) -> npt.NDArray[np.bool_]:
        """The rows of nodes whose topology labels do not match, cached until a node's labels change."""
        cluster = self.required_handle().cache.state
        cluster.view.refresh()
        if cluster.view.static_version != self._static_version or len(self._elsewhere) >= LIMIT:
            self._elsewhere.clear()
            self._static_version = cluster.view.static_version
        if topologies not in self._elsewhere:
            self._elsewhere[topologies] = _rows_elsewhere(cluster, topologies)
        return self._elsewhere[topologies]

    # ---- the queue -----------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        changes = ActionType.ADD | ActionType.UPDATE
        return [
            on(events.STORAGE_CLASS, ActionType.ADD, self.after_class_added),
            on(events.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(events.PERSISTENT_VOLUME_CLAIM, changes, self.after_claim_change),
            on(events.PERSISTENT_VOLUME, changes, self.after_volume_change),
        ]

    @of_class
    def after_class_added(self, pod: Pod, old: None, new: StorageClass) -> fwk.QueueingHint:
        """Queue if a StorageClass was added whose volumes are bound with the first consumer."""
        return queue_if(new.volume_binding_mode == "WaitForFirstConsumer")

    def after_claim_change(
        self, pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
    ) -> fwk.QueueingHint:
        """Queue if a claim that the pod names was added or updated."""
        return queue_if(new.namespace == pod.namespace and new.name in claim_names(pod))

    @of_class
    def after_volume_change(
        self, pod: Pod, old: PersistentVolume | None, new: PersistentVolume
    ) -> fwk.QueueingHint:
        """Queue if a volume was added or its zones changed."""
        return queue_if(old is None or _topology(old) != _topology(new))


def _unresolvable(text: str) -> fwk.Status:
    return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _rows_elsewhere(cluster: ClusterState, topologies: Sequence[Topology]) -> npt.NDArray[np.bool_]:
    columns = {label: cluster.table.label_column(label) for label in TOPOLOGY_LABELS}
    out = np.zeros(cluster.table.used, dtype=bool)
    for key, values in topologies:
        column = columns[key]
        if key in BETA_TO_GA:
            column = np.where(column == 0, columns[BETA_TO_GA[key]], column)
        symbols = [symbol for value in values if (symbol := cluster.symbols.find(value))]
        out |= ~np.isin(column, symbols)
    has_any = np.logical_or.reduce([column != 0 for column in columns.values()])
    elsewhere: npt.NDArray[np.bool_] = out & has_any
    return elsewhere


def _topology(volume: PersistentVolume) -> dict[str, frozenset[str]]:
    """The zones and regions of a volume; a label whose list contains an empty value is ignored."""
    labels = volume.metadata.labels
    topology = {}
    for key in TOPOLOGY_LABELS:
        if key not in labels:
            continue
        values = frozenset(value.strip() for value in labels[key].split(DELIMITER))
        if "" not in values:
            topology[key] = values
    return topology
