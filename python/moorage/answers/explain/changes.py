"""Changes of a pod or of the cluster that place the pod, single ones and pairs. Each is confirmed by a search
of the engine.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.selectors import pod_matches_node_selector
from moorage.engine.framework.evidence import offered, quantity_text, readable
from moorage.engine.plugins.claim_evidence import STORAGE, claims_of, largest_volume
from moorage.engine.plugins.volume_binding import VolumeBinding
from moorage.engine.requirements import (
    Constraint,
    asked_by_container,
    finer_constraints,
    has_pod_terms,
    label_requirements,
    request_constraints,
    required_terms,
    runtime_class_constraints,
    term_constraints,
    topology_keys,
    without_node_selection,
    without_pod_terms,
)
from moorage.engine.volume.assume_cache import PVCAssumeCache
from moorage.engine.volume.claims import SELECTED_NODE, claim_class, parse_bytes, requested_storage
from moorage.kube import Node, PersistentVolumeClaim, PodSpec
from moorage.kube.model.node import HOSTNAME, ZONE
from moorage.kube.model.storage import CSIStorageCapacity

from .constraints import remedies, tolerations, uncordons
from .device_changes import device_changes
from .probe import KINDS, LABEL, NODE, REPROVISION, SMALLER_CLAIM, HelpfulChange, Probe, claim_values

# ---- single changes ----------------------------------------------------------------------------------------

MOST_TEMPLATES = 16
"""Maximum number of kinds of new nodes that are tried."""
MOST_LABELS = 32
"""Maximum number of labels that are tried node by node, where the pods of other nodes matter
too."""
OF_KUBELET = frozenset(
    {HOSTNAME, "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}
)
"""The labels that the kubelet sets on its node, and puts back."""
MOST_DOMAINS = 4
"""Maximum number of domains per topology that are tried, the largest ones."""


def find_changes(probe: Probe) -> list[HelpfulChange]:
    """Find the single changes that place the pod.

    Returns
    -------
    list of Change
        By kind, amount, and descending number of feasible nodes.
    """
    pod = probe.pod
    changes = [*smaller_claims(probe), *_reprovisioned(probe), *tolerations(probe)]
    listed = (request_constraints(probe.resources), term_constraints(pod), finer_constraints(pod))
    for constraint in chain(*listed, runtime_class_constraints(probe.runtime_class)):
        changes += remedies(probe, constraint)
    changes += [*uncordons(probe), *_labels(probe), *_nodes(probe), *device_changes(probe)]
    lasting = filter(None, (as_stored(probe, change) for change in changes))
    return sorted(lasting, key=lambda change: (KINDS[change.kind], change.amount, -change.feasible_nodes))


def as_stored(probe: Probe, change: HelpfulChange) -> HelpfulChange | None:
    """Return a change of a pod as the API server would store it.

    Returns
    -------
    Change or None
        None if the API server would refuse the changed pod, if what it puts back (such as the node selector
        of the runtime class) keeps it off all nodes, or if the pod's template does not have what changes.
    """
    if change.pod is probe.pod:
        return change
    pod = probe.stored(change.pod)
    if pod is None or not _is_of_template(probe, change):
        return None
    if pod.spec == change.pod.spec:
        return change
    feasible = probe.count_feasible(pod)
    return dataclasses.replace(change, pod=pod, feasible_nodes=feasible) if feasible else None


def _is_of_template(probe: Probe, change: HelpfulChange) -> bool:
    """Whether the template of a pod's controller has what changes, so that new pods have the change."""
    template = probe.template
    if template is None:
        return True
    edits = change.values.get("edits", ())
    amounts = asked_by_container(template, change.values["resource"]) if edits else {}
    is_there = all(amounts.get(edit["container"]) == Quantity(edit["from"]) for edit in edits)
    return is_there and (change.edit is None or change.edit(template) != template)


def smaller_claims(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield, for each claim of the pod, the change to the largest size for which a node has storage capacity,
    beside what its other claims of the class take."""
    plugin = probe.volume_binding
    if plugin is None or plugin.sources is None:
        return
    sources = plugin.sources
    unbound = _unbound_claims(probe, plugin)
    for claim in unbound:
        size, name = requested_storage(claim), claim_class(claim)
        others = sum(requested_storage(other) for other in unbound if claim_class(other) == name) - size
        listed = plugin.lister(CSIStorageCapacity).list()
        rooms = {_room(capacity, others) for capacity in listed if capacity.storage_class_name == name}
        for smaller in sorted((room for room in rooms if 0 < room < size), reverse=True):
            texts = quantity_text(STORAGE, size), quantity_text(STORAGE, smaller)
            requests = claim.spec.resources.requests | {STORAGE: texts[1]}
            resources = replace(claim.spec.resources, requests=requests)
            changed = replace(claim, spec=replace(claim.spec, resources=resources))
            with _assumed(sources.pvc_cache, changed):
                feasible = probe.count_feasible(probe.pod)
            if feasible:
                sizes = offered(STORAGE, size), offered(STORAGE, smaller)
                text = f"lower the request of claim {claim.key} from {sizes[0]} to {sizes[1]}"
                reduction = float(Fraction(size - smaller, size))
                values = claim_values(claim.key, *texts)
                yield HelpfulChange(SMALLER_CLAIM, text, feasible, probe.pod, amount=reduction, values=values)
                break


def _unbound_claims(probe: Probe, plugin: VolumeBinding) -> list[PersistentVolumeClaim]:
    claims = claims_of(probe.pod, plugin.lister(PersistentVolumeClaim))
    return [claim for claim in claims if not claim.spec.volume_name]


def _reprovisioned(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield, for each claim that is being provisioned for a node that does not exist, an end to that."""
    plugin = probe.volume_binding
    if plugin is None or plugin.sources is None:
        return
    for claim in _unbound_claims(probe, plugin):
        node = claim.metadata.annotations.get(SELECTED_NODE)
        if node is None or probe.engine.cache.state.has_node(node):
            continue
        kept = {key: value for key, value in claim.metadata.annotations.items() if key != SELECTED_NODE}
        changed = replace(claim, metadata=replace(claim.metadata, annotations=kept))
        with _assumed(plugin.sources.pvc_cache, changed):
            feasible = probe.count_feasible(probe.pod)
        if feasible:
            text = f"remove the annotation {SELECTED_NODE} ({node}) of claim {claim.key}"
            yield HelpfulChange(REPROVISION, text, feasible, probe.pod, values=claim_values(claim.key, node))


def _room(capacity: CSIStorageCapacity, others: int) -> int:
    """Return the largest volume that a capacity allows beside others, in bytes."""
    largest = largest_volume(capacity)
    return largest if capacity.capacity is None else min(largest, parse_bytes(capacity.capacity) - others)


@contextmanager
def _assumed(cache: PVCAssumeCache, claim: PersistentVolumeClaim) -> Iterator[None]:
    """Have the binder see another state of a claim inside the context."""
    before = cache.get(claim.key)
    cache.assume(claim)
    try:
        yield
    finally:
        cache.restore(claim.key)
        if cache.get(claim.key) is not before:
            cache.assume(before)


# ---- labels ------------------------------------------------------------------------------------------------


def _labels(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield changes that add one label to a node."""
    depends_on_pods = has_pod_terms(probe.pod.spec)
    nodes = _candidates(probe)
    runtime_class = probe.runtime_class
    scheduling = None if runtime_class is None else runtime_class.scheduling
    of_runtime = {} if scheduling is None else scheduling.node_selector  # other nodes lack the runtime
    fixed = OF_KUBELET | of_runtime.keys()
    labels = dict.fromkeys(label for label in _wanted_labels(probe.pod.spec) if label[0] not in fixed)
    if depends_on_pods:
        others = probe.nodes(probe.rows())
        labels |= dict.fromkeys(_topology_labels(probe.pod.spec, others))
        nodes = list({node.name: node for node in (*nodes, *others)}.values())
    budget = MOST_LABELS
    for key, value in labels:
        lacking = [node for node in nodes if key not in node.metadata.labels]
        if depends_on_pods:
            lacking, budget = lacking[:budget], budget - len(lacking[:budget])
            helped = [node for node in lacking if probe.count_feasible_with(with_label(node, key, value))]
        else:
            helped = _selected(probe.pod.spec, lacking, key, value)
        if not helped:
            continue
        node = with_label(helped[0], key, value)
        feasible = probe.count_feasible_with(node)
        if feasible:
            text = f"label node {node.name} with {key}={value}"
            values = {"label": {key: value}, "node": node.name, "eligibleNodes": len(helped)}
            yield HelpfulChange(LABEL, text, feasible, probe.pod, values=values, node=node)


def _candidates(probe: Probe) -> list[Node]:
    """Return the nodes that are infeasible only because of nodeSelector, required node affinity and terms
    about other pods."""
    spec = without_pod_terms(without_node_selection(probe.pod.spec))
    return probe.nodes(probe.feasible(replace(probe.pod, spec=spec))) if spec != probe.pod.spec else []


def _selected(spec: PodSpec, nodes: list[Node], key: str, value: str) -> list[Node]:
    """Return the nodes that nodeSelector and required node affinity select once they have the label."""
    keys = sorted({each.key for each in label_requirements(spec)} | (spec.node_selector or {}).keys())
    by_name = any(term.match_fields for term in required_terms(spec) or ())
    is_selected: dict[tuple[str | None, ...], bool] = {}
    selected = []
    for node in nodes:
        alike = (*(node.metadata.labels.get(each) for each in keys), node.name if by_name else "")
        if alike not in is_selected:
            is_selected[alike] = pod_matches_node_selector(spec, with_label(node, key, value))
        if is_selected[alike]:
            selected.append(node)
    return selected


def _topology_labels(spec: PodSpec, nodes: list[Node]) -> Iterator[tuple[str, str]]:
    """Yield the labels of the largest domains of each topology, which a node without such a label could
    join."""
    for key in sorted(topology_keys(spec) - {HOSTNAME}):
        domains = Counter(node.metadata.labels[key] for node in nodes if key in node.metadata.labels)
        for value, _ in sorted(domains.items(), key=lambda each: (-each[1], each[0]))[:MOST_DOMAINS]:
            yield key, value


def with_label(node: Node, key: str, value: str) -> Node:
    """Return the node with one more label."""
    return replace(node, metadata=replace(node.metadata, labels=node.metadata.labels | {key: value}))


def _wanted_labels(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Yield the labels that nodeSelector and required node affinity ask for; of several values the first."""
    yield from sorted((spec.node_selector or {}).items())
    for requirement in label_requirements(spec):
        match requirement.operator, requirement.values:
            case "In", (value, *_):
                yield requirement.key, value
            case "Exists", ():
                yield requirement.key, "true"
            case "Gt" | "Lt", (value,) if value.isdecimal():
                number = int(value) + (1 if requirement.operator == "Gt" else -1)
                if number >= 0:
                    yield requirement.key, str(number)


# ---- new nodes ------------------------------------------------------------------------------------------


def _nodes(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield changes that add a copy of a node, as `Scheduler.add_nodes` does, the smallest first.

    Of nodes that differ only in size and zone, the smallest is tried; where DaemonSets take some of its room,
    larger ones, too.
    """
    spec = probe.pod.spec
    selected = {requirement.key for requirement in label_requirements(spec)} | (
        spec.node_selector or {}
    ).keys()
    keys = sorted((selected | topology_keys(spec)) - {HOSTNAME, ZONE})
    tried: set[object] = set()
    done: set[object] = set()
    seen: set[object] = set()  # spares most nodes of a large cluster the comparison
    for node in probe.nodes(_by_size(probe)):
        labels = node.metadata.labels
        if probe.devices is None:
            shape = (node.spec.taints, labels.get(ZONE), *_amounts(probe, node), *map(labels.get, keys))
            if shape in seen:
                continue
            seen.add(shape)
        copy = probe.copy_of(node)
        taints = tuple((taint.key, taint.value, taint.effect) for taint in copy.spec.taints)
        devices = None if probe.devices is None else probe.devices.kinds_of(node)
        alike = (taints, devices, *(labels.get(key) for key in keys))
        in_zone: tuple[object, ...] = (alike, labels.get(ZONE))
        if probe.daemons.pods_for(copy, None):
            in_zone += _amounts(probe, node)
        if len(tried) == MOST_TEMPLATES:
            break
        if alike in done or in_zone in tried:
            continue
        tried.add(in_zone)
        slices = probe.slices_of_copy(node, copy)
        feasible = probe.count_feasible_with(copy, slices)
        if feasible:
            done.add(alike)
            room = copy.status.allocatable
            cpu, memory = (Quantity(room.get(name, 0)) for name in ("cpu", "memory"))
            size = f"{readable('cpu', cpu.milli_value())} cpu, {readable('memory', memory.value())} memory"
            text = f"add a node like {node.name} ({size})"
            values = {"like": node.name, "allocatable": copy.status.allocatable}
            yield HelpfulChange(NODE, text, feasible, probe.pod, values=values, node=copy, slices=slices)


def _by_size(probe: Probe) -> npt.NDArray[np.int32]:
    """Return the rows of nodes that are large enough when empty, in ascending order of the sum of their cpu
    and memory relative to the largest."""
    rows = probe.rows()
    allocatable = probe.table.allocatable
    enough = np.ones(len(rows), dtype=bool)
    as_devices = () if probe.devices is None else probe.devices.resources
    for resource, request in probe.requests.items():
        if resource in as_devices:
            continue
        enough &= allocatable[resource][rows] >= request
    rows = rows[enough]
    size = np.zeros(len(rows))
    for resource in ("cpu", "memory"):
        column = allocatable[resource][rows]
        size += column / max(int(column.max(initial=0)), 1)
    return rows[np.argsort(size, kind="stable")]


def _amounts(probe: Probe, node: Node) -> tuple[int, ...]:
    """Return the allocatable amounts of a node of what the pod requests."""
    row = probe.table.find_row(node.name)
    return tuple(int(probe.table.allocatable[resource][row]) for resource in probe.requests)


# ---- pairs of changes, where no single one places the pod --------------------------------------------------

MOST_FIRST = 12
"""Maximum number of constraints that are tried as the first of two."""
MOST_PAIRS = 5
"""Maximum number of pairs that are kept."""


class ChangePair(Struct, frozen=True):
    """Two changes that together place the pod.

    Attributes
    ----------
    first, second : Change
        In the order of `KINDS`.
    feasible_nodes : int
        Number of feasible nodes after both.
    """

    first: HelpfulChange
    second: HelpfulChange
    feasible_nodes: int

    @property
    def text(self) -> str:
        """Both changes in words."""
        return f"{self.first.text}, and {self.second.text}"


def find_pairs(probe: Probe, conflicts: list[list[Constraint]]) -> list[ChangePair]:
    """Find pairs of changes that place the pod.

    The first change loosens a constraint of a conflict, as every remedy has to; the second one is a single
    change of the loosened pod. Where the first one lowers a request, it lowers it no further than needed.

    Parameters
    ----------
    probe : Probe
        Of a pod that no single change places.

    Returns
    -------
    list of ChangePair
        Those that lower or add before those that drop a constraint, at most `MOST_PAIRS`.
    """
    if len(conflicts) > 2:  # each has to be resolved
        return []
    firsts = [constraint for conflict in conflicts for constraint in conflict][:MOST_FIRST]
    pairs: dict[str, ChangePair] = {}
    for constraint in firsts:
        for pair in _pairs(probe, constraint):
            first, second = sorted((pair.first, pair.second), key=lambda each: (KINDS[each.kind], each.text))
            ordered = ChangePair(first, second, pair.feasible_nodes)
            pairs.setdefault(ordered.text, ordered)
    return sorted(pairs.values(), key=_cost)[:MOST_PAIRS]


def _cost(pair: ChangePair) -> tuple[object, ...]:
    kinds = sorted((KINDS[pair.first.kind], KINDS[pair.second.kind]), reverse=True)
    return (*kinds, pair.first.amount + pair.second.amount, -pair.feasible_nodes, pair.text)


def _pairs(probe: Probe, constraint: Constraint) -> Iterator[ChangePair]:
    """Yield the pairs whose first change loosens a constraint."""
    loose = Probe(probe.engine, constraint.drop(probe.pod))
    for second in find_changes(loose):
        with _with_change(probe, second) as changed:
            for remedy in remedies(changed, constraint):
                first = as_stored(probe, remedy)
                if first is not None:
                    yield ChangePair(first, second, first.feasible_nodes)


@contextmanager
def _with_change(probe: Probe, change: HelpfulChange) -> Iterator[Probe]:
    """Make a change to the original pod or to the cluster, inside the context."""
    pod = probe.pod if change.edit is None else change.edit(probe.pod)
    if change.node is None:
        assumed = probe.assuming(change.claims, change.slices)
    else:
        assumed = probe.changed(change.node, change.claims, change.slices)
    with assumed:
        yield Probe(probe.engine, pod)
