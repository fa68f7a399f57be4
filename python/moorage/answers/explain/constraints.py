"""The constraints of a pod: which of them exclude one another, and how each is loosened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from moorage._core.decide.terms import DomainCounts
from moorage.cluster.helpful_changes import (
    OF_ROLES,
    HelpfulChange,
    Kind,
    ObjectEdit,
    dropped,
    lowered,
    of_pod,
    tolerated,
)
from moorage.cluster.node_changes import with_cordon
from moorage.engine.devices.claim_requests import MAX_RESULTS
from moorage.engine.plugins.node_affinity_and_taints import UNSCHEDULABLE
from moorage.engine.requirements import (
    SPREADS,
    Constraint,
    Request,
    Spread,
    Untolerated,
    changed_term,
    effective_request,
    hard_spreads,
    has_pod_terms,
    lower,
    request_constraints,
    term_constraints,
    tolerate,
    toleration_of,
    untolerated,
    without_pod_terms,
)
from moorage.kube import Node, Pod, Taint, Toleration
from moorage.kube.model.node import is_leaving, is_of_a_moment

from .probe import Probe, largest

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
        yield Untolerated("taint", "every taint", partial(tolerate, toleration=EVERY_TAINT))
        return
    for taint, _ in counts.most_common():
        yield Untolerated("taint", taint.text, partial(tolerate, toleration=toleration_of([taint])))


def _of_node(probe: Probe, node: Node) -> tuple[Taint, ...]:
    return tuple(untolerated(probe.tolerations, node.spec.taints, node.spec.unschedulable))


def tolerations(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield changes that add one toleration."""
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
        is_cordon = node.spec.unschedulable and taints == (UNSCHEDULABLE,)  # see `uncordons`
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


# ---- sets that cannot be satisfied together ----------------------------------------------------------------


def find_conflicts(probe: Probe) -> tuple[list[list[Constraint]], str]:
    """Find disjoint sets of constraints, each of which alone makes all nodes infeasible and is minimal by
    inclusion. The pod fits once all of these constraints are dropped.

    Parameters
    ----------
    probe : Probe
        Of the pod that fits nowhere.

    Returns
    -------
    blocked : str
        FitError text of the pod without any constraint, if it fits nowhere even then; there are no conflicts
        in that case.
    """
    every = pod_constraints(probe)
    bare = _with_only(probe, every, [])
    if not probe.count_feasible(bare):
        return [], probe.fit_error(bare)
    conflicts: list[list[Constraint]] = []
    remaining = every
    while not probe.count_feasible(_with_only(probe, every, remaining)):
        conflict = _minimal(probe, every, remaining)
        conflicts.append(conflict)
        remaining = [constraint for constraint in remaining if constraint not in conflict]
    return conflicts, ""


def pod_constraints(probe: Probe) -> list[Constraint]:
    """Return all constraints of the pod, without overlaps.

    Parameters
    ----------
    probe : Probe
        Of the pod that fits nowhere.
    """
    return [
        *request_constraints(probe.resources),
        *taint_constraints(probe),
        *term_constraints(probe.pod),
    ]


def _with_only(probe: Probe, every: list[Constraint], only: list[Constraint]) -> Pod:
    """Return the pod with only these constraints."""
    pod = probe.pod
    for constraint in every:
        if constraint not in only:
            pod = constraint.drop(pod)
    return pod


def _minimal(probe: Probe, every: list[Constraint], conflict: list[Constraint]) -> list[Constraint]:
    """Return a subset of a conflict that makes all nodes infeasible and is minimal by inclusion."""
    for constraint in conflict:
        if not probe.count_feasible(_with_only(probe, every, [constraint])):
            return [constraint]
    size = 0
    while size != len(conflict):  # one pass, unless dropping a constraint makes another one stricter
        size = len(conflict)
        for constraint in conflict:
            fewer = [each for each in conflict if each != constraint]
            if not probe.count_feasible(_with_only(probe, every, fewer)):
                conflict = fewer
    return conflict


# ---- how each is loosened ----------------------------------------------------------------------------------

FIELDS = {
    "nodeTaintsPolicy": "node_taints_policy",
    "nodeAffinityPolicy": "node_affinity_policy",
    "minDomains": "min_domains",
    "maxSkew": "max_skew",
}
"""Fields of a spread constraint by their names in manifests."""
DEFAULTS = {"nodeTaintsPolicy": "Ignore", "minDomains": 1}


def remedies(probe: Probe, constraint: Constraint) -> Iterator[HelpfulChange]:
    """Yield the changes that loosen a constraint of the pod, or else drop it, and place the pod."""
    return _REMEDIES.get(type(constraint), _dropped)(probe, constraint)


def _dropped(probe: Probe, constraint: Constraint) -> Iterator[HelpfulChange]:
    yield from probe.tried(dropped(constraint))


def _tolerated(probe: Probe, taint: Untolerated) -> Iterator[HelpfulChange]:
    yield from tolerations(probe)


# ---- requests ----------------------------------------------------------------------------------------------


def _lowered(probe: Probe, request: Request) -> Iterator[HelpfulChange]:
    """Yield the change to the largest request that fits some node."""
    resource, table = request.name, probe.table
    rows = probe.feasible(request.drop(probe.pod))
    if not len(rows):
        return
    free = table.allocatable[resource][rows] - table.requested[resource][rows]
    most = max(int(np.max(free)), 0)
    if probe.evicts or (probe.devices is not None and resource in probe.devices.resources):
        before = effective_request(probe.pod, resource, probe.gates)
        most = max(most, _most_tried(probe, resource, before))
    for change in lowered(probe.pod, resource, most, probe.gates):
        yield from probe.tried(change)


def _most_tried(probe: Probe, resource: str, before: int) -> int:
    """Return the largest request below the present one that helps, where free room does not tell it: of a
    resource that is provided as devices, or of a pod that evicts others."""

    def fits(amount: int) -> bool:
        smaller = lower(probe.pod, resource, amount, probe.gates)
        return smaller is not None and probe.count_feasible(smaller[0]) > 0

    return largest(before - 1 if probe.evicts else min(before - 1, MAX_RESULTS), fits)


# ---- spreading ---------------------------------------------------------------------------------------------


def _spread_anew(probe: Probe, constraint: Spread) -> Iterator[HelpfulChange]:
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


def _larger_skew(probe: Probe, constraint: Spread, counts: DomainCounts, own: int) -> Iterator[HelpfulChange]:
    """Yield the change to the least maxSkew that places the pod."""
    most = max((pods for pods, _ in counts.by_domain().values()), default=0) + own  # no domain has more
    spread = constraint.spread
    skews = range(most, spread.max_skew, -1)

    def fits(at: int) -> bool:
        changed = replace(spread, max_skew=skews[at])
        return probe.count_feasible(changed_term(probe.pod, SPREADS, spread, changed)) > 0

    if len(skews) and fits(0):
        yield from _with_field(probe, constraint, "maxSkew", skews[largest(len(skews) - 1, fits)])


def _with_field(probe: Probe, constraint: Spread, name: str, value: object) -> Iterator[HelpfulChange]:
    """Yield the change of a field if it places the pod."""
    spread = constraint.spread
    changed = replace(spread, **{FIELDS[name]: value})
    before = str(getattr(spread, FIELDS[name]) or DEFAULTS.get(name, ""))
    text = f"set {name}: {value} (now {before}) in {constraint.text}"
    edit = of_pod(partial(changed_term, path=SPREADS, term=spread, changed=changed))
    values = {"constraint": constraint.named, "field": name, "from": before, "to": str(value)}
    yield from probe.tried(HelpfulChange(Kind.SPREAD, text, (edit,), values=values))


_REMEDIES: dict[type[Constraint], Callable[[Probe, Any], Iterator[HelpfulChange]]] = {
    Request: _lowered,
    Untolerated: _tolerated,
    Spread: _spread_anew,
}
"""By the class of the constraint; those of other classes are dropped."""
