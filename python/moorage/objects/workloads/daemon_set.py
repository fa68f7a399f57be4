"""DaemonSet expansion: one pod per eligible node."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from moorage.objects.model.node import Node
from moorage.objects.model.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Toleration,
)
from moorage.objects.model.selectors import find_intolerable_taint, pod_matches_node_selector
from moorage.objects.model.workload import DaemonSet
from moorage.objects.read.object_defaults import NOT_READY, UNREACHABLE

from .expansion import Expansion, PodMaker
from .naming import template_hash
from .ownership import FINISHED

_PRESSURES = tuple(
    f"node.kubernetes.io/{name}"
    for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_NETWORK = "node.kubernetes.io/network-unavailable"
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
_NAME_FIELD = "metadata.name"


def expand_daemon_set(expansion: Expansion, obj: DaemonSet, nodes: Iterable[Node]) -> None:
    """Make the missing pods of a DaemonSet in the order of the nodes.

    A node should run one if the template's node name, node selector and required node affinity admit it
    and its NoSchedule and NoExecute taints are tolerated, by the template or by the tolerations that all
    daemon pods have (kubernetes v1.36, NodeShouldRunDaemonPod, AddOrUpdateDaemonPodTolerations). The new
    pod requires that node by ``matchFields``, in place of the template's required node affinity
    (ReplaceDaemonSetPodNodeNameNodeAffinity); an unschedulable node counts like any other. A pod that is
    being deleted still occupies its node.

    Parameters
    ----------
    expansion : Expansion
    obj : DaemonSet
    nodes : iterable of Node

    Raises
    ------
    InputError
        There would be more than `MAX_PODS` pods.
    """
    present = expansion.index.owned(obj) + expansion.index.adopt(obj.namespace, obj.spec.selector)
    occupied = {_node_of(pod.spec) for pod in present if pod.status.phase not in FINISHED}
    spec = obj.spec.template.spec
    spec = replace(spec, tolerations=daemon_tolerations(spec))
    maker = PodMaker(expansion, obj, obj.spec.template)
    labels = {"controller-revision-hash": template_hash(obj.spec.template)}
    missing = [node.name for node in nodes if node.name not in occupied and _should_run(spec, node)]
    for i in expansion.count(obj, len(missing), "spec"):
        maker.make(base=f"{obj.name}-", labels=labels, spec=_pinned(spec, missing[i]))


def daemon_tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    """The tolerations of a daemon pod: the template's, and those added by the controller.

    Parameters
    ----------
    spec : PodSpec
        The template's.
    """
    added = [Toleration(key=key, operator="Exists", effect="NoExecute") for key in (NOT_READY, UNREACHABLE)]
    keys = (*_PRESSURES, _NETWORK) if spec.host_network else _PRESSURES
    added += [Toleration(key=key, operator="Exists", effect="NoSchedule") for key in keys]
    same = {(item.key, item.operator, item.effect, item.value) for item in added}
    own = [
        item for item in spec.tolerations if (item.key, item.operator, item.effect, item.value) not in same
    ]
    return (*own, *added)


def _should_run(spec: PodSpec, node: Node) -> bool:
    return (
        spec.node_name in ("", node.name)
        and pod_matches_node_selector(spec, node)
        and find_intolerable_taint(node.spec.taints, spec.tolerations, _REPELLING) is None
    )


def _pinned(spec: PodSpec, node: str) -> PodSpec:
    term = NodeSelectorTerm(
        match_fields=(NodeSelectorRequirement(key=_NAME_FIELD, operator="In", values=(node,)),)
    )
    affinity = spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    required = NodeSelector(node_selector_terms=(term,))
    node_affinity = replace(node_affinity, required=required)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def _node_of(spec: PodSpec) -> str:
    """The node that a daemon pod is on or requires (kubernetes v1.36, GetTargetNodeName)."""
    if spec.node_name or spec.affinity is None or spec.affinity.node_affinity is None:
        return spec.node_name
    required = spec.affinity.node_affinity.required
    for term in required.node_selector_terms if required else ():
        for requirement in term.match_fields:
            if requirement.key == _NAME_FIELD and requirement.operator == "In" and requirement.values:
                return requirement.values[0]
    return ""
