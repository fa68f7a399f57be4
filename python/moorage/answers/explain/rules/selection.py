"""Which nodes a pod may be on by themselves: by name, labels, features, taints and cordons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as replace_fields
from difflib import get_close_matches
from functools import cache, partial
from itertools import islice

from msgspec.structs import replace

from moorage._core.base.selectors import pod_matches_node_selector
from moorage.cluster.helpful_changes import OF_ROLES, HelpfulChange, Kind, ObjectEdit, of_pod, tolerated
from moorage.cluster.requirements import (
    Constraint,
    changed_field,
    has_pod_terms,
    label_requirements,
    made_for,
    required_terms,
    requirement_text,
    requirements_of,
    tolerate,
    toleration_of,
    topology_keys,
    untolerated,
    without_node_selection,
    without_pod_terms,
)
from moorage.controllers.cluster_controllers import with_cordon
from moorage.engine.framework import Status
from moorage.engine.framework.evidence import Evidence, FindEvidence, Need, RejectedPod, Rows
from moorage.engine.plugins.node_affinity_and_taints import (
    UNSCHEDULABLE,
    NodeAffinity,
    NodeUnschedulable,
    TaintToleration,
)
from moorage.errors import nearest
from moorage.grouped import by_count
from moorage.kube import Node, NodeSelector, NodeSelectorMatcher, NodeSelectorTerm, PodSpec, Taint, Toleration
from moorage.kube.model.node import HOSTNAME, is_leaving, is_of_a_moment

from ..more_nodes import MOST_DOMAINS, OF_KUBELET, meeting
from ..probe import Probe
from .volumes import MOST_NAMES, volume_labels

# ---- filters that look at each node alone: name, labels, features, taints ----------------------------------

NO_TERMS = "terms (required node affinity has none)"
EMPTY_TERM = "(an empty term matches no node)"
BY_PROFILE = "addedAffinity of the profile"


def name_evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that says which node a pod names."""
    return lambda rows, status: [Need("node-name", inquiry.pod.spec.node_name, nodes=len(rows))]


def label_evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the requirements on labels and names that nodes do not meet."""
    selector, only = inquiry.pod.spec.node_selector or {}, made_for(inquiry.pod)
    plugin = probe.filter_of(NodeAffinity)
    added = plugin.added.required if plugin is not None and plugin.added else None
    own, enforced = required_terms(inquiry.pod.spec), None if added is None else added.node_selector_terms
    terms = [*(own or ()), *(enforced or ())]
    keys = {*selector, *(requirement.key for term in terms for requirement in term.match_expressions)}
    of_fields = {requirement_text(each) for term in terms for each in term.match_fields}
    unmet_own, unmet_enforced = _unmet(own), _unmet(enforced)
    state = inquiry.search.state

    def kind_of(text: str) -> str:
        return "field" if text in of_fields else "label"

    @cache
    def absent(key: str, value: str) -> str:
        values = {node.metadata.labels.get(key) for node in state.table.objects if node is not None}
        known = [f"{key}={each}" for each in values if each is not None]
        return "" if value in values else f"no node has it{nearest(f'{key}={value}', known)}"

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for row, nodes in ((row, 1) for row in rows.tolist()) if of_fields else inquiry.alike(rows, keys):
            node = inquiry.node(row)
            labels = node.metadata.labels
            unmet = {
                f"{key}={value}": absent(key, value)
                for key, value in selector.items()
                if labels.get(key) != value
            }
            unmet |= dict.fromkeys(unmet_own(node), "")
            if only is not None and only.about != node.name:
                yield replace_fields(only, nodes=nodes)
            else:
                for text, how in unmet.items():
                    yield Need(kind_of(text), text, how, values={"byProfile": False}, nodes=nodes)
            for text in dict.fromkeys(unmet_enforced(node)):
                yield Need(kind_of(text), text, BY_PROFILE, values={"byProfile": True}, nodes=nodes)

    return find


def feature_evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the features that nodes do not declare."""

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        declared = Counter(inquiry.node(row).status.declared_features for row in rows.tolist())
        for features, nodes in declared.items():
            for feature in inquiry.state.shape.features:
                if feature not in features:
                    yield Need("feature", feature, nodes=nodes)

    return find


def _unmet(terms: Sequence[NodeSelectorTerm] | None) -> Callable[[Node], list[str]]:
    """Return the function that finds the requirements that a node does not meet; of several terms, those of
    the term with the fewest."""
    matchers = None if terms is None else [_matchers(term) for term in terms]

    def unmet(node: Node) -> list[str]:
        if matchers is None:
            return []
        lacking = [[text for text, matcher in term if not matcher.matches(node)] for term in matchers]
        return min(lacking, key=len, default=[NO_TERMS])

    return unmet


def _matchers(term: NodeSelectorTerm) -> list[tuple[str, NodeSelectorMatcher]]:
    """Return the requirements of a term, each on its own: its text, and what it matches."""
    alone = [NodeSelectorTerm(match_expressions=(requirement,)) for requirement in term.match_expressions]
    alone += [NodeSelectorTerm(match_fields=(requirement,)) for requirement in term.match_fields]
    if not alone:
        return [(EMPTY_TERM, NodeSelectorMatcher(NodeSelector()))]
    matchers = [NodeSelectorMatcher(NodeSelector(node_selector_terms=(term,))) for term in alone]
    return list(zip(map(requirement_text, requirements_of(term)), matchers, strict=True))


def taint_evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the taints and cordons for which TaintToleration and NodeUnschedulable
    reject nodes."""
    having = inquiry.state.shape.tolerations
    by_taint, by_cordon = (probe.filter_of(kind) is not None for kind in (TaintToleration, NodeUnschedulable))

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        specs = (inquiry.node(row).spec for row in rows.tolist())
        alike = Counter((by_taint and spec.taints, by_cordon and spec.unschedulable) for spec in specs)
        for (taints, is_cordoned), nodes in alike.items():
            for taint in untolerated(having, taints or (), is_cordoned):
                name = taint.text
                words = f"cordoned ({name})" if taint == UNSCHEDULABLE else f"untolerated taint {name}"
                yield Need("toleration", name, words=words, nodes=nodes)

    return find


# ---- taints that a pod does not tolerate, and cordons ------------------------------------------------------

EVERY_TAINT = Toleration(operator="Exists")
MOST_TAINTS = 32
"""Maximum number of taint constraints, where more different taints count as one; and of combinations of
taints that are tried."""
MOST_CORDONS = 32
"""Maximum number of cordons that are tried node by node, where the pods of other nodes matter too."""


def taint_constraints(probe: Probe) -> Iterator[Constraint]:
    """Yield the taints of nodes that the pod does not tolerate, those of the most nodes first. To drop such a
    constraint adds a toleration."""
    nodes = probe.nodes(probe.rows())
    counts = Counter(taint for node in nodes for taint in _of_node(probe, node))
    if len(counts) > MOST_TAINTS:
        yield Constraint("taint", "every taint", partial(tolerate, toleration=EVERY_TAINT))
        return
    for taint, _ in counts.most_common():
        yield Constraint("taint", taint.text, partial(tolerate, toleration=toleration_of([taint])))


def _of_node(probe: Probe, node: Node) -> tuple[Taint, ...]:
    return tuple(untolerated(probe.tolerations, node.spec.taints, node.spec.unschedulable))


def loosened(probe: Probe, taint: Constraint | None = None) -> Iterator[HelpfulChange]:
    """Yield changes that add one toleration, whichever taint is meant."""
    for taints in _single_key_taints(probe):
        yield from probe.tried(tolerated(taints))


def untainted(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield changes that remove the taints of one key from a node, but for those that come back, and those of
    control planes."""
    for taints in _single_key_taints(probe):
        if is_of_a_moment(taints[0]) or taints[0].key.startswith(OF_ROLES):
            continue
        nodes = [node for node in probe.nodes(probe.rows()) if _of_node(probe, node) == taints]
        edit = ObjectEdit(Node, nodes[0].name, partial(_without_taints, key=taints[0].key))
        text = f"remove the taint {taints[0].text} from node {nodes[0].name}"
        values = {"node": nodes[0].name, "eligibleNodes": len(nodes)}
        yield from probe.tried(HelpfulChange(Kind.UNTAINT, text, (edit,), values=values))


def _without_taints(node: Node, key: str) -> Node:
    taints = tuple([taint for taint in node.spec.taints if taint.key != key])
    return replace(node, spec=replace(node.spec, taints=taints))


def _single_key_taints(probe: Probe) -> list[tuple[Taint, ...]]:
    """Return the groups of taints with one key that alone make a node infeasible, but for nodes that will go;
    only the most frequent ones."""
    counts: Counter[tuple[Taint, ...]] = Counter()
    loose = replace(probe.pod, spec=without_pod_terms(probe.pod.spec))
    for node in probe.nodes(probe.feasible(tolerate(loose, EVERY_TAINT))):
        taints = _of_node(probe, node)
        is_cordon = taints == (UNSCHEDULABLE,)  # see `uncordons`
        if len({taint.key for taint in taints}) == 1 and not (is_cordon or is_leaving(taints[0])):
            counts[taints] += 1
    return [taints for taints, _ in counts.most_common(MOST_TAINTS)]


def uncordons(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield the change that uncordons a node, for as many nodes as it would help on, one at a time."""
    pod = tolerate(probe.pod, toleration_of([UNSCHEDULABLE]))
    if has_pod_terms(pod.spec):  # which nodes count may change with the cordon
        nodes = [node for node in probe.nodes(probe.rows()) if node.spec.unschedulable][:MOST_CORDONS]
        helped = [node.name for node in nodes if probe.count_feasible_with(_uncordon(node.name))]
    else:
        helped = [node.name for node in probe.nodes(probe.feasible(pod)) if node.spec.unschedulable]
    if helped:
        text, values = f"uncordon node {helped[0]}", {"node": helped[0], "eligibleNodes": len(helped)}
        yield from probe.tried(HelpfulChange(Kind.UNCORDON, text, (_uncordon(helped[0]),), values=values))


def _uncordon(node: str) -> ObjectEdit:
    return ObjectEdit(Node, node, partial(with_cordon, value=False))


# ---- labels of nodes ---------------------------------------------------------------------------------------

MOST_LABELS = 32
"""Maximum number of labels that are tried node by node, where the pods of other nodes matter
too."""


def near_labels(probe: Probe) -> Iterator[HelpfulChange]:
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


def labels(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield changes that add one label to a node; of a topology that no node has, to all nodes."""
    of_volumes = volume_labels(probe)
    depends_on_pods = has_pod_terms(probe.pod.spec) or bool(of_volumes)
    nodes = _candidates(probe)
    wanted = dict.fromkeys(label for label in _wanted_labels(probe.pod.spec) if label[0] not in OF_KUBELET)
    if depends_on_pods:
        others = probe.nodes(probe.rows())
        wanted |= dict.fromkeys([*of_volumes.items(), *_topology_labels(probe.pod.spec, others)])
        yield from _new_topologies(probe, others)
        nodes = list({node.name: node for node in (*nodes, *others)}.values())
    budget = MOST_LABELS
    for key, value in wanted:
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
        for value in islice(by_count(domains), MOST_DOMAINS):
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
