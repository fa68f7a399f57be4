"""How each constraint of a pod is loosened. Each change is confirmed by a search of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from moorage._core.decide.terms import DomainCounts
from moorage.engine.devices.allocation.claim_requests import MAX_RESULTS
from moorage.engine.framework.plugin.amounts import offered, quantity_text
from moorage.engine.requirements.constraint import Constraint
from moorage.engine.requirements.lowering import Edit, Request, effective_request, lower
from moorage.engine.requirements.node_selection import Untolerated
from moorage.engine.requirements.terms import SPREADS, Spread, changed_term, hard_spreads
from moorage.kube import Pod

from ..probe import Probe, largest
from .offered_change import DROP, LOWER, SPREAD, Change, tried
from .taints import tolerations

FIELDS = {
    "nodeTaintsPolicy": "node_taints_policy",
    "nodeAffinityPolicy": "node_affinity_policy",
    "minDomains": "min_domains",
    "maxSkew": "max_skew",
}
"""Fields of a spread constraint by their names in manifests."""
DEFAULTS = {"nodeTaintsPolicy": "Ignore", "minDomains": 1}


def remedies(probe: Probe, constraint: Constraint) -> Iterator[Change]:
    """Yield the changes that loosen a constraint of the pod, or else drop it, and place the pod."""
    return _REMEDIES.get(type(constraint), _dropped)(probe, constraint)


def _dropped(probe: Probe, constraint: Constraint) -> Iterator[Change]:
    values = {"constraint": constraint.named}
    yield from tried(probe, DROP, f"drop {constraint.text}", constraint.drop, values)


def _tolerated(probe: Probe, taint: Untolerated) -> Iterator[Change]:
    yield from tolerations(probe)


# ---- requests ----------------------------------------------------------------------------------------------


def _lowered(probe: Probe, request: Request) -> Iterator[Change]:
    """Yield the change to the largest request that fits some node."""
    resource, gates, table = request.name, probe.gates, probe.table
    rows = probe.feasible(request.drop(probe.pod))
    if not len(rows):
        return
    free = table.allocatable[resource][rows] - table.requested[resource][rows]
    before, after = effective_request(probe.pod, resource, gates), max(int(np.max(free)), 0)
    if probe.devices is not None and resource in probe.devices.resources:
        after = max(after, _most_devices(probe, resource, before))
    lowered = lower(probe.pod, resource, after, gates) if after < before else None
    if lowered is None:
        return
    pod, edits = lowered
    left = effective_request(pod, resource, gates)
    texts = quantity_text(resource, before), quantity_text(resource, left)

    def lower_alike(other: Pod) -> Pod:
        lowered = lower(other, resource, left, gates)
        return other if lowered is None else lowered[0]

    amount = float(Fraction(before - left, before))
    values = {
        "resource": resource,
        "from": texts[0],
        "to": texts[1],
        "reduction": round(amount, 6),
        "edits": [
            {"path": edit.path, "container": edit.container, "from": edit.before, "to": edit.after}
            for edit in edits
        ],
    }
    text = _lower_text(resource, edits, offered(resource, before), offered(resource, left))
    yield Change(LOWER, text, probe.count_feasible(pod), pod, lower_alike, amount, values)


def _most_devices(probe: Probe, resource: str, before: int) -> int:
    """Return the largest request below the present one of a resource that is provided as devices."""

    def fits(amount: int) -> bool:
        lowered = lower(probe.pod, resource, amount, probe.gates)
        return lowered is not None and probe.count_feasible(lowered[0]) > 0

    return largest(min(before - 1, MAX_RESULTS), fits)


def _lower_text(resource: str, edits: list[Edit], before: str, after: str) -> str:
    """Return the description of lower requests."""
    if len(edits) > 1:
        return f"lower the {resource} request from {before} to {after}, over {len(edits)} places"
    of = f"container {edits[0].container}" if edits[0].container else "the pod"
    return f"lower the {resource} request of {of} from {edits[0].before} to {edits[0].after}"


# ---- spreading ---------------------------------------------------------------------------------------------


def _spread_anew(probe: Probe, constraint: Spread) -> Iterator[Change]:
    """Yield the changes of a single field that place the pod, and that without the constraint."""
    yield from _dropped(probe, constraint)
    spread, hard = constraint.spread, hard_spreads(probe.pod.spec)
    state, ran = probe.begin(probe.pod)
    if ran.rejection is not None or spread not in hard:
        return
    counts, own, _, min_domains = state.terms.hard_counts()[hard.index(spread)]
    domains = counts.by_domain()
    if spread.node_taints_policy != "Honor":
        yield from _with_field(probe, constraint, "nodeTaintsPolicy", "Honor")
    if spread.node_affinity_policy == "Ignore":
        yield from _with_field(probe, constraint, "nodeAffinityPolicy", "Honor")
    if 0 < len(domains) < min_domains:
        yield from _with_field(probe, constraint, "minDomains", len(domains))
    yield from _larger_skew(probe, constraint, counts, own)


def _larger_skew(probe: Probe, constraint: Spread, counts: DomainCounts, own: int) -> Iterator[Change]:
    """Yield the change to the least maxSkew that places the pod."""
    most = max((pods for pods, _ in counts.by_domain().values()), default=0) + own  # no domain has more
    spread = constraint.spread
    skews = range(most, spread.max_skew, -1)

    def fits(at: int) -> bool:
        changed = replace(spread, max_skew=skews[at])
        return probe.count_feasible(changed_term(probe.pod, SPREADS, spread, changed)) > 0

    if len(skews) and fits(0):
        yield from _with_field(probe, constraint, "maxSkew", skews[largest(len(skews) - 1, fits)])


def _with_field(probe: Probe, constraint: Spread, name: str, value: object) -> Iterator[Change]:
    """Yield the change of a field if it places the pod."""
    spread = constraint.spread
    changed = replace(spread, **{FIELDS[name]: value})
    before = str(getattr(spread, FIELDS[name]) or DEFAULTS.get(name, ""))
    text = f"set {name}: {value} (now {before}) in {constraint.text}"
    edit = partial(changed_term, path=SPREADS, term=spread, changed=changed)
    values = {"constraint": constraint.named, "field": name, "from": before, "to": str(value)}
    yield from tried(probe, SPREAD, text, edit, values)


_REMEDIES: dict[type[Constraint], Callable[[Probe, Any], Iterator[Change]]] = {
    Request: _lowered,
    Untolerated: _tolerated,
    Spread: _spread_anew,
}
"""By the class of the constraint; those of other classes are dropped."""
