"""What DaemonSets take of new nodes: instance types grouped by the daemons that would run on them.

Rules: Karpenter v1.15.0, scheduler.go (buildDaemonOverheadGroups) and provisioner.go (getDaemonSetPods).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.autoscalers.instance_types.instance_type import total
from moorage.kube import Affinity, Container, DaemonSet, NodeAffinity, ObjectMeta, Pod, PodSpec, Taint

from ..pods.pod_shape import HostPort, PodShape, ShapeBook
from ..pods.pod_validation import has_claims
from ..pods.relaxed_shapes import tolerating_preferences
from ..requirements.requirement_set import RequirementSet
from .type_columns import KnownType


class Daemon(Struct, eq=False):
    """The pods of a DaemonSet. Its shape loses required terms while types are asked, for all later ones."""

    key: str
    shape: PodShape

    def runs_on(self, taints: tuple[Taint, ...], template: RequirementSet, of_type: RequirementSet) -> bool:
        """Whether a daemon would run on nodes of a template and type."""
        self.shape = tolerating_preferences(self.shape)
        if self.shape.taint_refusal(taints):
            return False
        while True:
            needed = self.shape.strict_requirements
            if not template.refusal(needed, undefined=True) and of_type.intersects(needed):
                return True
            if len(self.shape.required) <= 1:
                return False
            self.shape = self.shape.derived(required=self.shape.required[1:])

    def runs_there(self, taints: tuple[Taint, ...], node: RequirementSet) -> bool:
        """Whether a daemon runs on a node with these taints and labels."""
        if self.shape.taint_refusal(taints):
            return False
        return not node.refusal(self.shape.strict_requirements, undefined=False)


def daemons(
    sets: Iterable[DaemonSet], pods: Sequence[Pod], book: ShapeBook, without_claims: bool
) -> list[Daemon]:
    """The daemons of a cluster: the newest pod of each DaemonSet, or what its template makes.

    Parameters
    ----------
    without_claims : bool
        Whether those with resource claims are left out.
    """
    newest: dict[str, Pod] = {}
    for pod in pods:
        owner = pod.metadata.controller()
        if owner is not None and owner.kind == "DaemonSet":
            before = newest.get(owner.uid)
            created = pod.metadata.creation_timestamp or ""
            if before is None or created > (before.metadata.creation_timestamp or ""):
                newest[owner.uid] = pod
    listed = [(one.key, _pod_of(one, newest.get(one.metadata.uid))) for one in sets]
    return [Daemon(key, book.shape(pod)) for key, pod in listed if not (without_claims and has_claims(pod))]


def _pod_of(one: DaemonSet, pod: Pod | None) -> Pod:
    template = one.spec.template.spec
    if pod is None:
        spec = replace(
            template,
            containers=tuple(map(_limits_as_requests, template.containers)),
            init_containers=tuple(map(_limits_as_requests, template.init_containers)),
        )
        pod = Pod(metadata=ObjectMeta(name=one.name, namespace=one.namespace), spec=spec)
    required = _nodes_of(template).required
    if required is None:
        return pod
    affinity = pod.spec.affinity or Affinity()
    nodes = replace(_nodes_of(pod.spec), required=required)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=nodes)))


def _nodes_of(spec: PodSpec) -> NodeAffinity:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return affinity or NodeAffinity()


def _limits_as_requests(container: Container) -> Container:
    given = container.resources
    return replace(container, resources=replace(given, requests={**given.limits, **given.requests}))


class OverheadGroup(Struct, eq=False):
    """Types, as bits, on which the same daemons run."""

    types: int
    requests: dict[str, Quantity]
    amounts: dict[str, int]
    ports: tuple[tuple[str, tuple[HostPort, ...]], ...]


def overhead_groups(
    types: Sequence[KnownType], taints: tuple[Taint, ...], template: RequirementSet, pods: Sequence[Daemon]
) -> tuple[list[KnownType], list[OverheadGroup]]:
    """Group types by their daemons; also the types, group by group, in which order they are bits."""
    members: dict[tuple[str, ...], tuple[list[Daemon], list[KnownType]]] = {}
    for one in types:
        there = [daemon for daemon in pods if daemon.runs_on(taints, template, one.requirements)]
        key = tuple(sorted(daemon.key for daemon in there))
        members.setdefault(key, (there, []))[1].append(one)
    order: list[KnownType] = []
    groups = []
    for there, of_group in members.values():
        mask = ((1 << len(of_group)) - 1) << len(order)
        order += of_group
        requests = total(daemon.shape.requests for daemon in there)
        amounts = {name: amount.nanos() for name, amount in requests.items()}
        ports = tuple((daemon.key, daemon.shape.ports) for daemon in there)
        groups.append(OverheadGroup(mask, requests, amounts, ports))
    return order, groups
