"""Changes of a pod or of the cluster that place the pod, single ones and pairs. Each is confirmed by a search
of the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.selectors import pod_matches_node_selector
from moorage.cluster.helpful_changes import HelpfulChange, Kind, ObjectEdit, cost, of_pod, sensible
from moorage.engine.requirements import (
    Constraint,
    changed_field,
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
from moorage.kube import Node, PodSpec
from moorage.kube.model.node import HOSTNAME

from .claim_changes import MOST_NAMES, claim_changes, volume_labels
from .constraints import remedies, tolerations, uncordons, untainted
from .device_changes import device_changes
from .more_nodes import MOST_DOMAINS, OF_KUBELET, added_nodes, beside_others, meeting
from .probe import Probe

# ---- single changes ----------------------------------------------------------------------------------------

MOST_LABELS = 32
"""Maximum number of labels that are tried node by node, where the pods of other nodes matter
too."""


def find_changes(probe: Probe) -> list[HelpfulChange]:
    """Find the single changes that place the pod, those that ask for the least first."""
    pod = probe.pod
    changes = [*claim_changes(probe), *tolerations(probe), *untainted(probe)]
    listed = (request_constraints(probe.resources), term_constraints(pod), finer_constraints(pod))
    for constraint in chain(*listed, runtime_class_constraints(probe.runtime_class)):
        changes += remedies(probe, constraint)
    changes += [*_near_labels(probe), *uncordons(probe), *_labels(probe), *added_nodes(probe)]
    changes += device_changes(probe)
    changes = sensible([each for change in changes for each in beside_others(probe, change)], _amount)
    return sorted(changes, key=partial(cost, waiting=len(probe.waiting)))


def _amount(change: HelpfulChange) -> float:
    return change.amount


# ---- labels ------------------------------------------------------------------------------------------------


def _near_labels(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield changes of entries of the nodeSelector that no node has, to similar values that nodes have."""
    for key, value in (probe.pod.spec.node_selector or {}).items():
        values = {node.metadata.labels.get(key, "") for node in probe.nodes(probe.rows())}
        for other in [] if value in values else get_close_matches(value, sorted(values), MOST_NAMES):
            text = f"select {key}={other} instead of {value}"
            named = {"kind": "node-selector", "name": f"{key}={value}"}
            edit = of_pod(
                partial(changed_field, path="spec.node_selector", change=partial(_with, key, other))
            )
            values_of = {"constraint": named, "field": key, "from": value, "to": other}
            yield from probe.tried(HelpfulChange(Kind.OTHER_LABEL, text, (edit,), values=values_of))


def _with(key: str, value: str, entries: dict[str, str]) -> dict[str, str]:
    return entries | {key: value}


def _labels(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield changes that add one label to a node; of a topology that no node has, to all nodes."""
    of_volumes = volume_labels(probe)
    depends_on_pods = has_pod_terms(probe.pod.spec) or bool(of_volumes)
    nodes = _candidates(probe)
    labels = dict.fromkeys(label for label in _wanted_labels(probe.pod.spec) if label[0] not in OF_KUBELET)
    if depends_on_pods:
        others = probe.nodes(probe.rows())
        labels |= dict.fromkeys([*of_volumes.items(), *_topology_labels(probe.pod.spec, others)])
        yield from _new_topologies(probe, others)
        nodes = list({node.name: node for node in (*nodes, *others)}.values())
    budget = MOST_LABELS
    for key, value in labels:
        lacking = [node for node in nodes if key not in node.metadata.labels]
        if depends_on_pods:
            lacking, budget = lacking[:budget], budget - len(lacking[:budget])
            helped = [node for node in lacking if probe.count_feasible_with(_label(node, key, value))]
        else:
            helped = _selected(probe.pod.spec, lacking, key, value)
        if not helped:
            continue
        node = helped[0].name
        text = f"label node {node} with {key}={value}{probe.needs_runtime([key])}"
        values = {"label": {key: value}, "node": node, "eligibleNodes": len(helped)}
        edits = (_label(helped[0], key, value),)
        yield from probe.tried(HelpfulChange(Kind.LABEL, text, edits, values=values))


def _new_topologies(probe: Probe, nodes: list[Node]) -> Iterator[HelpfulChange]:
    """Yield topologies of the pod that no node has, on all nodes, as one domain."""
    keys = topology_keys(probe.pod.spec) - {key for node in nodes for key in node.metadata.labels}
    for key in sorted(keys - {HOSTNAME}):
        edits = tuple([_label(node, key, "one") for node in nodes[:MOST_LABELS]])
        text = f"label the nodes with {key}"
        yield from probe.tried(HelpfulChange(Kind.LABEL, text, edits))


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


def _label(node: Node, key: str, value: str) -> ObjectEdit:
    return ObjectEdit(Node, node.name, partial(with_label, key=key, value=value))


def _wanted_labels(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Yield the labels that nodeSelector and required node affinity ask for; of several values the first."""
    yield from sorted((spec.node_selector or {}).items())
    for requirement in label_requirements(spec):
        yield from ((requirement.key, value) for value in meeting(requirement, ())[:1])


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
        In the order of `Kind`.
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
            first, second = sorted((pair.first, pair.second), key=lambda each: (each.kind.rank, each.text))
            ordered = ChangePair(first, second, pair.feasible_nodes)
            pairs.setdefault(ordered.text, ordered)
    listed = sensible(list(pairs.values()), lambda pair: max(pair.first.amount, pair.second.amount))
    return sorted(listed, key=_cost)[:MOST_PAIRS]


def _cost(pair: ChangePair) -> tuple[object, ...]:
    ranks = sorted((pair.first.rank, pair.second.rank), reverse=True)
    return (*ranks, pair.first.amount + pair.second.amount, -pair.feasible_nodes, pair.text)


def _pairs(probe: Probe, constraint: Constraint) -> Iterator[ChangePair]:
    """Yield the pairs whose first change loosens a constraint."""
    loose = Probe(probe.engine, constraint.drop(probe.pod), probe.kinds)
    for second in find_changes(loose):
        with probe.changed(second.edits) as pod:
            for first in remedies(Probe(probe.engine, pod, probe.kinds), constraint):
                yield ChangePair(first, second, first.feasible_nodes)
