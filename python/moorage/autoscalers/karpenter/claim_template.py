"""What the claims of a pool begin with: requirements, taints, instance types, what limits leave, and what
DaemonSets take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity, parse
from moorage._core.provision.label_requirements import RequirementSet, Vocabulary
from moorage.kube import (
    Affinity,
    Container,
    DaemonSet,
    NodeAffinity,
    NodePool,
    ObjectMeta,
    Pod,
    PodSpec,
    Taint,
)
from moorage.kube.model.meta import total

from ..providers.instance_type import POOL, Shortage, labelled
from ..providers.known_labels import CORE, known_labels_of
from .pod_shape import HostPort, PodConstraints, PodShape, ShapeBook, tolerating_preferences
from .pod_validation import GROUP, in_short, requirement_problems
from .type_columns import Catalogue, KnownType, TypeColumns, lacking_values

# ---- what DaemonSets take of new nodes: instance types grouped by the daemons that would run on them -------
# Rules: Karpenter v1.15.0, scheduler.go (buildDaemonOverheadGroups) and provisioner.go (getDaemonSetPods).


class Daemon(Struct, eq=False):
    """The pods of a DaemonSet. Their constraints lose required terms while types are asked, for all later
    ones."""

    key: str
    shape: PodShape
    constraints: PodConstraints

    def runs_on(self, taints: tuple[Taint, ...], template: RequirementSet, of_type: RequirementSet) -> bool:
        """Whether a daemon would run on nodes of a template and type."""
        self.constraints = tolerating_preferences(self.constraints)
        if self.constraints.taint_refusal(taints):
            return False
        while True:
            needed = self.constraints.strict_requirements
            if not template.refusal(needed, undefined=True) and of_type.intersects(needed):
                return True
            if len(self.constraints.required) <= 1:
                return False
            self.constraints = self.constraints.derived(required=self.constraints.required[1:])

    def runs_there(self, taints: tuple[Taint, ...], node: RequirementSet) -> bool:
        """Whether a daemon runs on a node with these taints and labels."""
        if self.constraints.taint_refusal(taints):
            return False
        return not node.refusal(self.constraints.strict_requirements, undefined=False)


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
    listed = [(each.key, _pod_of(each, newest.get(each.metadata.uid))) for each in sets]
    shapes = [(key, book.shape(pod)) for key, pod in listed]
    return [
        Daemon(key, shape, shape.constraints)
        for key, shape in shapes
        if not (without_claims and shape.has_claims)
    ]


def _pod_of(daemon_set: DaemonSet, pod: Pod | None) -> Pod:
    template = daemon_set.spec.template.spec
    if pod is None:
        spec = replace(
            template,
            containers=tuple(map(_limits_as_requests, template.containers)),
            init_containers=tuple(map(_limits_as_requests, template.init_containers)),
        )
        pod = Pod(metadata=ObjectMeta(name=daemon_set.name, namespace=daemon_set.namespace), spec=spec)
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
    for kind in types:
        there = [daemon for daemon in pods if daemon.runs_on(taints, template, kind.requirements)]
        key = tuple(sorted(daemon.key for daemon in there))
        members.setdefault(key, (there, []))[1].append(kind)
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


# ---- what the claims of a pool begin with: requirements, taints, instance types, and what limits leave -----
# Rules: Karpenter v1.15.0, nodeclaimtemplate.go and scheduler.go (limits).

SIMULATED = (f"{GROUP}/registered", f"{GROUP}/initialized")
"""Labels that a template has only so that daemons that ask for them count."""
NO_TYPES = "NodePool requirements filtered out all compatible available instance types"
_NODES = "nodes"
_CONDITIONS = ("ValidationSucceeded", "NodeClassReady", "Ready")


class PoolLimits:
    """What the limits of a pool leave.

    Attributes
    ----------
    left : dict of str to int
        By resource that is limited, in units of 10**-9.
    """

    def __init__(self, pool: NodePool) -> None:
        self.left = {name: parse(raw).nanos() for name, raw in pool.spec.limits.items()}
        self._known: tuple[TypeColumns, int] | None = None

    def without(self, capacities: Iterable[Mapping[str, int]]) -> PoolLimits:
        """The same limits where some nodes are gone."""
        template = copy(self)
        template.left = dict(self.left)
        for capacity in capacities:
            template.use({name: -amount for name, amount in capacity.items()})
        return template

    def use(self, capacity: Mapping[str, int]) -> None:
        for name in self.left:
            self.left[name] -= capacity.get(name, 0)
        self._known = None

    @property
    def has_no_node(self) -> bool:
        return self.left.get(_NODES) == 0

    def allowed(self, columns: TypeColumns) -> int:
        """The types whose capacity the limits allow."""
        if self._known is None or self._known[0] is not columns:
            rows = columns.all
            for name, amount in self.left.items():
                rows &= columns.capacity.at_most(name, amount)
            self._known = columns, rows
        return self._known[1]


class ClaimTemplate(Struct, eq=False):
    """A pool as its claims begin.

    Attributes
    ----------
    min_values_relaxed : bool
        Whether the last claim of the pool was made with fewer values than minValues asks for.
    """

    pool: NodePool
    labels: dict[str, str]
    requirements: RequirementSet
    taints: tuple[Taint, ...]
    columns: TypeColumns
    groups: list[OverheadGroup]
    min_values_relaxed: bool = False

    @property
    def name(self) -> str:
        return self.pool.name


def by_weight(pools: Iterable[NodePool]) -> list[NodePool]:
    """Pools in the order in which they are asked: of equal weight the last name comes first."""
    by_name = sorted(pools, key=lambda pool: pool.name, reverse=True)
    return sorted(by_name, key=lambda pool: -(pool.spec.weight or 0))


def is_dynamic(pool: NodePool) -> bool:
    """Whether pods make nodes of a pool."""
    return not why_idle(pool)


def why_idle(pool: NodePool) -> str:
    """Why pods make no nodes of a pool; "" if they do.

    A pool without any condition is one that Karpenter has not seen yet: it is ready if Karpenter accepts its
    requirements. Else a condition that is missing is Unknown, and Ready with it (operatorpkg,
    status/condition_set.go).
    """
    if pool.spec.replicas is not None:
        return "it is static, as it has spec.replicas"
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    conditions = {condition.type: condition for condition in pool.status.conditions}
    missing = [name for name in _CONDITIONS if name not in conditions]
    if not conditions:
        known, requirements = CORE | known_labels_of([pool]), pool.spec.template.spec.requirements or ()
        problems = [in_short(text) for each in requirements for text in requirement_problems(each, known)]
        return f"it would not be ready: {'; '.join(problems)}" if problems else ""
    if not missing and conditions["Ready"].status == "True":
        return ""
    broken = [each for name in _CONDITIONS if (each := conditions.get(name)) and each.status != "True"]
    broken = [each for each in broken if each.type != "Ready"] or broken
    texts = [f"{each.type} is {each.status}" + f" ({each.message})" * bool(each.message) for each in broken]
    return f"it is not ready: {', '.join([*texts, *(f'{name} is missing' for name in missing)])}"


def idle_pools(pools: Iterable[NodePool]) -> str:
    """Why pools make no nodes for pods, in the order in which they are asked."""
    return "; ".join(f"{each.name}: {why}" for each in by_weight(pools) if (why := why_idle(each)))


def pool_requirements(pool: NodePool, vocabulary: Vocabulary, labels: Mapping[str, str]) -> RequirementSet:
    """Requirements of the template of a pool, with labels."""
    written = [
        vocabulary.requirement(
            requirement.key, requirement.operator, requirement.values, requirement.min_values
        )
        for requirement in pool.spec.template.spec.requirements or ()
    ]
    return vocabulary.set_of([*written, *vocabulary.of_labels(labels).by_key.values()])


def template_labels(pool: NodePool) -> dict[str, str]:
    """Labels of each node of a pool."""
    node_class = pool.spec.template.spec.node_class_ref
    return {
        **known_labels_of([pool]).labels,
        **pool.spec.template.metadata.labels,
        POOL: pool.name,
        f"{node_class.group}/{node_class.kind.lower()}": node_class.name,
    }


def shortage_of_all(pool: NodePool, shortages: Iterable[Shortage]) -> str:
    """A shortage that all nodes of a pool have by their labels, such as ``rack=a``; "" without one."""
    labels = {*labelled(template_labels(pool))}
    return next(("/".join(sorted(each)) for each in shortages if each <= labels), "")


def claim_template(
    pool: NodePool,
    catalogue: Catalogue,
    types: Sequence[KnownType],
    daemons: Sequence[Daemon],
    best_effort: bool,
) -> ClaimTemplate | str:
    """The template of a pool; or Karpenter's event, if no instance type is left.

    Parameters
    ----------
    best_effort : bool
        Whether minValues may be lowered to what there is.
    """
    spec, labels = pool.spec.template.spec, template_labels(pool)
    requirements = pool_requirements(pool, catalogue.vocabulary, labels | dict.fromkeys(SIMULATED, "true"))
    columns = catalogue.columns(types)
    left = columns.compatible(requirements) & columns.fitting({}, requirements)
    if not left:
        return NO_TYPES
    if not best_effort and lacking_values(columns, left, requirements):
        return f"{NO_TYPES} due to minValues incompatibility"
    order, groups = overhead_groups(columns.chosen(left), spec.taints, requirements, daemons)
    if order != list(types):
        columns = catalogue.columns(order)
    return ClaimTemplate(pool, labels, requirements, spec.taints, columns, groups)
