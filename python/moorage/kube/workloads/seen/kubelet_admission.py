"""Which pods a kubelet refuses, of those that come to its node without the scheduler (kubernetes v1.36,
pkg/kubelet/eviction/eviction_manager.go, pkg/kubelet/lifecycle/predicate.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests
from moorage._core.base.selectors import find_intolerable_taint
from moorage.kube.admission.pod_resources import is_best_effort
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Node, Taint
from moorage.kube.model.pod import Pod

from ..daemon_pods import should_continue

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
    return [one.type for one in node.status.conditions if one.type in PRESSURES and one.status == "True"]


def kubelet_refusals(new: Sequence[Pod], others: Iterable[Pod], nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return why kubelets refuse pods, by ``namespace/name``.

    Parameters
    ----------
    new : sequence of Pod
        In the order in which they come.
    others : iterable of Pod
        Those that are on nodes.
    nodes : mapping of str to Node
    """
    names, refusals = {pod.spec.node_name for pod in new}, dict[str, str]()
    used: dict[str, dict[str, Quantity]] = {name: {} for name in names}
    for pod in others:
        if pod.spec.node_name in names:
            _add(used[pod.spec.node_name], pod)
    for pod in new:
        name = pod.spec.node_name
        node = nodes.get(name)
        why = f"there is no node {name}" if node is None else _refusal(pod, node, used[name])
        if why:
            refusals[pod.key] = why
        else:
            _add(used[name], pod)
    return refusals


def _refusal(pod: Pod, node: Node, used: Mapping[str, Quantity]) -> str:
    """Return why a kubelet does not run a pod; "" if it does. A critical pod is refused less."""
    if any(one.type == "Ready" and one.status != "True" for one in node.status.conditions):
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
