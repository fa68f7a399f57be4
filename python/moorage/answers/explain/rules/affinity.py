"""Affinity and anti-affinity between pods: which pods are missing, and which keep a pod away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Any

from moorage._core.decide.terms import DomainCounts
from moorage._core.state.pod_terms import PodTerm
from moorage.cluster.requirements import requirement_text
from moorage.engine.framework.evidence import Evidence, Fact, FindEvidence, RejectedPod, Rows
from moorage.engine.plugins.inter_pod_affinity import AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY
from moorage.errors import first_of
from moorage.kube import LabelSelector, LabelSelectorMatcher, Pod
from moorage.kube.model.meta import LabelSelectorRequirement
from moorage.kube.model.pod import PodAffinityTerm

from ..probe import Probe
from .merge_evidence import distinct_evidence

MOST_NAMESPACES, MOST_NEAR = 3, 3
"""Maximum numbers of namespaces of a term, and of pods that nearly match, that are named."""
MOST_PODS = 20
"""Maximum number of pods of a domain that are named."""


class _Terms:
    """The terms of a pod, and what their filter reads of the cluster."""

    def __init__(self, inquiry: RejectedPod) -> None:
        self._inquiry = inquiry
        self._state = inquiry.search.state
        self._affinity, self._anti, self._existing = inquiry.state.terms.term_counts()
        self._required, self._required_anti = inquiry.state.shape.terms[:2]
        affinity = inquiry.pod.spec.affinity
        listed = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
        self._objects = [() if affinity is None else affinity.required for affinity in listed] or [(), ()]
        self._near = dict[str, dict[str | None, list[tuple[Pod, int, str]]]]()  # by topology key and domain

    def _domains_of(self, rows: Rows, key: str) -> Counter[str | None]:
        """Return the number of nodes by domain; None for nodes without the label."""
        names, column = self._state.symbols.names, self._state.table.label_column(key)
        values = Counter(column[rows].tolist())
        return Counter({(names[value] if value else None): many for value, many in values.items()})

    # ---- pods to keep away from

    def repelling(self, rows: Rows) -> Iterator[Evidence]:
        """Yield the pods that the pod's own anti-affinity keeps away from."""
        own = {self._inquiry.pod.namespace}
        terms = zip(self._required_anti, self._objects[1], self._anti, strict=True)
        yield from distinct_evidence(
            self._pods_of(counts, rows, False, "" if term.namespaces == own else self._where(term, written))
            for term, written, counts in terms
        )

    def repelled(self, rows: Rows) -> Iterator[Evidence]:
        """Yield the pods whose anti-affinity keeps the pod away."""
        yield from distinct_evidence(self._pods_of(counts, rows, True, "") for counts in self._existing)

    def _pods_of(self, counts: DomainCounts, rows: Rows, theirs: bool, namespaces: str) -> Iterator[Fact]:
        key = counts.topology_key
        there = self._by_domain(counts)

        def fact(pod: Pod, nodes: int, is_nominated: bool) -> Fact:
            values = {"topologyKey": key, "theirs": theirs, "namespaces": namespaces}
            text = f"{'its ' if theirs else ''}anti-affinity per {key}" + (namespaces and f", {namespaces}")
            text += ", nominated to the node" if is_nominated else ""
            return Fact("pod", pod.key, text, values=values | {"isNominated": is_nominated}, nodes=nodes)

        for value, nodes in self._domains_of(rows, key).items():
            for pod in there.get(value, ())[:MOST_PODS] if value is not None else ():
                yield fact(pod, nodes, False)
        for row in rows.tolist() if self._inquiry.search.has_nominated else ():
            for pod in self._inquiry.nominated_on(row):
                if counts.matches(pod) and key in self._inquiry.node(row).metadata.labels:
                    yield fact(pod, 1, True)

    def _by_domain(self, counts: DomainCounts) -> dict[str | None, list[Pod]]:
        """Return the pods that a term counts, by domain."""
        pods: dict[str | None, list[Pod]] = {}
        for row in counts.rows().tolist():
            value = self._inquiry.node(row).metadata.labels.get(counts.topology_key)
            here = pods.setdefault(value, [])
            if len(here) < MOST_PODS:
                here += filter(counts.matches, self._inquiry.pods_on(row))
        return pods

    # ---- pods that are missing

    def missing(self, rows: Rows) -> Iterator[Evidence]:
        """Yield the domains where no pod matches all terms of required affinity, with pods that nearly do."""
        written = self._objects[0]
        selector = " and ".join(dict.fromkeys(map(_selector_text, self._required, written)))
        where = " and ".join(dict.fromkeys(map(self._where, self._required, written)))
        for counts in self._affinity:
            key = counts.topology_key
            domains = counts.by_domain()
            for value, nodes in self._domains_of(rows, key).items():
                if value is None or not domains.get(value, (0, 0))[0]:
                    near = [] if value is None else list(self._near_misses(key, value))
                    domain = f"without label {key}" if value is None else f"in {key}={value}"
                    text = "; ".join((f"affinity, {domain}", *near))
                    words = f"no pod {selector} {where} ({text})"
                    values: dict[str, Any] = {"selector": selector, "namespaces": where, "topologyKey": key}
                    values |= {"near": near} if value is None else {"value": value, "near": near}
                    yield Fact("missing-pod", f"{selector} {where}", text, words, values, nodes=nodes)

    def _where(self, term: PodTerm, written: PodAffinityTerm) -> str:
        """Return which namespaces a term means, and by what."""
        meant = self._inquiry.state.terms.namespaces_of(term)
        if meant is None:
            return "in all namespaces"
        names = sorted(meant)
        some = first_of(names, MOST_NAMESPACES)
        if written.namespace_selector is not None:
            of = f"in {some}" if names else "in no namespace"
            requirements = [f"{k}={v}" for k, v in sorted(written.namespace_selector.match_labels.items())]
            requirements += map(requirement_text, written.namespace_selector.match_expressions)
            listed = " and namespaces" if written.namespaces else ""
            return f"{of} (by namespaceSelector {', '.join(requirements)}{listed})"
        return f"in {some}" + (" (by namespaces)" if written.namespaces else "")

    def _near_misses(self, key: str, value: str) -> Iterator[str]:
        """Yield the pods that would match in a domain but for their namespace, a label of theirs, or the
        label of their node, which is then in no domain."""
        if key not in self._near:
            self._near[key] = {}
            for like in self._alike:
                domain = self._inquiry.node(like[1]).metadata.labels.get(key)
                if domain is not None or not like[2]:
                    self._near[key].setdefault(domain, []).append(like)
        there, nowhere = (self._near[key].get(domain, []) for domain in (value, None))
        for pod, _, gap in sorted(there, key=lambda near: near[2] != "")[:MOST_NEAR]:
            yield f"pod {pod.key} is there, but " + (gap or f"namespace {pod.namespace} is not meant")
        for pod, row, _ in nowhere[: max(0, MOST_NEAR - len(there))]:
            yield f"pod {pod.key} matches, but its node {self._inquiry.node(row).name} lacks label {key}"

    @cached_property
    def _alike(self) -> list[tuple[Pod, int, str]]:
        """Pods that match all terms but for one thing, their rows, and what their labels lack, which is ""
        where it is the namespace or a topology label. They are searched by class: there are few."""
        classes, pods = self._state.classes, list[tuple[Pod, int, str]]()
        gaps = {number: self._gap(classes.labels_of(number)) for number in range(len(classes.keys))}
        keys = {term.topology_key for term in self._required}
        for row in self._state.view.rows().tolist() if any(gap is not None for gap in gaps.values()) else ():
            has_keys = keys <= self._inquiry.node(row).metadata.labels.keys()
            for pod in self._inquiry.pods_on(row):
                gap = gaps[classes.intern(pod)]
                if gap is not None and (has_keys and self._is_meant(pod)) == bool(gap):
                    pods.append((pod, row, gap))
        return pods

    def _gap(self, labels: dict[str, str]) -> str | None:
        """Return what the labels of a pod lack to match all terms: "" for nothing, None for more than one
        requirement, or for the only one, unless it is the label with another key."""
        if all(term.selector.matches(labels) for term in self._required):
            return ""
        lacking = [text for text, matcher in self._requirements.items() if not matcher.matches(labels)]
        if len(lacking) != 1:
            return None
        key, _, values = lacking[0]
        met = {requirement[1] for requirement in self._requirements if requirement != lacking[0]}
        if met.isdisjoint(("In", "Exists")) and set(values).isdisjoint(labels.values()):
            return None
        return f"its label {key} is {labels[key]}" if key in labels else f"it has no label {key}"

    @cached_property
    def _requirements(self) -> dict[tuple[str, str, tuple[str, ...]], LabelSelectorMatcher]:
        """The requirements of all terms of required affinity, as key, operator and values."""
        selectors = [term.label_selector for term in self._objects[0] if term.label_selector is not None]
        wanted: list[tuple[str, str, tuple[str, ...]]]
        wanted = [
            (key, "In", (value,)) for selector in selectors for key, value in selector.match_labels.items()
        ]
        wanted += [
            (it.key, it.operator, it.values) for selector in selectors for it in selector.match_expressions
        ]
        return {
            rule: LabelSelectorMatcher(LabelSelector(match_expressions=(LabelSelectorRequirement(*rule),)))
            for rule in wanted
        }

    def _is_meant(self, pod: Pod) -> bool:
        meant = map(self._inquiry.state.terms.namespaces_of, self._required)
        return all(namespaces is None or pod.namespace in namespaces for namespaces in meant)


def _selector_text(term: PodTerm, written: PodAffinityTerm) -> str:
    """Return the selector of a term in words."""
    wanted = [
        f"{key} in ({', '.join(values)})" + (" by matchLabelKeys" if key in written.match_label_keys else "")
        for key, values in term.selector.asked_values()
    ]
    expressions = written.label_selector.match_expressions if written.label_selector is not None else ()
    for expression in expressions:
        is_merged = expression.operator == "NotIn" and expression.key in written.mismatch_label_keys
        if expression.operator != "In":
            wanted.append(requirement_text(expression) + (" by mismatchLabelKeys" if is_merged else ""))
    return f"with {', '.join(wanted) or 'any labels'}"


def evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the pods that are missing, or in the way, by terms about other pods."""
    terms = _Terms(inquiry)
    finders = {
        AFFINITY: terms.missing,
        ANTI_AFFINITY: terms.repelling,
        EXISTING_ANTI_AFFINITY: terms.repelled,
    }
    return lambda rows, status: chain.from_iterable(
        finders[reason](rows) for reason in status.reasons if reason in finders
    )
