"""Taints of nodes that a pod does not tolerate, and cordons: which there are, and changes that would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import msgspec
from msgspec.structs import replace

from moorage.cluster.changes.drain import with_cordon
from moorage.engine.plugins.node_unschedulable import UNSCHEDULABLE
from moorage.engine.requirements.constraint import Constraint
from moorage.engine.requirements.node_selection import Untolerated, tolerate, toleration_of, untolerated
from moorage.engine.requirements.terms import has_pod_terms, without_pod_terms
from moorage.kube import Node, Taint, Toleration
from moorage.kube.model.node import is_leaving

from ..probe import Probe
from .offered_change import TOLERATE, UNCORDON, Change, tried

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
