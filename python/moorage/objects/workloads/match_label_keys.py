"""Merges matchLabelKeys and mismatchLabelKeys into label selectors, as the API server does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from moorage.objects.model.meta import LabelSelector, LabelSelectorRequirement
from moorage.objects.model.pod import (
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
)


def merge_label_keys(spec: PodSpec, labels: Mapping[str, str]) -> PodSpec:
    """Merge label keys into the selectors of a pod spec (kubernetes v1.36, registry/core/pod/strategy.go).
    Keys that the pod does not have, and constraints without a selector, are skipped; merged requirements, as
    in objects from a cluster, are not repeated.

    Parameters
    ----------
    spec : PodSpec
    labels : mapping of str to str
        The pod's.

    Returns
    -------
    PodSpec
        `spec` itself if there is nothing to merge.
    """
    constraints = tuple([_constraint(one, labels) for one in spec.topology_spread_constraints])
    if constraints != spec.topology_spread_constraints:
        spec = replace(spec, topology_spread_constraints=constraints)
    affinity = spec.affinity
    if affinity is None:
        return spec
    merged = replace(
        affinity,
        pod_affinity=_pod_affinity(affinity.pod_affinity, labels),
        pod_anti_affinity=_pod_affinity(affinity.pod_anti_affinity, labels),
    )
    return spec if merged == affinity else replace(spec, affinity=merged)


def _pod_affinity(affinity: PodAffinity | None, labels: Mapping[str, str]) -> PodAffinity | None:
    if affinity is None:
        return None
    required = tuple([_term(term, labels) for term in affinity.required])
    preferred = tuple(
        [
            replace(weighted, pod_affinity_term=_term(weighted.pod_affinity_term, labels))
            for weighted in affinity.preferred
        ]
    )
    return replace(affinity, required=required, preferred=preferred)


def _term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _merged(term.label_selector, "In", term.match_label_keys, labels)
    selector = _merged(selector, "NotIn", term.mismatch_label_keys, labels)
    return term if selector is term.label_selector else replace(term, label_selector=selector)


def _constraint(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> TopologySpreadConstraint:
    selector = _merged(constraint.label_selector, "In", constraint.match_label_keys, labels)
    return (
        constraint if selector is constraint.label_selector else replace(constraint, label_selector=selector)
    )


def _merged(
    selector: LabelSelector | None, operator: str, keys: Iterable[str], labels: Mapping[str, str]
) -> LabelSelector | None:
    if selector is None:
        return None
    requirements = [LabelSelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels]
    missing = tuple([one for one in requirements if one not in selector.match_expressions])
    if not missing:
        return selector
    return replace(selector, match_expressions=selector.match_expressions + missing)
