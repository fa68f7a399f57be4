"""What a new node of a group looks like: a copy of a real node where there is a good one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster.changes.drain import MIRROR_ANNOTATION
from moorage.kube import Node, ObjectMeta, Pod
from moorage.kube.model.node import HOSTNAME
from moorage.kube.model.resource_slices import ResourceSlice
from moorage.kube.model.workload import DaemonSet
from moorage.kube.workloads.daemon_pods import should_run
from moorage.kube.workloads.missing_pods import daemon_spec, new_pod

from .flags import NodeGroup
from .node_states import TO_BE_DELETED, ClusterStates, is_startup_taint

TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"
STABLE = 60.0
"""Seconds after which a ready node is a good example of its group."""
_DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
_STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"
_PASSING = frozenset(
    (
        *(TO_BE_DELETED, "DeletionCandidateOfClusterAutoscaler", "NodeWithImpairedVolumes"),
        *("cloud.google.com/impending-node-termination", "node.kubernetes.io/network-unavailable"),
        *(f"node.cloudprovider.kubernetes.io/{name}" for name in ("uninitialized", "shutdown")),
        *(f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable", "unschedulable")),
        *(f"node.kubernetes.io/{name}-pressure" for name in ("memory", "disk", "pid")),
    )
)
_OLD_LABELS = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
}


@dataclass(frozen=True)
class Template:
    """A new node of a group, with the pods and device slices that it has from the start; `like` is the node
    that it copies, or ""."""

    node: Node
    pods: tuple[Pod, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    like: str = ""

    def copy(self, suffix: str) -> Template:
        """Return another node of the group; the suffix makes its name and those of its pods."""
        name = f"{self.node.name}-{suffix}"
        pods = tuple([_fresh_pod(pod, name, suffix) for pod in self.pods])
        slices = _fresh_slices(self.slices, name, suffix)
        return Template(_renamed(self.node, name), pods, slices)


def is_daemon_pod(pod: Pod) -> bool:
    """Whether a pod counts as one of a DaemonSet."""
    owner = pod.metadata.controller()
    return (owner is not None and owner.kind == "DaemonSet") or (
        pod.metadata.annotations.get(_DAEMON_POD) == "true"
    )


def is_mirror_pod(pod: Pod) -> bool:
    """Whether a pod mirrors a static one."""
    return MIRROR_ANNOTATION in pod.metadata.annotations


class TemplateMaker(Struct, frozen=True):
    """Makes the templates of groups.

    Parameters
    ----------
    pods_of : callable
        Returns the pods on a node.
    """

    states: ClusterStates
    daemon_sets: Sequence[DaemonSet]
    pods_of: Callable[[str], Iterable[Pod]]

    def all(self) -> dict[str, Template]:
        """Return the template of each group that has one: of its first good node, else the one remembered,
        else the provider's, else of a bad node."""
        known, found = self.states.memory.templates, dict[str, Template]()
        good, bad = list[Node](), list[Node]()
        for node in self.states.nodes:
            (good if self._is_good(node) else bad).append(node)
        self._add_of_nodes(good, found)
        known |= found
        for name, group in self.states.groups.items():
            if name not in found and name in known:
                found[name] = known[name]
            elif name not in found and group.template is not None:
                found[name] = self._of_group(group, group.template)
        self._add_of_nodes(bad, found)
        return found

    def _add_of_nodes(self, nodes: Iterable[Node], found: dict[str, Template]) -> None:
        """Add templates of groups without one, like the first of some nodes."""
        for node in nodes:
            group = self.states.group_of.get(node.name)
            if group is not None and group not in found:
                slices = self.states.slices.get(node.name, ())
                made = self._made(node, group, self.pods_of(node.name), self.states.flags.force_ds)
                found[group] = replace_fields(
                    made, slices=_fresh_slices(slices, made.node.name, "t"), like=node.name
                )

    def _is_good(self, node: Node) -> bool:
        state = self.states.of[node.name]
        is_stable = state.is_ready and state.since + STABLE < self.states.now
        marked = any(taint.key == TO_BE_DELETED for taint in node.spec.taints)
        return is_stable and not node.spec.unschedulable and not marked

    def _of_group(self, group: NodeGroup, template: Node) -> Template:
        labels = template.metadata.labels
        old = {name: labels[new] for new, name in _OLD_LABELS.items() if new in labels}
        node = replace(template, metadata=replace(template.metadata, labels=labels | old))
        made = self._made(node, group.name, group.template_pods, True)
        return replace_fields(made, slices=_fresh_slices(group.template_slices, made.node.name, "t"))

    def _made(self, node: Node, group: str, pods: Iterable[Pod], forces: bool) -> Template:
        """A template with mirror pods and those of DaemonSets: all of them that may run there if `forces`."""
        clean = self._clean(node, f"template-node-for-{group}")
        there = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        kept = [pod for pod in there if is_mirror_pod(pod) or is_daemon_pod(pod)]
        owners = [owner for pod in there if (owner := pod.metadata.controller()) is not None]
        running = {owner.uid for owner in owners if owner.kind == "DaemonSet"}
        for one in self.daemon_sets:
            if one.metadata.uid not in running and should_run(daemon_spec(one), clean):
                pod = new_pod(one, one.spec.template, name=one.name, spec=daemon_spec(one))
                if forces or _is_critical(pod):
                    kept.append(pod)
        fresh = tuple([_fresh_pod(pod, clean.name, "t") for pod in kept])
        labels = clean.metadata.labels | {TEMPLATE_LABEL: "true"}
        return Template(replace(clean, metadata=replace(clean.metadata, labels=labels)), fresh)

    def _clean(self, node: Node, name: str) -> Node:
        """A copy without what belongs to the moment."""
        status = (*self.states.flags.status_taints, _STATUS_PREFIX)
        taints = tuple(
            taint
            for taint in node.spec.taints
            if taint.key not in _PASSING
            and not is_startup_taint(taint.key, self.states.flags)
            and not (taint.key in status or taint.key.startswith(_STATUS_PREFIX))
        )
        cordoned = node.spec.unschedulable and not self.states.flags.scale_from_unschedulable
        spec = replace(node.spec, taints=taints, unschedulable=cordoned)
        return _renamed(replace(node, spec=spec), name)


def _renamed(node: Node, name: str) -> Node:
    meta = node.metadata
    labels = meta.labels | {HOSTNAME: name}
    return replace(node, metadata=ObjectMeta(name=name, labels=labels, annotations=meta.annotations))


def _fresh_slices(slices: Iterable[ResourceSlice], node: str, suffix: str) -> tuple[ResourceSlice, ...]:
    """Slices of the same devices on another node, in pools of its own."""
    out = []
    for one in slices:
        pool = replace(one.spec.pool, name=f"{one.spec.pool.name}-{suffix}")
        spec = replace(one.spec, node_name=node, pool=pool)
        out.append(replace(one, metadata=ObjectMeta(name=f"{one.name}-{suffix}"), spec=spec))
    return tuple(out)


def _fresh_pod(pod: Pod, node: str, suffix: str) -> Pod:
    meta = pod.metadata
    name = f"{meta.name}-{suffix}"
    meta = replace(meta, name=name, uid=f"{meta.namespace}/{name}@{node}", resource_version="")
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))


def _is_critical(pod: Pod) -> bool:
    spec, is_critical = pod.spec, pod.spec.priority_class_name == "system-node-critical"
    return is_critical and spec.preemption_policy in (None, "PreemptLowerPriority")
