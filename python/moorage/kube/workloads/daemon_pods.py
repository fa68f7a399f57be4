"""On which nodes a DaemonSet runs, and the spec of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests
from moorage._core.base.selectors import find_intolerable_taint, pod_matches_node_selector

from ..admission.pod_requests import is_best_effort
from ..model.meta import Object
from ..model.node import REJECTING_EFFECTS, Node, Taint
from ..model.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
)
from ..model.workload import DaemonSet
from ..read.object_defaults import NOT_READY, UNREACHABLE

_PRESSURES = tuple(
    f"node.kubernetes.io/{name}"
    for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_NETWORK = "node.kubernetes.io/network-unavailable"
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
        and find_intolerable_taint(node.spec.taints, spec.tolerations, REJECTING_EFFECTS) is None
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


def why_on_no_node(daemons: DaemonSet, nodes: Sequence[Node]) -> str:
    """Return why a DaemonSet makes a pod for none of some nodes; "" if it does for one."""
    template = daemons.spec.template.spec
    spec = replace(template, tolerations=daemon_tolerations(template))
    if any(should_run(spec, node) for node in nodes):
        return ""
    selected = [node for node in nodes if _matches(spec, node)]
    if selected:
        intolerable = (
            find_intolerable_taint(node.spec.taints, spec.tolerations, REJECTING_EFFECTS) for node in selected
        )
        taints = dict.fromkeys(taint.text for taint in intolerable if taint is not None)
        return f"it makes no pod, as it does not tolerate {' or '.join(taints)}"
    entries = set().union(*(node.metadata.labels.items() for node in nodes))
    lacking = sorted((spec.node_selector or {}).items() - entries)
    what = ", ".join(f"label {key}={value}" for key, value in lacking)
    return f"it makes no pod, as no node has {what or 'all that it selects'}"


def _matches(spec: PodSpec, node: Node) -> bool:
    return spec.node_name in ("", node.name) and pod_matches_node_selector(spec, node)


def pinned_spec(spec: PodSpec, node: str) -> PodSpec:
    """Return the spec of the pod for a node: it requires the node by ``matchFields``, in place of the
    template's required node affinity (kubernetes v1.36, ReplaceDaemonSetPodNodeNameNodeAffinity).
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


# ---- kubelet admission -------------------------------------------------------------------------------------
#
# Which pods a kubelet refuses, of those that come to its node without the scheduler (kubernetes v1.36,
# pkg/kubelet/eviction/eviction_manager.go, pkg/kubelet/lifecycle/predicate.go).

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
_MEMORY = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
_CRITICAL = 2_000_000_000
_ZERO = Quantity("0")


def pinned_by(obj: Object) -> str:
    """Return the node that the template of a workload names for all its pods; "" for none."""
    template = getattr(getattr(obj, "spec", None), "template", None)
    return "" if template is None else template.spec.node_name


def pressures_of(node: Node) -> list[str]:
    """Return the conditions of a node with which its kubelet refuses pods."""
    return [
        condition.type
        for condition in node.status.conditions
        if condition.type in PRESSURES and condition.status == "True"
    ]


def kubelet_refusals(new: Sequence[Pod], others: Iterable[Pod], nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return why pods do not start on the nodes that they name, as clauses by ``namespace/name``.

    Parameters
    ----------
    new : sequence of Pod
        In the order in which they come.
    others : iterable of Pod
        Those that are on nodes.
    """
    names, refusals = {pod.spec.node_name for pod in new}, dict[str, str]()
    used: dict[str, dict[str, Quantity]] = {name: {} for name in names}
    for pod in others:
        if pod.spec.node_name in names:
            _add(used[pod.spec.node_name], pod)
    for pod in new:
        name = pod.spec.node_name
        node = nodes.get(name)
        if node is None:
            refusals[pod.key] = f"there is no node {name}"
        elif why := _refusal(pod, node, used[name]):
            refusals[pod.key] = f"the kubelet of {name} refuses it: {why}"
        else:
            _add(used[name], pod)
    return refusals


def _refusal(pod: Pod, node: Node, used: Mapping[str, Quantity]) -> str:
    """Return why a kubelet does not run a pod; "" if it does. A critical pod is refused less."""
    if any(condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions):
        return "it is not ready"
    is_critical = (pod.spec.priority or 0) >= _CRITICAL
    pressures = [] if is_critical else pressures_of(node)
    tolerates_memory = find_intolerable_taint((_MEMORY,), pod.spec.tolerations, {"NoSchedule"}) is None
    if pressures and (pressures != ["MemoryPressure"] or (is_best_effort(pod) and not tolerates_memory)):
        return f"Pod was rejected: The node had condition: [{' '.join(pressures)}]"
    if taint := find_intolerable_taint(node.spec.taints, pod.spec.tolerations, {"NoExecute"}):
        return f"it does not tolerate taint {taint.text}"
    if not should_continue(pod.spec, node):
        return "its node selector or affinity does not match the node"
    for resource, amount in _requests(pod).items():
        allocatable, before = node.status.allocatable.get(resource), used.get(resource, _ZERO)
        if allocatable is not None and before + amount > Quantity(allocatable) and not is_critical:
            return f"OutOf{resource}: requested: {amount}, used: {before}, capacity: {allocatable}"
    return ""


def _requests(pod: Pod) -> dict[str, Quantity]:
    return {**pod_requests(pod), "pods": Quantity("1")}


def _add(used: dict[str, Quantity], pod: Pod) -> None:
    for resource, amount in _requests(pod).items():
        used[resource] = used.get(resource, _ZERO) + amount
