"""Hard spreading and required terms about other pods: how they are loosened or dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from moorage._core.decide.terms import DomainCounts
from moorage.objects import Pod, PodSpec
from moorage.objects.model.pod import PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from moorage.plugins.node_affinity import requirement_text
from moorage.plugins.pod_topology_spread import HARD

from ..probe import Probe, largest
from .constraint import SPREAD, Change, Constraint, distinct, edit_of, of_field, tried, without

T = TypeVar("T")

SPREADS = "topology_spread_constraints"
POD_TERMS = {
    "pod-affinity": "affinity.pod_affinity.required",
    "pod-anti-affinity": "affinity.pod_anti_affinity.required",
}
FIELDS = {
    "nodeTaintsPolicy": "node_taints_policy",
    "nodeAffinityPolicy": "node_affinity_policy",
    "minDomains": "min_domains",
    "maxSkew": "max_skew",
}
"""Fields by their names in manifests."""
DEFAULTS = {"nodeTaintsPolicy": "Ignore", "minDomains": 1}


@dataclass(frozen=True)
class Spread(Constraint):
    """A hard spread constraint."""

    spread: TopologySpreadConstraint = field(kw_only=True, compare=False, repr=False)

    def remedies(self, probe: Probe) -> Iterator[Change]:
        """Yield the changes of a single field that place the pod, and that without it."""
        yield from super().remedies(probe)
        hard = hard_spreads(probe.pod.spec)
        state, ran = probe.begin(probe.pod)
        if ran.rejection is not None or self.spread not in hard:
            return
        counts, own, _, min_domains = state.terms.hard_counts()[hard.index(self.spread)]
        domains = counts.by_domain()
        if self.spread.node_taints_policy != "Honor":
            yield from self._set(probe, "nodeTaintsPolicy", "Honor")
        if self.spread.node_affinity_policy == "Ignore":
            yield from self._set(probe, "nodeAffinityPolicy", "Honor")
        if 0 < len(domains) < min_domains:
            yield from self._set(probe, "minDomains", len(domains))
        yield from self._larger_skew(probe, counts, own)

    def _larger_skew(self, probe: Probe, counts: DomainCounts, own: int) -> Iterator[Change]:
        """Yield the change to the least maxSkew that places the pod."""
        most = max((pods for pods, _ in counts.by_domain().values()), default=0) + own  # no domain has more
        skews = range(most, self.spread.max_skew, -1)

        def fits(at: int) -> bool:
            changed = replace(self.spread, max_skew=skews[at])
            return probe.count_feasible(changed_term(probe.pod, SPREADS, self.spread, changed)) > 0

        if len(skews) and fits(0):
            yield from self._set(probe, "maxSkew", skews[largest(len(skews) - 1, fits)])

    def _set(self, probe: Probe, name: str, value: object) -> Iterator[Change]:
        """Yield the change of a field if it places the pod."""
        changed = replace(self.spread, **{FIELDS[name]: value})
        before = str(getattr(self.spread, FIELDS[name]) or DEFAULTS.get(name, ""))
        text = f"set {name}: {value} (now {before}) in {self.text}"
        edit = partial(changed_term, path=SPREADS, term=self.spread, changed=changed)
        values = {"constraint": self.named, "field": name, "from": before, "to": str(value)}
        yield from tried(probe, SPREAD, text, edit, values)


def other_pod_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield the hard spread constraints of a pod, and its required terms about other pods."""
    for spread in distinct(hard_spreads(pod.spec)):
        drop = edit_of(SPREADS, partial(without, dropped=spread))
        yield Spread("topology-spread", spread_text(spread), drop, spread=spread)
    for kind, path in POD_TERMS.items():
        for term in distinct(pod_terms(pod.spec, path)):
            yield of_field(kind, pod_term_text(term), path, partial(without, dropped=term))


def has_pod_terms(spec: PodSpec) -> bool:
    """Whether the feasibility of a node depends on other nodes and their pods: hard spreading, required
    terms."""
    return bool(hard_spreads(spec)) or any(pod_terms(spec, path) for path in POD_TERMS.values())


def hard_spreads(spec: PodSpec) -> list[TopologySpreadConstraint]:
    """Return the spread constraints that keep a pod off nodes."""
    return [spread for spread in spec.topology_spread_constraints if spread.when_unsatisfiable == HARD]


def spread_text(spread: TopologySpreadConstraint) -> str:
    """Return what names a spread constraint in texts."""
    return f"{spread.topology_key} (maxSkew {spread.max_skew})"


def without_pod_terms(spec: PodSpec) -> PodSpec:
    """Return the spec without topology spread constraints and terms about other pods."""
    affinity = spec.affinity
    if affinity is not None:
        affinity = replace(affinity, pod_affinity=None, pod_anti_affinity=None)
    return replace(spec, affinity=affinity, topology_spread_constraints=())


def topology_keys(spec: PodSpec) -> set[str]:
    """Return the topology keys of the pod's spread constraints and required pod affinity terms."""
    terms = (term for path in POD_TERMS.values() for term in pod_terms(spec, path))
    spreads = spec.topology_spread_constraints
    return {term.topology_key for term in terms} | {spread.topology_key for spread in spreads}


def pod_terms(spec: PodSpec, path: str) -> tuple[PodAffinityTerm, ...]:
    """Return the required terms of pod affinity or anti-affinity.

    Parameters
    ----------
    path : str
        A value of `POD_TERMS`.
    """
    affinity: PodAffinity | None = getattr(spec.affinity, path.split(".")[1], None)
    return affinity.required if affinity is not None else ()


def pod_term_text(term: PodAffinityTerm) -> str:
    """Return a pod affinity term on one line."""
    selector = term.label_selector
    labels = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())] if selector else []
    labels += map(requirement_text, selector.match_expressions if selector else ())
    return f"{', '.join(labels) or ('all pods' if selector else 'no pods')} per {term.topology_key}"


def changed_term(pod: Pod, path: str, term: T, changed: T) -> Pod:
    """Return a pod with another item in place of one of a list of its spec.

    Parameters
    ----------
    path : str
        Of fields, to the list.
    """

    def change(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(changed if item == term else item for item in items)

    return edit_of(path, change)(pod)
