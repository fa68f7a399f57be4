"""Objects whose selectors match nothing: budgets, Services and constraints of spreading."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from moorage._core.base.selectors import LabelSelectorMatcher

from ..model.cluster import Cluster
from ..model.meta import LabelSelector
from ..model.policy import PodDisruptionBudget
from ..model.workload import Deployment, Service
from .missing_pods import MAKERS
from .ownership import Workload


def selects_nothing(cluster: Cluster) -> Iterator[tuple[Workload, str]]:
    """Yield the objects of a cluster that select no pod, neither one that is there nor one of a template, and
    what is to say of them."""
    labels: dict[str, set[frozenset[tuple[str, str]]]] = defaultdict(set)
    for pod in (*cluster.pods, *cluster.finished):
        labels[pod.namespace].add(frozenset(pod.metadata.labels.items()))
    templates = [(obj, _template(obj)) for obj in cluster.others if isinstance(obj, (*MAKERS, Deployment))]
    for obj, template in templates:
        labels[obj.namespace].add(frozenset(template.metadata.labels.items()))

    def matches_none(namespace: str, selector: LabelSelector) -> bool:
        matcher = LabelSelectorMatcher(selector)
        return not any(matcher.matches(dict(its)) for its in labels[namespace])

    for obj in cluster.others:
        about = Workload(obj.namespace, obj.kind, obj.name)
        if isinstance(obj, PodDisruptionBudget) and (selector := obj.spec.selector) is not None:
            if matches_none(obj.namespace, selector):
                yield (
                    about,
                    f"its selector ({_text(selector)}) matches no pod of the input, so it protects none",
                )
        elif isinstance(obj, Service) and obj.spec.selector:
            selector = LabelSelector(match_labels=obj.spec.selector)
            if matches_none(obj.namespace, selector):
                yield about, f"its selector ({_text(selector)}) matches no pod of the input"
    for obj, template in templates:
        if obj.metadata.controller() is not None:
            continue
        for at, constraint in enumerate(template.spec.topology_spread_constraints):
            selector = constraint.label_selector or LabelSelector()
            if constraint.label_selector is not None and matches_none(obj.namespace, selector):
                field = f"spec.template.spec.topologySpreadConstraints[{at}]"
                text = f"{field}: its labelSelector ({_text(selector)}) matches no pod, not even its own"
                yield Workload(obj.namespace, obj.kind, obj.name), text


def _template(obj: Any) -> Any:
    return obj.spec.template


def _text(selector: LabelSelector) -> str:
    rules = [f"{key}={value}" for key, value in selector.match_labels.items()]
    rules += [
        " ".join(filter(None, (rule.key, rule.operator, ", ".join(rule.values))))
        for rule in selector.match_expressions
    ]
    return ", ".join(rules)
