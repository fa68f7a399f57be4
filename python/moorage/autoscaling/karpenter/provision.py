"""A pass of Karpenter over the pods that wait: which nodes it would make for them.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/provisioner.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from moorage.autoscaling.instance_types.instance_type import InstanceType
from moorage.objects import (
    CSINode,
    DaemonSet,
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

from .claims.catalogue import Catalogue
from .claims.claim import Candidate
from .claims.claim_template import (
    ClaimTemplate,
    Limits,
    by_weight,
    claim_template,
    is_dynamic,
    pool_requirements,
)
from .claims.daemon_overhead import Daemon, daemons
from .claims.reservations import Reservations
from .claims.type_columns import INSTANCE_TYPE, KnownType
from .karpenter_options import KarpenterOptions
from .new_nodes_result import PodError, Provisioning, new_claims
from .nodes.existing_node import ExistingNode, NodeContents, existing_node
from .nodes.state_nodes import StateNode, state_nodes
from .pods.pod_shape import ShapeBook, uid_of
from .pods.pod_validation import (
    NODEPOOL,
    failed_to_schedule,
    is_provisionable,
    is_terminal,
    moves_from_deleting,
    problems,
)
from .pods.volume_alternatives import Storage, VolumeLookupError, volume_alternatives, volumes_of
from .solve import Solver, waits_for_reservation
from .topology.default_spread import with_default_spread
from .topology.domain_universe import DomainUniverse
from .topology.topology import Surroundings, Topology
from .topology.topology_group import Ties

K = TypeVar("K", bound=Object)

NO_POOLS = "no dynamic nodepools found"
KINDS: tuple[type[Object], ...] = (
    *(NodePool, NodeClaim, Node, Pod, DaemonSet, Namespace, CSINode, Service, PodDisruptionBudget),
    *(PersistentVolume, PersistentVolumeClaim, StorageClass, ReplicaSet, ReplicationController, StatefulSet),
)
"""The kinds that a pass reads."""


class ClusterObjects:
    """The objects of a cluster that Karpenter reads, each kind in order of namespace and name."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._by_kind: dict[type[Object], list[Object]] = {kind: [] for kind in KINDS}
        for one in objects:
            if type(one) in self._by_kind:
                self._by_kind[type(one)].append(one)
        for found in self._by_kind.values():
            found.sort(key=lambda one: (one.namespace, one.name))

    def list(self, kind: type[K]) -> list[K]:
        return self._by_kind[kind]  # type: ignore[return-value]

    def by_key(self, kind: type[K]) -> dict[str, K]:
        return {one.key: one for one in self.list(kind)}

    def storage(self) -> Storage:
        classes = {one.name: one for one in self.list(StorageClass)}
        volumes = {one.name: one for one in self.list(PersistentVolume)}
        return Storage(self.by_key(PersistentVolumeClaim), volumes, classes)


@dataclass(frozen=True)
class Situation:
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
    """

    types: Mapping[str, Sequence[InstanceType]]
    now: float = 0.0
    marked: frozenset[str] = frozenset()
    chosen: frozenset[str] | None = None
    only_new: bool = False


def provision(
    objects: ClusterObjects,
    situation: Situation,
    options: KarpenterOptions,
    catalogue: Catalogue | None = None,
) -> Provisioning:
    """Decide which nodes would be made for pods; changes nothing.

    Parameters
    ----------
    catalogue : Catalogue, optional
        Of earlier passes with these options, which saves to read their types again.
    """
    return _Pass(objects, situation, options, catalogue or Catalogue(options)).result()


class _Pass:
    """The steps of a pass, and what several of them use."""

    def __init__(
        self, objects: ClusterObjects, situation: Situation, options: KarpenterOptions, catalogue: Catalogue
    ) -> None:
        self.objects, self.situation, self.options = objects, situation, options
        self.catalogue, self.vocabulary = catalogue, catalogue.vocabulary
        self.book = ShapeBook(self.vocabulary, options.ignores_preferences)
        self.storage = objects.storage()
        self.pods = objects.list(Pod)
        self.pods_of: dict[str, list[Pod]] = {}
        for pod in self.pods:
            self.pods_of.setdefault(pod.spec.node_name, []).append(pod)
        self.states = state_nodes(objects.list(Node), objects.list(NodeClaim), situation.marked)
        self.ignored: dict[str, str] = {}

    def result(self) -> Provisioning:
        pending, moving = self._pending(), self._moving()
        if not pending and not moving:
            return Provisioning(ignored=self.ignored, seed=self.options.seed)
        pools = by_weight(filter(is_dynamic, self.objects.list(NodePool)))
        if not pools:
            errors = {pod.key: PodError(NO_POOLS) for pod in pending}
            return Provisioning(errors=errors, ignored=self.ignored, seed=self.options.seed)
        given = self.situation.types
        types = {pool.name: self.catalogue.known(given.get(pool.name, ())) for pool in pools}
        placeable = [*pending, *moving]
        candidates, located = self._candidates(placeable)
        topology = self._topology(pools, types, frozenset(one.uid for one in located))
        for candidate in located:
            topology.update(candidate.uid, candidate.shape)
            candidate.updates += 1
        there = daemons(self.objects.list(DaemonSet), self.pods, self.book)
        templates, events = self._templates(pools, types, there)
        limits = {pool.name: Limits(pool) for pool in pools}
        nodes = self._nodes(there, topology, limits)
        every = [known for of_pool in types.values() for known in of_pool]
        solver = Solver(
            self.vocabulary,
            [] if self.situation.only_new else nodes,
            templates,
            limits,
            topology,
            Reservations(every) if self.options.reserved_capacity else None,
            any(one.effect == "PreferNoSchedule" for pool in pools for one in pool.spec.template.spec.taints),
            self.options.best_effort,
        )
        solver.solve(candidates)
        return self._told(solver, events)

    # ---- pods ----------------------------------------------------------------------------------------------

    def _pending(self) -> list[Pod]:
        """The pods that wait and that Karpenter takes up."""
        found, chosen = [], self.situation.chosen
        for pod in self.pods_of.get("", ()):
            asked = failed_to_schedule(pod) if chosen is None else pod.key in chosen
            if not asked or not is_provisionable(pod):
                continue
            why = problems(pod, self.book.shape(pod), self.storage)
            if why:
                self.ignored[pod.key] = why
            else:
                found.append(pod)
        return found

    def _moving(self) -> list[Pod]:
        """Pods of nodes that are being deleted."""
        budgets = self.objects.list(PodDisruptionBudget)
        return [
            pod
            for state in self.states
            if state.is_leaving and state.node is not None
            for pod in self.pods_of.get(state.node.name, ())
            if moves_from_deleting(pod, budgets, self.situation.now)
        ]

    def _candidates(self, pods: Sequence[Pod]) -> tuple[list[Candidate], list[Candidate]]:
        """All pods that are placed, and those of them whose volumes were found."""
        services = self.objects.list(Service)
        kinds: tuple[type[Object], ...] = (ReplicaSet, ReplicationController, StatefulSet)
        owners = {(kind, one.key): one for kind in kinds for one in self.objects.list(kind)}
        every, located = [], []
        for pod in pods:
            try:
                alternatives = volume_alternatives(pod, self.storage, self.vocabulary)
                spread = with_default_spread(pod, self.options.default_spreads, services, owners)
            except VolumeLookupError:
                alternatives, spread = None, pod
            shape, volumes = self.book.shape(spread), volumes_of(pod, self.storage)
            candidate = Candidate(pod, shape, volumes, alternatives or ())
            every.append(candidate)
            if alternatives is not None:
                located.append(candidate)
        return every, located

    # ---- pools and nodes -----------------------------------------------------------------------------------

    def _topology(
        self, pools: Sequence[NodePool], types: Mapping[str, Sequence[KnownType]], excluded: frozenset[str]
    ) -> Topology:
        universe = DomainUniverse()
        for pool in pools:
            template = pool.spec.template
            if types[pool.name]:
                requirements = pool_requirements(pool, self.vocabulary, template.metadata.labels)
                sets = [known.requirements for known in types[pool.name]]
                universe.add(requirements, template.spec.taints, sets)
        nodes = {one.name: one for one in self.objects.list(Node)}
        labels = {
            state.node.name: state.labels
            for state in self.states
            if state.node is not None and not state.is_leaving
        }
        around = Surroundings(self.pods, nodes, labels, self.objects.list(Namespace), excluded)
        ignores, ties = self.options.ignores_preferences, Ties(self.options.seed)
        topology = Topology(self.vocabulary, universe, around, ignores, ties)
        tracked = {state.node.name for state in self.states if state.node is not None}
        for pod in self.pods:
            node = pod.spec.node_name
            if node in tracked and not is_terminal(pod) and uid_of(pod) not in excluded:
                affinity = pod.spec.affinity
                if affinity is not None and affinity.pod_anti_affinity is not None:
                    topology.keep_away(self.book.shape(pod), nodes[node])
        return topology

    def _templates(
        self,
        pools: Sequence[NodePool],
        types: Mapping[str, Sequence[KnownType]],
        there: Sequence[Daemon],
    ) -> tuple[list[ClaimTemplate], dict[str, str]]:
        templates, events = [], {}
        for pool in pools:
            made = claim_template(pool, self.catalogue, types[pool.name], there, self.options.best_effort)
            if isinstance(made, str):
                events[pool.name] = made
            else:
                templates.append(made)
        return templates, events

    def _nodes(
        self, there: Sequence[Daemon], topology: Topology, limits: Mapping[str, Limits]
    ) -> list[ExistingNode]:
        """The nodes that stay, those that are ready first; their capacity counts for limits."""
        csi_nodes = {one.name: one for one in self.objects.list(CSINode)}
        contents = NodeContents(self.pods_of, csi_nodes, self.storage)
        found = []
        for state in self.states:
            if state.is_leaving:
                continue
            node = existing_node(state, contents, there, self._type_of(state), self.vocabulary)
            topology.register_host(node.as_host(node.requirements))
            if (pool := state.labels.get(NODEPOOL, "")) in limits:
                amounts = {name: amount.nanos() for name, amount in state.capacity.items()}
                limits[pool].use(amounts)
            found.append(node)
        return sorted(found, key=lambda node: not node.state.is_initialized)

    def _type_of(self, state: StateNode) -> InstanceType | None:
        name = state.labels.get(INSTANCE_TYPE)
        types = self.situation.types.get(state.labels.get(NODEPOOL, ""), ())
        return next((one for one in types if one.name == name), None)

    # ---- results -------------------------------------------------------------------------------------------

    def _told(self, solver: Solver, events: dict[str, str]) -> Provisioning:
        created = sorted(solver.claims, key=lambda claim: claim.name)
        made, refused = new_claims(created, self.options)
        errors = {
            key: PodError(str(refusal), waits_for_reservation(refusal))
            for key, refusal in solver.errors.items()
        }
        names = list(made)
        return Provisioning(
            tuple(made.values()),
            tuple([names.index(claim.name) for claim in solver.claims if claim.name in made]),
            {
                node.state.name: tuple([one.pod.key for one in node.pods])
                for node in solver.nodes
                if node.pods
            },
            errors | refused,
            self.ignored,
            {key: tuple(texts) for key, texts in solver.relaxations.items()},
            events,
            self.options.seed,
        )
