"""The queues, cohorts, flavors and topologies of a cluster, with all that is used of them (Kueue v0.17,
pkg/cache/scheduler: snapshot.go, clusterqueue.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.grouped import grouped
from moorage.kube.model.kueue import (
    NEVER,
    RUN,
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    ResourceFlavor,
    ResourceGroup,
    Topology,
)
from moorage.kube.model.meta import Object, condition_of
from moorage.kube.model.node import Node as ClusterNode
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import KUEUE

from .quota import Node, Undo
from .settings import Settings
from .topology_snapshot import TopologySnapshot
from .whole_amounts import PODS, Amounts, FlavorResource, amounts_of, plus
from .workloads import QueuedWorkload, Usage

_TOPOLOGY_ANNOTATIONS = {
    f"{KUEUE}/podset-{kind}-topology" for kind in ("preferred", "required", "unconstrained")
}
_MULTIKUEUE, _PROVISIONING = f"{KUEUE}/multikueue", f"{KUEUE}/provisioning-request"


class FlavorGroup:
    """Resources of a queue that get their flavors together.

    Attributes
    ----------
    label_keys : frozenset of str
        The labels that tell its flavors apart.
    """

    def __init__(self, given: ResourceGroup, flavors: Mapping[str, ResourceFlavor]) -> None:
        self.resources = frozenset(given.covered_resources)
        self.flavors = [each.name for each in given.flavors]
        known = [flavors[name] for name in self.flavors if name in flavors]
        self.label_keys = frozenset(chain.from_iterable(each.spec.node_labels for each in known))


class Queue(Node):
    """A cluster queue.

    Attributes
    ----------
    inactive : str
        Why nothing is admitted; "" if something can be.
    workloads : dict of str to QueuedWorkload
        Those that hold quota, by key.
    generation : int
        Grows whenever an earlier search for flavors counts no more.
    topologies : dict of str to TopologySnapshot
        Those of its flavors that have one.
    namespaces : dict of str to bool
        Those that were asked about, and whether it is for them.
    preempts : bool
        Whether its policies allow any preemption.
    is_plain : bool
        Its flavors have neither taints nor topologies.
    checks : dict of str to frozenset of str
        Its admission checks, with the flavors for which each is asked.
    delays : frozenset of str
        The flavors whose topology is assigned after the admission checks.
    """

    def __init__(self, given: ClusterQueue, parent: Node | None, snapshot: QueueSnapshot) -> None:
        super().__init__(given.name, parent)
        self.spec = given.spec
        self.strategy = given.spec.queueing_strategy
        self.preemption = given.spec.preemption
        reclaims = parent is not None and self.preemption.reclaim_within_cohort != NEVER
        self.preempts = reclaims or self.preemption.within_cluster_queue != NEVER
        self.fungibility = given.spec.flavor_fungibility
        self.groups = [FlavorGroup(each, snapshot.flavors) for each in given.spec.resource_groups]
        self.group_of = {resource: group for group in self.groups for resource in group.resources}
        selector = given.spec.namespace_selector
        self._selector = LabelSelectorMatcher(selector) if selector is not None else None
        self.namespaces: dict[str, bool] = {}
        self.flavors = [flavor for group in self.groups for flavor in group.flavors]
        self.workloads: dict[str, QueuedWorkload] = {}
        self.generation = 1
        self._holders: dict[frozenset[FlavorResource], list[QueuedWorkload]] = {}
        rules = given.spec.admission_checks_strategy.admission_checks
        self.checks = {each.name: frozenset(each.on_flavors or self.flavors) for each in rules}
        known = [snapshot.flavors[name] for name in self.flavors if name in snapshot.flavors]
        with_topology = [each for each in known if each.spec.topology_name is not None]
        self.topologies = {
            each.name: snapshot.topologies[each.name]
            for each in with_topology
            if each.name in snapshot.topologies
        }
        self.is_plain = not with_topology and not any(each.spec.node_taints for each in known)
        self.is_topology_only = len({each.name for each in with_topology}) == len({*self.flavors})
        self.inactive = self._inactive(snapshot, with_topology)
        controllers = {name: snapshot.controllers.get(name, "") for name in self.checks}
        delaying = [self.checks[name] for name, each in controllers.items() if each == _PROVISIONING]
        if _MULTIKUEUE in controllers.values():
            delaying.append(frozenset(self.flavors))
        self.delays = frozenset(chain.from_iterable(delaying))
        self.set_quotas(given.spec.resource_groups, given.spec.fair_sharing)

    def _inactive(self, snapshot: QueueSnapshot, with_topology: Iterable[ResourceFlavor]) -> str:
        """Return why it is inactive, in Kueue's words."""
        texts: list[str] = []

        def add(text: str, names: Iterable[str]) -> None:
            if names := list(names):
                texts.append(f"{text}: {','.join(names)}")

        if self.spec.stop_policy != RUN:
            texts.append("is stopped")
        add(
            "references missing ResourceFlavor(s)",
            [name for name in self.flavors if name not in snapshot.flavors],
        )
        missing = sorted(name for name in self.checks if name not in snapshot.controllers)
        add("references missing AdmissionCheck(s)", missing)
        idle = sorted(name for name in self.checks if name in snapshot.inactive_checks)
        add("references inactive AdmissionCheck(s)", idle)
        multi = sorted(name for name in self.checks if snapshot.controllers.get(name) == _MULTIKUEUE)
        if len(multi) > 1:
            add("Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found", multi)
        partly = [name for name in multi if self.checks[name] != frozenset(self.flavors)]
        add("Cannot specify MultiKueue AdmissionCheck per flavor, found", partly)
        provisioning = [name for name in self.checks if snapshot.controllers.get(name) == _PROVISIONING]
        if multi and provisioning:
            both = f"{','.join(multi)}, {','.join(sorted(provisioning))}"
            text = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found"
            texts.append(f"{text}: {both}")
        if not multi:
            texts += [
                f'there is no Topology "{each.spec.topology_name}" for TAS flavor "{each.name}"'
                for each in with_topology
                if each.name not in snapshot.topologies
            ]
        if not texts and self.parent is not None and self.parent.name in snapshot.circular:
            texts.append("cohort has a cycle")
        return f"Can't admit new workloads: {', '.join(texts)}." if texts else ""

    def selects(self, labels: dict[str, str]) -> bool:
        """Whether a namespace with some labels may use it."""
        return self._selector is not None and self._selector.matches(labels)

    def holders(self, needed: frozenset[FlavorResource]) -> list[QueuedWorkload]:
        """Return the workloads that hold one of some resources of flavors, in the order in which they go."""
        known = self._holders.get(needed)
        if known is None:
            holders = [each for each in self.workloads.values() if each.uses(needed)]
            known = self._holders[needed] = sorted(holders, key=QueuedWorkload.rank)
        return known

    def changed(self) -> None:
        """Forget what was found of its workloads and its tree, as one of them has come, changed or gone."""
        self._holders.clear()
        self.root.known.clear()

    def available(self, key: FlavorResource) -> int:
        """Return what it can use of a resource of a flavor now."""
        return max(0, self.cell(key).available())

    def use(self, usage: Usage, changes: Undo, times: int = 1) -> None:
        """Add a usage, or remove it (-1)."""
        for key, value in usage.quota.items():
            cell = self.cell(key)
            (cell.add if times > 0 else cell.remove)(value, changes)
        for flavor, domains in usage.domains.items():
            if flavor in self.topologies:
                self.topologies[flavor].use(domains, times, changes)

    def release(self, usage: Usage, changes: Undo) -> None:
        """Remove a usage."""
        self.use(usage, changes, -1)

    def fits(self, usage: Usage) -> bool:
        """Whether a usage fits now."""
        return all(self.available(key) >= value for key, value in usage.quota.items()) and all(
            self.topologies[flavor].fits(domains) for flavor, domains in usage.domains.items()
        )


class QueueSnapshot:
    """All queues, as objects and workloads make them.

    Attributes
    ----------
    queues : dict of str to Queue
        By name, those that are not active as well.
    cohorts : dict of str to Node
    flavors : dict of str to ResourceFlavor
    topologies : dict of str to TopologySnapshot
        By flavor.
    trees : dict of Node to list of Queue
        By the node at the top, those that are not active as well.
    circular : set of str
        Cohorts that are above themselves, and those below such.
    """

    def __init__(self, objects: Iterable[Object], settings: Settings) -> None:
        objects = sorted(objects, key=lambda each: each.key)
        self.flavors = {each.name: each for each in objects if isinstance(each, ResourceFlavor)}
        checks = [each for each in objects if isinstance(each, AdmissionCheck)]
        self.controllers = {each.name: each.spec.controller_name for each in checks}
        self.inactive_checks = {each.name for each in checks if not each.is_active}
        self.topologies = self._topologies(objects, settings)
        given_queues = [each for each in objects if isinstance(each, ClusterQueue)]
        cohorts = [each for each in objects if isinstance(each, Cohort)]
        self.circular: set[str] = set()
        self.cohorts = self._cohorts(cohorts, {each.spec.cohort_name for each in given_queues})
        self.queues: dict[str, Queue] = {}
        self._counted: dict[str, tuple[Queue, Usage]] = {}
        for given in given_queues:
            parent = self.cohorts.get(given.spec.cohort_name)
            queue = self.queues[given.name] = Queue(given, parent, self)
            if parent is not None and not queue.inactive:
                parent.queues.append(queue)
        self.trees = grouped((queue.root, queue) for queue in self.queues.values())
        depths = {cohort: len(cohort.path) for cohort in self.cohorts.values()}
        for queue in self.queues.values():
            queue.lend_upwards()
        for cohort in sorted(self.cohorts.values(), key=lambda each: -depths[each]):
            cohort.lend_upwards()
            cohort.cohorts.sort(key=lambda each: each.name)
            heights = [child.height + 1 for child in cohort.cohorts]
            cohort.height = max([*heights, min(len(cohort.cohorts) + len(cohort.queues), 1)])

    def _topologies(self, objects: Iterable[Object], settings: Settings) -> dict[str, TopologySnapshot]:
        by_name = {each.name: each for each in objects if isinstance(each, Topology)}
        with_topology = [each for each in self.flavors.values() if each.spec.topology_name in by_name]
        if not with_topology or not settings.gate("TopologyAwareScheduling"):
            return {}
        used: dict[str, Amounts] = {}
        for pod in objects:
            if not isinstance(pod, Pod):
                continue
            marked = not _TOPOLOGY_ANNOTATIONS.isdisjoint(pod.metadata.annotations)
            if pod.spec.node_name and not marked and pod.status.phase not in ("Succeeded", "Failed"):
                of_node = plus(used.get(pod.spec.node_name, {}), amounts_of(pod.spec))
                used[pod.spec.node_name] = plus(of_node, {PODS: 1})
        usable = [each for each in objects if isinstance(each, ClusterNode) and is_usable(each)]
        return {
            each.name: TopologySnapshot(each, by_name[each.spec.topology_name or ""], usable, used, settings)
            for each in with_topology
        }

    def _cohorts(self, given: Iterable[Cohort], named: Iterable[str]) -> dict[str, Node]:
        """Return all cohorts, also those without an object; those that go in a circle have no parent."""
        objects = {each.name: each for each in given}
        parents = {name: cohort.spec.parent_name for name, cohort in objects.items()}
        names = sorted({*objects, *named, *parents.values()} - {""})
        for name in names:
            above, seen = name, set[str]()
            while above and above not in seen:
                seen.add(above)
                above = parents.get(above, "")
            if above:
                self.circular.add(name)
        nodes: dict[str, Node] = {}

        def make(name: str) -> Node:
            if name not in nodes:
                above = "" if name in self.circular else parents.get(name, "")
                parent = make(above) if above else None
                node = nodes[name] = Node(name, parent)
                if parent is not None:
                    parent.cohorts.append(node)
                if name in objects:
                    spec = objects[name].spec
                    node.set_quotas(spec.resource_groups, spec.fair_sharing)
            return nodes[name]

        for name in names:
            make(name)
        return nodes

    def admit(self, workload: QueuedWorkload) -> None:
        """Count what a workload holds now, and not what it held before."""
        self.forget(workload.key)
        queue = self.queues.get(workload.cluster_queue)
        if queue is not None:
            queue.workloads[workload.key] = workload
            self._counted[workload.key] = queue, workload.usage()
            queue.use(workload.usage(), Undo())
            queue.changed()

    def forget(self, key: str) -> None:
        """Count what a workload has held no more; searches for flavors start anew."""
        counted = self._counted.pop(key, None)
        if counted is not None:
            queue, usage = counted
            del queue.workloads[key]
            queue.release(usage, Undo())
            queue.generation += 1
            queue.changed()

    def release_all(self, workloads: Iterable[QueuedWorkload], changes: Undo) -> None:
        """Remove what workloads use from where they use it."""
        for workload in workloads:
            self.queues[workload.cluster_queue].release(workload.usage(), changes)


def is_usable(node: ClusterNode) -> bool:
    """Whether a node counts in topologies: ready, and not cordoned."""
    ready = condition_of(node.status.conditions, "Ready")
    return not node.spec.unschedulable and ready is not None and ready.status == "True"
