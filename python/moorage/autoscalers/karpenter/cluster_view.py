"""A cluster as passes of Karpenter see it: what all passes over the same objects share.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/provisioner.go (NewScheduler).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import attrgetter, or_
from typing import TypeVar

from msgspec import Struct

from moorage._core.provision.domain_counts import ConstraintGroups, Ties
from moorage._core.provision.host_table import HostTable
from moorage._core.provision.label_requirements import RequirementSet
from moorage.grouped import grouped
from moorage.kube import (
    CSINode,
    DaemonSet,
    Deployment,
    Namespace,
    Node,
    NodeClaim,
    NodePool,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    StorageClass,
)
from moorage.kube.model.autoscaling import NODE_CLASSES, CapacityBuffer, ProviderNodeClass
from moorage.kube.model.node import HOSTNAME
from moorage.kube.model.workload import PodTemplate
from moorage.kube.workloads.capacity_buffers import buffer_pods
from moorage.kube.workloads.disruption import BudgetSelectors

from ..providers.instance_type import INSTANCE_TYPE, POOL, InstanceType
from .claim import Reservations, TriedPod, reserved_instances
from .claim_template import (
    ClaimTemplate,
    Daemon,
    PoolLimits,
    by_weight,
    claim_template,
    daemons,
    is_dynamic,
    pool_requirements,
)
from .existing_nodes import ExistingNode, NodeContents, StateNode, existing_node, state_nodes
from .karpenter_options import KarpenterOptions
from .new_nodes_result import FinishedClaim, Finisher, Launcher, PodError, Provisioning, cheapest, new_claim
from .pod_shape import PodShape, ShapeBook, uid_of
from .pod_validation import (
    DO_NOT_DISRUPT,
    Storage,
    VolumeLookupError,
    Volumes,
    failed_to_schedule,
    is_provisionable,
    moves_now,
    problems,
    volume_alternatives,
    volumes_of,
)
from .solve import Solver, waits_for_reservation
from .topology import CountedGroups, DomainUniverse, Surroundings, Topology
from .topology_group import with_default_spread
from .type_columns import Catalogue, KnownType

K = TypeVar("K", bound=Object)
NO_POOLS = "no dynamic nodepools found"
_NAMES = attrgetter("metadata.namespace", "metadata.name")

KINDS: tuple[type[Object], ...] = (
    *(NodePool, NodeClaim, Node, Pod, DaemonSet, Namespace, CSINode, Service, PodDisruptionBudget),
    *(PersistentVolume, PersistentVolumeClaim, StorageClass, ReplicaSet, ReplicationController, StatefulSet),
    *(CapacityBuffer, PodTemplate, Deployment),
    *NODE_CLASSES,
)
"""The kinds that a pass reads."""


class ClusterObjects:
    """The objects of a cluster that Karpenter reads, each kind in order of namespace and name."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._by_kind: dict[type[Object], list[Object]] = {kind: [] for kind in KINDS}
        for each in objects:
            if type(each) in self._by_kind:
                self._by_kind[type(each)].append(each)
        for of_kind in self._by_kind.values():
            of_kind.sort(key=_NAMES)
        self._of_key: dict[type[Object], dict[str, Object]] = {}

    def list(self, kind: type[K]) -> list[K]:
        return self._by_kind[kind]  # type: ignore[return-value]

    def by_key(self, kind: type[K]) -> dict[str, K]:
        known = self._of_key.get(kind)
        if known is None:
            known = self._of_key[kind] = {each.key: each for each in self.list(kind)}
        return known  # type: ignore[return-value]

    def find(self, kind: str, key: str) -> Object | None:
        """An object of a kind that is read, if it is there."""
        return self.by_key(next(struct for struct in KINDS if struct.__name__ == kind)).get(key)

    def node_classes(self) -> tuple[ProviderNodeClass, ...]:
        return tuple([each for kind in NODE_CLASSES for each in self.list(kind)])

    def storage(self) -> Storage:
        classes = {storage_class.name: storage_class for storage_class in self.list(StorageClass)}
        volumes = {volume.name: volume for volume in self.list(PersistentVolume)}
        return Storage(self.by_key(PersistentVolumeClaim), volumes, classes)


@dataclass(frozen=True)
class PassInput:
    """What a pass is about, besides the objects.

    Attributes
    ----------
    types : mapping of str to sequence of InstanceType
        By pool, in the provider's order.
    now : float
        Seconds since 1970.
    marked : frozenset of str
        Nodes that Karpenter is about to remove.
    chosen : frozenset of str or None
        Keys of the pods to place; None for those of which kube-scheduler says that they fit nowhere.
    only_new : bool
        Whether no node that is there takes a pod: what would a pool make?
    nominated : frozenset of str
        Nodes on which pods are expected that wait.
    launcher : callable
        What the provider launches for a claim.
    redraws : bool
        Whether it stands for the passes that follow one another every 10 s, each of which draws anew among
        equal domains: a pod is refused only where all draws refuse it.
    """

    types: Mapping[str, Sequence[InstanceType]]
    now: float = 0.0
    marked: frozenset[str] = frozenset()
    chosen: frozenset[str] | None = None
    only_new: bool = False
    nominated: frozenset[str] = frozenset()
    launcher: Launcher = cheapest
    redraws: bool = False


@dataclass(frozen=True)
class Removal:
    """What a pass takes to be gone, and how it looks at the rest.

    Attributes
    ----------
    strict : bool
        Whether pods wait for reservations that others hold.
    freed : str
        A reservation of which an instance becomes free.
    fresh : frozenset of str
        Names of nodes that take no pod which runs elsewhere.
    most_claims : int or None
        The pass ends early once there are more new nodes.
    """

    nodes: frozenset[str] = frozenset()
    strict: bool = True
    freed: str = ""
    fresh: frozenset[str] = frozenset()
    most_claims: int | None = None


class KnownPod(Struct, frozen=True, gc=False):
    """What all passes over a cluster know of a pod that is placed.

    Attributes
    ----------
    is_located : bool
        Whether its volumes were found; until it fails, a pod without them is placed without topologies.
    """

    pod: Pod
    uid: str
    shape: PodShape
    volumes: Volumes
    alternatives: Sequence[RequirementSet]
    is_located: bool

    def tried(self, topology: Topology, leaving: Collection[str]) -> TriedPod:
        """The pod in a pass, in which some pods, by key, leave nodes that are removed."""
        pod, shape, located = self.pod, self.shape, self.is_located
        constraints = shape.constraints
        groups = topology.groups(constraints) if located else ConstraintGroups(topology, constraints)
        moves = bool(leaving) and pod.key in leaving and pod.status.phase != "Pending"
        parts = pod, self.uid, shape, self.volumes, self.alternatives
        return TriedPod(*parts, groups, moves, int(located))


class NoPoolsError(Exception):
    """No pool can make a node, so Karpenter simulates nothing."""


class ClusterView:
    """The parts of passes, each made once, when it is first asked for.

    Parameters
    ----------
    catalogue : Catalogue, optional
        What it knows of instance types, which are not read again.
    earlier : ClusterView, optional
        Another view with these options about types: what has not changed since is not read again.
    """

    def __init__(
        self,
        objects: ClusterObjects,
        situation: PassInput,
        options: KarpenterOptions,
        catalogue: Catalogue | None = None,
        earlier: ClusterView | None = None,
    ) -> None:
        self.objects, self.situation, self.options = objects, situation, options
        self.catalogue: Catalogue = (
            earlier.catalogue if earlier is not None else catalogue or Catalogue(options)
        )
        self.vocabulary = self.catalogue.vocabulary
        self.book = ShapeBook(self.vocabulary, options.ignores_preferences)
        self.storage = objects.storage()
        self.budgets = BudgetSelectors(objects.list(PodDisruptionBudget))
        self.finisher = Finisher(options, situation.launcher)
        self.pods = objects.list(Pod)
        if earlier is not None:
            self._go_on(earlier)
        self.pods_of = grouped((pod.spec.node_name, pod) for pod in self.pods)
        if earlier is not None:
            for name, pods in earlier.pods_of.items():
                if self.pods_of.get(name) == pods:
                    self.pods_of[name] = pods
        states = earlier.states if earlier is not None else ()
        self.states: list[StateNode] = state_nodes(
            objects.list(Node), objects.list(NodeClaim), situation.marked, states
        )
        self.pools = by_weight(filter(is_dynamic, objects.list(NodePool)))
        self.ignored: dict[str, str] = {}
        self._candidates: dict[int, KnownPod] = {}
        self._policies: dict[str, RequirementSet] = {}
        self._slots: dict[tuple[PodShape, frozenset[str]], tuple[dict[str, float], float]] = {}

    def _go_on(self, earlier: ClusterView) -> None:
        """Take over what is as it was in another view."""
        before, budgets = earlier.situation, self.objects.list(PodDisruptionBudget)
        if before.types == self.situation.types:
            self.situation = replace(self.situation, types=before.types)
        if earlier.storage == self.storage:
            self.storage = earlier.storage
        if earlier.objects.list(PodDisruptionBudget) == budgets:
            self.budgets = earlier.budgets
        if earlier.options == self.options:
            self.book = earlier.book
            self.book.forget_others(self.pods)
            if before.launcher == self.situation.launcher:
                self.finisher = earlier.finisher

    def with_options(self, options: KarpenterOptions) -> ClusterView:
        """The same cluster for a Karpenter with other flags about pods and nodes, not about types."""
        return ClusterView(self.objects, self.situation, options, earlier=self)

    def at(self, moment: float) -> ClusterView:
        """The same cluster at another time (seconds since 1970)."""
        situation = replace(self.situation, now=moment)
        return ClusterView(self.objects, situation, self.options, earlier=self)

    def types_of(self, pool: str) -> list[KnownType]:
        """The instance types of a pool."""
        return self.catalogue.known(self.situation.types.get(pool, ()))

    def policies_of(self, pool: NodePool) -> RequirementSet:
        """The requirements that a pool states."""
        policies = self._policies.get(pool.name)
        if policies is None:
            stated = pool.spec.template.spec.requirements or ()
            policies = self._policies[pool.name] = self.vocabulary.of_terms(stated)
        return policies

    # ---- pods ----------------------------------------------------------------------------------------------

    @cached_property
    def pending(self) -> list[Pod]:
        """The pods that wait and that Karpenter takes up, and those that buffers stand for."""
        pods, chosen = [], self.situation.chosen
        for pod in self.pods_of.get("", ()):
            is_chosen = failed_to_schedule(pod) if chosen is None else pod.key in chosen
            if not is_chosen or not is_provisionable(pod):
                continue
            why = problems(pod, self.book.shape(pod).constraints, self.storage)
            if why:
                self.ignored[pod.key] = why
            else:
                pods.append(pod)
        return pods + self.buffers[0]

    @cached_property
    def buffers(self) -> tuple[list[Pod], dict[str, str]]:
        """The pods that CapacityBuffers stand for, and why one stands for none, by its key."""
        pods, empty = list[Pod](), dict[str, str]()
        for buffer in self.objects.list(CapacityBuffer) * self.options.capacity_buffers:
            try:
                pods += buffer_pods(buffer, self.objects.find, self.situation.now)
            except LookupError as error:
                empty[buffer.key] = str(error)
        return pods, empty

    @cached_property
    def provisioning(self) -> Provisioning:
        """Which nodes a pass over the pods that wait would make for them; changes nothing."""
        moving = self.moving(self.situation.now)
        if not self.pending and not moving:
            return Provisioning(ignored=self.ignored)
        try:
            solver = self.solver([*self.pending, *moving], Removal())
        except NoPoolsError:
            errors = {pod.key: PodError(NO_POOLS) for pod in self.pending}
            return Provisioning(errors=errors, ignored=self.ignored)
        errors = {
            key: PodError(str(refusal), waits_for_reservation(refusal))
            for key, refusal in solver.errors.items()
        }
        types_of = {}
        for claim in sorted(solver.claims, key=lambda claim: claim.name):
            finished = self.finisher.finished(claim)
            if isinstance(finished, FinishedClaim):
                types_of[claim.name] = new_claim(finished)
            else:
                errors |= {candidate.pod.key: PodError(finished) for candidate in claim.pods}
        places = {name: place for place, name in enumerate(types_of)}
        return Provisioning(
            tuple(types_of.values()),
            tuple([places[claim.name] for claim in solver.claims if claim.name in places]),
            {
                node.state.name: tuple([pod.pod.key for pod in node.pods])
                for node in solver.nodes.hosts
                if node.pods
            },
            errors,
            self.ignored,
            {key: tuple(texts) for key, texts in solver.relaxations.items()},
            self.templates[1],
        )

    @cached_property
    def buffered(self) -> frozenset[str]:
        """Names of the nodes on which the last pass has found room that buffers keep free."""
        keys = {pod.key for pod in self.buffers[0]}
        placed = self.provisioning.existing if keys else {}
        return frozenset(name for name, pods in placed.items() if not keys.isdisjoint(pods))

    @cached_property
    def protected(self) -> set[str]:
        """Names of nodes on which a pod forbids to be disrupted, for ever or for a time."""
        return {pod.spec.node_name for pod in self.pods if DO_NOT_DISRUPT in pod.metadata.annotations}

    def moving(self, now: float) -> list[Pod]:
        """Pods of nodes that are being deleted (seconds since 1970)."""
        return [
            pod
            for state in self.states
            if state.is_leaving and state.node is not None
            for pod in self.pods_of.get(state.node.name, ())
            if moves_now(pod, self.budgets, now)
        ]

    @cached_property
    def _owners(self) -> dict[tuple[type[Object], str], Object]:
        kinds: tuple[type[Object], ...] = (ReplicaSet, ReplicationController, StatefulSet)
        return {(kind, each.key): each for kind in kinds for each in self.objects.list(kind)}

    def _candidate(self, pod: Pod) -> KnownPod:
        known = self._candidates.get(id(pod))
        if known is None:
            known = self._candidates[id(pod)] = self._known_pod(pod)
        return known

    def _known_pod(self, pod: Pod) -> KnownPod:
        spread, located = pod, True
        alternatives: Sequence[RequirementSet] = ()
        try:
            if pod.spec.volumes:
                alternatives = volume_alternatives(pod, self.storage, self.vocabulary)
            if defaults := self.options.default_spreads:
                spread = with_default_spread(pod, defaults, self.objects.list(Service), self._owners)
        except VolumeLookupError:
            located = False
        volumes = volumes_of(pod, self.storage)
        return KnownPod(pod, uid_of(pod), self.book.shape(spread), volumes, alternatives, located)

    # ---- pools and nodes -----------------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> CountedGroups:
        universe = DomainUniverse()
        for pool in self.pools:
            template = pool.spec.template
            if types := self.types_of(pool.name):
                requirements = pool_requirements(pool, self.vocabulary, template.metadata.labels)
                universe.add(requirements, template.spec.taints, [known.requirements for known in types])
        with_node = [(state, state.node) for state in self.states if state.node is not None]
        around = Surroundings(
            self.pods,
            {node.name: node for node in self.objects.list(Node)},
            {node.name: state.labels for state, node in with_node if not state.is_leaving},
            self.objects.list(Namespace),
            frozenset(node.name for _, node in with_node),
        )
        return CountedGroups(self.book, universe, around, self.options.ignores_preferences)

    @cached_property
    def _daemons(self) -> list[Daemon]:
        listed = self.objects.list(DaemonSet), self.pods
        return daemons(*listed, self.book, self.options.ignore_dra_requests)

    @cached_property
    def templates(self) -> tuple[list[ClaimTemplate], dict[str, str]]:
        """The templates of pools, and Karpenter's events about pools that no instance type is left of."""
        templates, events = [], {}
        for pool in self.pools:
            template = claim_template(
                pool, self.catalogue, self.types_of(pool.name), self._daemons, self.options.best_effort
            )
            if isinstance(template, str):
                events[pool.name] = template
            else:
                templates.append(template)
        return templates, events

    @cached_property
    def _existing(self) -> dict[str, ExistingNode]:
        """The nodes that stay, those that are ready first, by the names of their states."""
        assert self.templates  # types are asked for their daemons first
        csi_nodes = {csi_node.name: csi_node for csi_node in self.objects.list(CSINode)}
        contents = NodeContents(self.pods_of, csi_nodes, self.storage, self.book, self._daemons)
        staying = [state for state in self.states if not state.is_leaving]
        staying.sort(key=lambda state: not state.is_initialized)
        return {state.name: existing_node(state, contents, self.type_of(state)) for state in staying}

    @cached_property
    def _nodes(self) -> HostTable[ExistingNode]:
        table: HostTable[ExistingNode] = HostTable()
        for node in self._existing.values():
            table.add(node, node.as_host(node.requirements), node.free)
        return table

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._existing)}

    @cached_property
    def _hosts(self) -> int:
        """The names of the nodes that stay, as bits."""
        return reduce(or_, (node.host.by_key[HOSTNAME].mask for node in self._nodes.hosts), 0)

    def type_of(self, state: StateNode) -> InstanceType | None:
        """The instance type of a node."""
        name = state.labels.get(INSTANCE_TYPE)
        types = self.situation.types.get(state.labels.get(POOL, ""), ())
        return state.kept("type", (types,), lambda: next((kind for kind in types if kind.name == name), None))

    @cached_property
    def _limits(self) -> dict[str, PoolLimits]:
        """What the limits of pools leave; the capacity of nodes that stay counts."""
        limits = {pool.name: PoolLimits(pool) for pool in self.pools}
        for node in self._nodes.hosts:
            if (pool := node.state.labels.get(POOL, "")) in limits:
                limits[pool].use(node.state.capacity_amounts)
        return limits

    # ---- a pass --------------------------------------------------------------------------------------------

    def solver(
        self, pods: Sequence[Pod], removal: Removal, leaving: Collection[str] = (), hosts: int = 0
    ) -> Solver:
        """Place pods; among them, by their keys, those that leave nodes that are removed.

        Parameters
        ----------
        hosts : int
            New nodes have numbers above it.

        Raises
        ------
        NoPoolsError
        """
        if not self.pools:
            raise NoPoolsError
        candidates = [self._candidate(pod) for pod in pods]
        excluded = frozenset([each.uid for each in candidates if each.is_located])
        templates, _ = self.templates
        for template in templates:
            template.min_values_relaxed = False
        topology = Topology(self._groups, Ties(self.options.seed), excluded, removal.nodes)
        placed = [each.tried(topology, leaving) for each in candidates]
        gone = [self._rows[name] for name in removal.nodes]
        nodes, there = self._nodes.fork(gone), self._hosts
        for row in gone:
            there &= ~nodes.hosts[row].host.by_key[HOSTNAME].mask
        topology.hosts.append(there)
        if self.situation.only_new:
            nodes = HostTable()
        leave = [nodes.hosts[row].state for row in gone]
        reservations = self.reserved, removal.strict, removal.freed
        solver = Solver(
            nodes,
            [self._rows[name] for name in removal.fresh],
            templates,
            {
                name: limits.without([s.capacity_amounts for s in leave if s.labels.get(POOL) == name])
                for name, limits in self._limits.items()
            },
            topology,
            Reservations(*reservations) if self.options.reserved_capacity else None,
            self._tolerating,
            self.options.best_effort,
            self.options.ignore_dra_requests,
            removal.most_claims,
            hosts,
            self.situation.redraws,
        )
        solver.solve(placed)
        return solver

    def has_room(self, needs: Mapping[PodShape, int], gone: Sequence[str], closed: frozenset[str]) -> bool:
        """Whether nodes could have room for pods, by shape, as far as requests tell: neither those that are
        gone nor those that are closed to them."""
        for shape, count in needs.items():
            known = self._slots.get((shape, closed))
            if known is None:
                open_nodes = (item for item in self._existing.items() if item[0] not in closed)
                slots = {name: node.slots(shape) for name, node in open_nodes}
                known = self._slots[shape, closed] = slots, sum(slots.values())
            slots, total = known
            if total - sum(slots.get(name, 0.0) for name in gone) < count:
                return False
        return True

    @cached_property
    def _tolerating(self) -> bool:
        """Whether some pool has a taint of effect PreferNoSchedule."""
        taints = [taint for pool in self.pools for taint in pool.spec.template.spec.taints]
        return any(taint.effect == "PreferNoSchedule" for taint in taints)

    @cached_property
    def reserved(self) -> dict[str, int]:
        return reserved_instances(known for pool in self.pools for known in self.types_of(pool.name))
