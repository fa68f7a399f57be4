"""On which nodes a DaemonSet runs, and the spec of its pods."""

from __future__ import annotations

from msgspec.structs import replace

from moorage._core.base.selectors import find_intolerable_taint, pod_matches_node_selector

from ..model.node import Node
from ..model.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Toleration,
)
from ..read.object_defaults import NOT_READY, UNREACHABLE

_PRESSURES = tuple(
    f"node.kubernetes.io/{name}"
    for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_NETWORK = "node.kubernetes.io/network-unavailable"
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
_EVICTING = frozenset({"NoExecute"})
_NAME_FIELD = "metadata.name"


def daemon_tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    """Return the tolerations of a daemon pod: the template's, and those added by the controller.

    Parameters
    ----------
    spec : PodSpec
        Pod spec of the template.
    """
    added = [Toleration(key=key, operator="Exists", effect="NoExecute") for key in (NOT_READY, UNREACHABLE)]
    keys = (*_PRESSURES, _NETWORK) if spec.host_network else _PRESSURES
    added += [Toleration(key=key, operator="Exists", effect="NoSchedule") for key in keys]
    same = {(item.key, item.operator, item.effect, item.value) for item in added}
    own = [
        item for item in spec.tolerations if (item.key, item.operator, item.effect, item.value) not in same
    ]
    return (*own, *added)


def should_run(spec: PodSpec, node: Node) -> bool:
    """Whether a DaemonSet creates a pod for a node (kubernetes v1.36, NodeShouldRunDaemonPod).

    Parameters
    ----------
    spec : PodSpec
        That of the template, with the tolerations of daemon pods.
    """
    return (
        _matches(spec, node)
        and find_intolerable_taint(node.spec.taints, spec.tolerations, _REPELLING) is None
    )


def should_continue(spec: PodSpec, node: Node) -> bool:
    """Whether a pod that a DaemonSet has on a node stays there: unlike a new one it may have a NoSchedule
    taint that it does not tolerate (kubernetes v1.36, NodeShouldRunDaemonPod).

    Parameters
    ----------
    spec : PodSpec
        That of the template, with the tolerations of daemon pods.
    """
    return (
        _matches(spec, node) and find_intolerable_taint(node.spec.taints, spec.tolerations, _EVICTING) is None
    )


def _matches(spec: PodSpec, node: Node) -> bool:
    return spec.node_name in ("", node.name) and pod_matches_node_selector(spec, node)


def pinned_spec(spec: PodSpec, node: str) -> PodSpec:
    """Return the spec of the pod for a node: it requires the node by ``matchFields``, in place of the
    template's required node affinity (kubernetes v1.36, ReplaceDaemonSetPodNodeNameNodeAffinity).

    Parameters
    ----------
    spec : PodSpec
        That of the template.
    """
    requirement = NodeSelectorRequirement(key=_NAME_FIELD, operator="In", values=(node,))
    term = NodeSelectorTerm(match_fields=(requirement,))
    affinity = spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    required = NodeSelector(node_selector_terms=(term,))
    node_affinity = replace(node_affinity, required=required)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def node_of(spec: PodSpec) -> str:
    """Return the node that a daemon pod has or requires (kubernetes v1.36, GetTargetNodeName).

    Returns
    -------
    str
        "" if it has and requires none.
    """
    if spec.node_name or spec.affinity is None or spec.affinity.node_affinity is None:
        return spec.node_name
    required = spec.affinity.node_affinity.required
    for term in required.node_selector_terms if required else ():
        for requirement in term.match_fields:
            if requirement.key == _NAME_FIELD and requirement.operator == "In" and requirement.values:
                return requirement.values[0]
    return ""
