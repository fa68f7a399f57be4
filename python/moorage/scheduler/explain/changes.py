"""Single changes of a pod or of the cluster that would place the pod. The engine confirms each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from msgspec.structs import replace

from moorage.objects.model.node import Node, Taint
from moorage.objects.model.pod import Pod, Toleration

from .constraints import (
    EVERY_TAINT,
    Constraint,
    finer_constraints,
    request_constraints,
    term_constraints,
    tolerate,
    toleration_of,
    without_pod_terms,
)
from .lowering import Edit, effective, lower
from .new_nodes import find_labels, new_nodes, with_label
from .probe import Probe
from .quantity_text import quantity_text
from .shortfalls import PodRequirements

LOWER = "lower-request"
TOLERATE = "add-toleration"
LABEL = "add-label"
NODE = "add-node"
DROP = "drop"
KINDS = {LOWER: 0, TOLERATE: 1, LABEL: 1, NODE: 1, DROP: 2}
"""Order of the changes: lower requests, additions, dropped constraints."""

MOST_TAINTS = 32
"""Maximum number of combinations of taints that are tried."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that places the pod.

    Attributes
    ----------
    kind : str
        ``lower-request``, ``add-toleration``, ``add-label``, ``add-node`` or ``drop``.
    text : str
        The change in words.
    feasible_nodes : int
        Number of feasible nodes after the change.
    amount : float
        The reduction of the effective request, relative to it; 0 for other kinds.
    resource, before, after : str
        Of ``lower-request``: effective requests as quantities.
    edits : list of Edit
        Of ``lower-request``: what to change in the spec.
    label : (str, str)
        Of ``add-label``: key and value.
    node_name : str
        Of ``add-label``: the first node that the label helps on. Of ``add-node``: the node to copy.
    eligible_nodes : int
        Of ``add-label``: how many nodes there are of which any one could have it; where other pods matter,
        of those tried (`new_nodes.MOST_LABELS`).
    toleration : Toleration or None
        Of ``add-toleration``.
    constraint : Constraint or None
        Of ``drop``: what is dropped.
    pod : Pod
        The pod after the change.
    node : Node or None
        The node to add, or the node with its new label.
    """

    kind: str
    text: str
    feasible_nodes: int
    pod: Pod = field(repr=False)
    amount: float = 0.0
    resource: str = ""
    before: str = ""
    after: str = ""
    edits: list[Edit] = field(default_factory=list)
    label: tuple[str, str] = ("", "")
    node_name: str = ""
    eligible_nodes: int = 0
    toleration: Toleration | None = None
    constraint: Constraint | None = None
    node: Node | None = field(default=None, repr=False)


def find_changes(probe: Probe, requirements: PodRequirements) -> list[Change]:
    """Every single change that places the pod, by kind, amount, and descending number of feasible nodes."""
    found = [
        *_lower_requests(probe, requirements),
        *_tolerations(probe, requirements),
        *_labels(probe),
        *_nodes(probe, requirements),
        *_drops(probe),
    ]
    return sorted(found, key=lambda change: (KINDS[change.kind], change.amount, -change.feasible_nodes))


def _lower_requests(probe: Probe, requirements: PodRequirements) -> Iterator[Change]:
    """Per resource, the largest request that fits some node."""
    table = probe.table
    for constraint in request_constraints(requirements.resources):
        resource = constraint.name
        rows = probe.feasible(constraint.drop(probe.pod))
        if not len(rows):
            continue
        free = table.allocatable[resource][rows] - table.requested[resource][rows]
        before, after = effective(probe.pod, resource), max(int(np.max(free)), 0)
        lowered = lower(probe.pod, resource, after) if after < before else None
        if lowered is None:
            continue
        pod, edits = lowered
        texts = quantity_text(resource, before), quantity_text(resource, effective(pod, resource))
        yield Change(
            LOWER,
            _lower_text(resource, edits, *texts),
            probe.count_feasible(pod),
            pod,
            amount=float(Fraction(before - effective(pod, resource), before)),
            resource=resource,
            before=texts[0],
            after=texts[1],
            edits=edits,
        )


def _lower_text(resource: str, edits: list[Edit], before: str, after: str) -> str:
    if len(edits) > 1:
        return f"lower the {resource} request from {before} to {after}, over {len(edits)} places"
    of = f"container {edits[0].container}" if edits[0].container else "the pod"
    return f"lower the {resource} request of {of} from {edits[0].before} to {edits[0].after}"


def _tolerations(probe: Probe, requirements: PodRequirements) -> Iterator[Change]:
    for taints in _single_key_taints(probe, requirements):
        toleration = toleration_of(taints)
        pod = tolerate(probe.pod, toleration)
        opens = probe.count_feasible(pod)
        if opens:
            value = f"={toleration.value}" if toleration.value else ""
            text = f"tolerate {toleration.key}{value}:{toleration.effect or '*'}"
            yield Change(TOLERATE, text, opens, pod, toleration=toleration)


def _single_key_taints(probe: Probe, requirements: PodRequirements) -> list[tuple[Taint, ...]]:
    """Taints of one key that are all that keeps the pod from a node; only the most frequent ones."""
    counts: Counter[tuple[Taint, ...]] = Counter()
    loose = replace(probe.pod, spec=without_pod_terms(probe.pod.spec))
    for node in probe.nodes(probe.feasible(tolerate(loose, EVERY_TAINT))):
        taints = tuple(requirements.untolerated(node))
        if len({taint.key for taint in taints}) == 1:
            counts[taints] += 1
    return [taints for taints, _ in counts.most_common(MOST_TAINTS)]


def _labels(probe: Probe) -> Iterator[Change]:
    for key, value, nodes, opens in find_labels(probe):
        node = with_label(nodes[0], key, value)
        yield Change(
            LABEL,
            f"label node {node.name} with {key}={value}",
            opens,
            probe.pod,
            label=(key, value),
            node_name=node.name,
            eligible_nodes=len(nodes),
            node=node,
        )


def _nodes(probe: Probe, requirements: PodRequirements) -> Iterator[Change]:
    for template, node, opens in new_nodes(probe, requirements):
        size = ", ".join(f"{node.status.allocatable.get(name, 0)} {name}" for name in ("cpu", "memory"))
        text = f"add a node like {template.name} ({size})"
        yield Change(NODE, text, opens, probe.pod, node_name=template.name, node=node)


def _drops(probe: Probe) -> Iterator[Change]:
    for constraint in (*term_constraints(probe.pod), *finer_constraints(probe.pod)):
        pod = constraint.drop(probe.pod)
        opens = probe.count_feasible(pod)
        if opens:
            yield Change(DROP, f"drop {constraint.text}", opens, pod, constraint=constraint)
