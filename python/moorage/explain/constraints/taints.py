"""Taints of nodes that a pod does not tolerate, and cordons: how they are tolerated, and by which nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from moorage._core.base import sets
from moorage._core.base.selectors import tolerates
from moorage.changes.drain import with_cordon
from moorage.changes.node_copies import is_leaving, is_of_a_moment
from moorage.framework import Plugin, Status
from moorage.framework.plugin.evidence import Evidence, FindEvidence, Inquiry, Need, Rows
from moorage.objects import Node, Pod, Taint, Toleration
from moorage.plugins.node_unschedulable import UNSCHEDULABLE, NodeUnschedulable
from moorage.plugins.taint_toleration import REJECTING_EFFECTS, TaintToleration

from ..probe import Probe
from .constraint import TOLERATE, UNCORDON, Change, Constraint, tried
from .other_pods import has_pod_terms, without_pod_terms

EVERY_TAINT = Toleration(operator="Exists")
MOST_TAINTS = 32
"""Maximum number of taint constraints, where more different taints count as one; and of combinations of
taints that are tried."""
MOST_CORDONS = 32
"""Maximum number of cordons that are tried node by node, where the pods of other nodes matter too."""


class Untolerated(Constraint):
    """A taint of nodes that the pod does not tolerate."""

    def remedies(self, probe: Probe) -> Iterator[Change]:
        yield from tolerations(probe)


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


def untolerated(having: Sequence[sets.Toleration], taints: Iterable[Taint], is_cordoned: bool) -> list[Taint]:
    """Return the taints of a node that keep a pod off that has tolerations. A cordon is `UNSCHEDULABLE`."""
    listed = [Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints]
    if is_cordoned and UNSCHEDULABLE not in listed:
        listed.insert(0, UNSCHEDULABLE)
    rejecting = (taint for taint in listed if taint.effect in REJECTING_EFFECTS)
    return [taint for taint in rejecting if not tolerates(having, taint, True)]


def _of_node(probe: Probe, node: Node) -> tuple[Taint, ...]:
    return tuple(untolerated(probe.tolerations, node.spec.taints, node.spec.unschedulable))


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


def toleration_of(taints: Sequence[Taint]) -> Toleration:
    """Return the narrowest single toleration of taints that share a key; of one of a moment, the value of
    which may be a time, for any value."""
    key, value, effect = taints[0].key, taints[0].value, taints[0].effect
    if len(taints) > 1:
        effect = ""
    if any(taint.value != value for taint in taints) or (value and is_of_a_moment(taints[0])):
        return Toleration(key=key, operator="Exists", effect=effect)
    return Toleration(key=key, operator="Equal", value=value, effect=effect)


def tolerate(pod: Pod, toleration: Toleration) -> Pod:
    """Return the pod with one more toleration."""
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration)))


def tolerations(probe: Probe) -> Iterator[Change]:
    """Yield changes that add one toleration."""
    for taints in _single_key_taints(probe):
        added = toleration_of(taints)
        value = f"={added.value}" if added.value else ""
        text = f"tolerate {added.key}{value}:{added.effect or '*'}"
        values = {"toleration": msgspec.to_builtins(added)}
        yield from tried(probe, TOLERATE, text, partial(tolerate, toleration=added), values)


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


def uncordons(probe: Probe) -> Iterator[Change]:
    """Yield the change that uncordons a node, for as many nodes as it would help on, one at a time."""
    pod = tolerate(probe.pod, toleration_of([UNSCHEDULABLE]))
    if has_pod_terms(pod.spec):  # which nodes count may change with the cordon
        nodes = [node for node in probe.nodes(probe.rows()) if node.spec.unschedulable][:MOST_CORDONS]
        helped = [node for node in nodes if probe.count_feasible_with(with_cordon(node, False))]
    else:
        helped = [node for node in probe.nodes(probe.feasible(pod)) if node.spec.unschedulable]
    if helped:
        node = with_cordon(helped[0], False)
        text, feasible = f"uncordon node {node.name}", probe.count_feasible_with(node)
        values = {"node": node.name, "eligibleNodes": len(helped)}
        yield Change(UNCORDON, text, feasible, probe.pod, values=values, node=node)
