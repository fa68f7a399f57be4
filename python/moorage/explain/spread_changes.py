"""Changes of hard spread constraints that place a pod, short of dropping them: nodeTaintsPolicy,
nodeAffinityPolicy, minDomains, maxSkew. Each is confirmed by a search of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from moorage._core.decide.terms import DomainCounts
from moorage.objects.model.pod import TopologySpreadConstraint

from .constraints import SPREADS, TOPOLOGY_SPREAD, Constraint, changed_term, hard_spreads, spread_text
from .devices.device_changes import largest
from .probe import Probe
from .single_change import SPREAD, Change


def spread_changes(probe: Probe) -> Iterator[Change]:
    """Yield the changes of single fields of the pod's spread constraints that place it."""
    hard = hard_spreads(probe.pod.spec)
    if not hard:
        return
    state, ran = probe.begin(probe.pod)
    if ran.rejection is not None:
        return
    read = state.terms.hard_counts()
    for constraint, (counts, own, _, min_domains) in zip(hard, read, strict=True):
        domains = counts.by_domain()
        if constraint.node_taints_policy != "Honor":
            yield from _tried(probe, constraint, "nodeTaintsPolicy", "Honor")
        if constraint.node_affinity_policy == "Ignore":
            yield from _tried(probe, constraint, "nodeAffinityPolicy", "Honor")
        if 0 < len(domains) < min_domains:
            yield from _tried(probe, constraint, "minDomains", len(domains))
        yield from _larger_skew(probe, constraint, counts, own)


def _larger_skew(
    probe: Probe, constraint: TopologySpreadConstraint, counts: DomainCounts, own: int
) -> Iterator[Change]:
    """Yield the change to the least maxSkew that places the pod."""
    pods = [many for many, _ in counts.by_domain().values()]
    most = max(pods, default=0) + own  # more than this no domain has
    skews = range(most, constraint.max_skew, -1)

    def fits(at: int) -> bool:
        changed = changed_term(probe.pod, SPREADS, constraint, replace(constraint, max_skew=skews[at]))
        return probe.count_feasible(changed) > 0

    if len(skews) and fits(0):
        yield from _tried(probe, constraint, "maxSkew", skews[largest(len(skews) - 1, fits)])


FIELDS = {
    "nodeTaintsPolicy": "node_taints_policy",
    "nodeAffinityPolicy": "node_affinity_policy",
    "minDomains": "min_domains",
    "maxSkew": "max_skew",
}
"""Fields by their names in manifests."""
DEFAULTS = {"nodeTaintsPolicy": "Ignore", "minDomains": 1}


def _tried(probe: Probe, constraint: TopologySpreadConstraint, name: str, value: object) -> Iterator[Change]:
    """Yield the change of a field if it places the pod."""
    changed = replace(constraint, **{FIELDS[name]: value})
    edit = partial(changed_term, path=SPREADS, term=constraint, changed=changed)
    pod = edit(probe.pod)
    feasible = probe.count_feasible(pod)
    if feasible:
        before = getattr(constraint, FIELDS[name]) or DEFAULTS.get(name, "")
        tried = Constraint(TOPOLOGY_SPREAD, spread_text(constraint), edit)
        yield Change(
            SPREAD,
            f"set {name}: {value} (now {before}) in {tried.text}",
            feasible,
            pod,
            resource=name,
            before=str(before),
            after=str(value),
            constraint=tried,
        )
