"""Evidence of filters that look at each node alone: at its name, labels, features, host ports and taints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from moorage.engine.framework import Plugin, Status
from moorage.engine.framework.plugin.evidence import Evidence, Fact, FindEvidence, Inquiry, Need, Rows
from moorage.engine.plugins.node_affinity import NodeAffinity, requirement_text
from moorage.engine.plugins.node_ports import ANY_IP, HostPort, has_conflict
from moorage.engine.plugins.node_unschedulable import UNSCHEDULABLE, NodeUnschedulable
from moorage.engine.plugins.taint_toleration import TaintToleration
from moorage.engine.requirements.constraint import distinct
from moorage.engine.requirements.node_selection import made_for, required_terms, requirements_of, untolerated
from moorage.engine.requirements.terms import port_text
from moorage.kube import Node, NodeSelector, NodeSelectorMatcher, NodeSelectorTerm

NO_TERMS = "terms (required node affinity has none)"
EMPTY_TERM = "(an empty term matches no node)"
BY_PROFILE = "addedAffinity of the profile"


def name_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that says which node a pod names."""
    return lambda rows, status: [Need("node-name", inquiry.pod.spec.node_name, nodes=len(rows))]


def selection_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that finds the requirements on labels and names that nodes do not meet."""
    selector, only = inquiry.pod.spec.node_selector or {}, made_for(inquiry.pod)
    plugin = plugins[NodeAffinity.name]
    added = plugin.added.required if isinstance(plugin, NodeAffinity) and plugin.added else None
    own, enforced = required_terms(inquiry.pod.spec), None if added is None else added.node_selector_terms
    terms = [*(own or ()), *(enforced or ())]
    keys = {*selector, *(requirement.key for term in terms for requirement in term.match_expressions)}
    reads_names = any(term.match_fields for term in terms)
    unmet_own, unmet_enforced = _unmet(own), _unmet(enforced)

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for row, nodes in ((row, 1) for row in rows.tolist()) if reads_names else inquiry.alike(rows, keys):
            node = inquiry.node(row)
            labels = node.metadata.labels
            unmet = [f"{key}={value}" for key, value in selector.items() if labels.get(key) != value]
            unmet += unmet_own(node)
            if only is not None and unmet:
                yield replace(only, nodes=nodes)
            else:
                for text in dict.fromkeys(unmet):
                    yield Need("label", text, values={"byProfile": False}, nodes=nodes)
            for text in dict.fromkeys(unmet_enforced(node)):
                yield Need("label", text, BY_PROFILE, values={"byProfile": True}, nodes=nodes)

    return find


def feature_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
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


def port_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that finds the host ports of the pod that are not free, and the pods that hold
    them."""
    state, host_network = inquiry.search.state, inquiry.pod.spec.host_network
    names, everywhere = state.symbols.names, state.symbols.intern(ANY_IP)
    wanted = distinct(inquiry.state.shape.ports)

    def text_of(port: HostPort) -> str:
        return port_text((names[port[0]] or "", names[port[1]] or "", port[2]))

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for row in rows.tolist():
            there = [(pod, "") for pod in inquiry.pods_on(row)]
            there += [(pod, ", nominated to the node") for pod in inquiry.nominated_on(row)]
            used = [
                (pod.key, held, nominated)
                for pod, nominated in there
                for held in distinct(state.classes.shape_of(state.classes.intern(pod)).ports)
            ]
            for port in wanted:
                if any(has_conflict(port, held, everywhere) for _, held, _ in used):
                    of = "hostNetwork" if host_network else ""
                    yield Need("host-port", text_of(port), of, values={"hostNetwork": host_network})
            for key, held, nominated in used:
                if any(has_conflict(port, held, everywhere) for port in wanted):
                    values = {"port": text_of(held), "isNominated": bool(nominated)}
                    yield Fact("pod", key, f"host port {text_of(held)}{nominated}", values=values)

    return find


def taint_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that finds the taints and cordons for which TaintToleration and NodeUnschedulable
    reject nodes."""
    having = inquiry.state.shape.tolerations
    by_taint, by_cordon = (plugin.name in plugins for plugin in (TaintToleration, NodeUnschedulable))

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        specs = (inquiry.node(row).spec for row in rows.tolist())
        alike = Counter((by_taint and spec.taints, by_cordon and spec.unschedulable) for spec in specs)
        for (taints, is_cordoned), nodes in alike.items():
            for taint in untolerated(having, taints or (), is_cordoned):
                name = taint.text
                words = f"cordoned ({name})" if taint == UNSCHEDULABLE else f"untolerated taint {name}"
                yield Need("toleration", name, words=words, nodes=nodes)

    return find
