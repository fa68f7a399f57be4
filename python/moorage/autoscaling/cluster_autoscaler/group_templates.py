"""What a new node of a group looks like: a copy of a real node where there is a good one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from msgspec.structs import replace

from moorage.changes.drain import MIRROR_ANNOTATION
from moorage.objects import Node, ObjectMeta, Pod
from moorage.objects.model.meta import OwnerReference
from moorage.objects.model.node import HOSTNAME
from moorage.objects.model.resource_slices import ResourceSlice
from moorage.objects.model.workload import DaemonSet
from moorage.objects.workloads.daemon_pods import should_run
from moorage.objects.workloads.missing_pods import daemon_spec

from .flags import Flags, Memory, NodeGroup
from .node_states import TO_BE_DELETED, NodeStates, is_startup_taint

TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"
STABLE = 60.0
"""Seconds after which a ready node is a good example of its group."""
_DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
_STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"
_PASSING = frozenset(
    (
        TO_BE_DELETED,
        "DeletionCandidateOfClusterAutoscaler",
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        *(
            f"node.kubernetes.io/{name}"
            for name in (
                "not-ready",
                "unreachable",
                "unschedulable",
                "memory-pressure",
                "disk-pressure",
                "network-unavailable",
                "pid-pressure",
            )
        ),
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


@dataclass(frozen=True)
class TemplateMaker:
    """Makes the templates of groups.

    Parameters
    ----------
    states : NodeStates
        Of the nodes.
    pods_of : callable
        Returns the pods on a node.
    slices_of : callable
        Returns the device slices of a node.
    """

    flags: Flags
    daemon_sets: Sequence[DaemonSet]
    states: NodeStates
    pods_of: Callable[[str], Iterable[Pod]]
    slices_of: Callable[[str], Sequence[ResourceSlice]]

    def all(
        self, groups: Iterable[NodeGroup], group_of: Mapping[str, str], memory: Memory, now: float
    ) -> dict[str, Template]:
        """Return the template of each group that has one: of its first good node, else the one remembered,
        else the provider's, else of a bad node."""
        found: dict[str, Template] = {}
        known: dict[str, Template] = memory.templates
        good = {node.name: self._is_good(node, now) for node in self.states.nodes}
        for node in self.states.nodes:
            group = group_of.get(node.name)
            if good[node.name] and group is not None and group not in found:
                known[group] = found[group] = self._of_node(node, group)
        for one in groups:
            if one.name not in found and one.name in known:
                found[one.name] = known[one.name]
            elif one.name not in found and one.template is not None:
                found[one.name] = self._of_group(one)
        for node in self.states.nodes:
            group = group_of.get(node.name)
            if not good[node.name] and group is not None and group not in found:
                found[group] = self._of_node(node, group)
        return found

    def _is_good(self, node: Node, now: float) -> bool:
        state = self.states.of(node.name)
        is_stable = state.is_ready and state.since + STABLE < now
        marked = any(taint.key == TO_BE_DELETED for taint in node.spec.taints)
        return is_stable and not node.spec.unschedulable and not marked

    def _of_group(self, group: NodeGroup) -> Template:
        assert group.template is not None
        made = self._made(group.template, group.name, group.template_pods, group.template_slices, True)
        labels = made.node.metadata.labels
        old = {name: labels[new] for new, name in _OLD_LABELS.items() if new in labels}
        meta = replace(made.node.metadata, labels=labels | old)
        return Template(replace(made.node, metadata=meta), made.pods, made.slices)

    def _of_node(self, node: Node, group: str) -> Template:
        pods, slices = self.pods_of(node.name), self.slices_of(node.name)
        return replace_fields(self._made(node, group, pods, slices, self.flags.force_ds), like=node.name)

    def _made(
        self,
        node: Node,
        group: str,
        pods: Iterable[Pod],
        slices: Sequence[ResourceSlice],
        forces: bool,
    ) -> Template:
        clean = self._clean(node, f"template-node-for-{group}")
        there = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        kept = [pod for pod in there if is_mirror_pod(pod) or is_daemon_pod(pod)]
        owners = [owner for pod in there if (owner := pod.metadata.controller()) is not None]
        running = {owner.uid for owner in owners if owner.kind == "DaemonSet"}
        for one in self.daemon_sets:
            if one.metadata.uid not in running and should_run(daemon_spec(one), clean):
                pod = _daemon_pod(one)
                if forces or _is_critical(pod):
                    kept.append(pod)
        fresh = tuple([_fresh_pod(pod, clean.name, "t") for pod in kept])
        labels = clean.metadata.labels | {TEMPLATE_LABEL: "true"}
        clean = replace(clean, metadata=replace(clean.metadata, labels=labels))
        return Template(clean, fresh, _fresh_slices(slices, clean.name, "t"))

    def _clean(self, node: Node, name: str) -> Node:
        """A copy without what belongs to the moment."""
        status = (*self.flags.status_taints, _STATUS_PREFIX)
        taints = tuple(
            taint
            for taint in node.spec.taints
            if taint.key not in _PASSING
            and not is_startup_taint(taint.key, self.flags)
            and not (taint.key in status or taint.key.startswith(_STATUS_PREFIX))
        )
        cordoned = node.spec.unschedulable and not self.flags.scale_from_unschedulable
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


def _daemon_pod(owner: DaemonSet) -> Pod:
    """A pod of a DaemonSet, as its controller makes it; the node is not known yet."""
    meta = owner.spec.template.metadata
    reference = OwnerReference("apps/v1", "DaemonSet", owner.name, owner.metadata.uid, True)
    meta = ObjectMeta(
        name=owner.name,
        namespace=owner.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=(reference,),
    )
    return Pod(metadata=meta, spec=daemon_spec(owner))


def _is_critical(pod: Pod) -> bool:
    spec = pod.spec
    return spec.priority_class_name == "system-node-critical" and spec.preemption_policy in (
        None,
        "PreemptLowerPriority",
    )
