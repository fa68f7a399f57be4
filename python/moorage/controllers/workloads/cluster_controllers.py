"""The controllers of a cluster that make and delete pods, run by a scheduler over a store of its own.

They follow kube-controller-manager v1.36: replicas, stateful sets, daemon sets, jobs, deployments, disruption
budgets, pods of lost nodes, taints that evict, and garbage collection in the background. Time passes in none
of their steps, except for `minReadySeconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from math import inf
from typing import Any

from moorage._core.base.selectors import find_intolerable_taint
from moorage._core.base.watch_events import Notice, WatchEvent
from moorage.cache import SchedulerCache
from moorage.objects.admission.admission import RefusedError
from moorage.objects.model.meta import Object, OwnerReference
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.policy import PodDisruptionBudget
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.objects.model.workload import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from moorage.objects.workloads.daemon_pods import should_continue
from moorage.objects.workloads.missing_pods import create_missing, daemon_spec
from moorage.objects.workloads.ownership import is_active, refers_to
from moorage.store import DeletedFinalStateUnknown, Indexer, InformerFactory, ObjectStore

from .deployment_controller import DeploymentController, Rollout
from .disruption_controller import DisruptionController
from .owner_index import OWNER, by_owner, dependents
from .store_control import StoreControl
from .surplus_pods import surplus_pods

WORKLOADS: tuple[type[Object], ...] = (
    Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job,
)  # fmt: skip
KINDS = {kind.__name__: kind for kind in WORKLOADS}
_EVICTING = frozenset({"NoExecute"})


class ClusterControllers:
    """Creates, deletes and scales what the workloads in a store ask for, after each change.

    `work` does one round; informers report its writes before the next one.

    Parameters
    ----------
    client : ObjectStore
        Nobody else runs controllers on it.
    informers : InformerFactory
        Those of the scheduler.
    cache : SchedulerCache
        Has the pods of each node.
    now : callable
        Returns seconds, for `minReadySeconds`.
    """

    def __init__(
        self,
        client: ObjectStore,
        informers: InformerFactory,
        cache: SchedulerCache,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._cache = cache
        self._now = now
        self._changed: dict[tuple[str, str], None] = {}  # kind and key of the workloads to look at
        self._nodes: dict[str, bool] = {}  # nodes that are new, changed or gone; whether pods may have to go
        self._deleted: list[Object] = []  # whose dependents are to be deleted
        self._copies: dict[str, Indexer[Any]] = {
            name: informers.informer(kind).indexer for name, kind in KINDS.items()
        }
        self._node_copy: Indexer[Node] = informers.informer(Node).indexer
        claims: Indexer[Any] = informers.informer(PersistentVolumeClaim).indexer
        pods: Indexer[Any] = informers.informer(Pod).indexer
        claims.add_index(OWNER, by_owner, is_lasting=True)
        self.control = StoreControl(client, pods)
        self.deployments = DeploymentController(self.control, self._copies["ReplicaSet"], now)
        self.budgets = DisruptionController(client, informers, pods)
        self._dependents = pods, self._copies["ReplicaSet"], claims
        for kind in WORKLOADS:
            informers.informer(kind).add_event_handler(WorkloadEvents(self))
        informers.informer(Node).add_event_handler(NodeEvents(self))
        informers.informer(PodDisruptionBudget).add_event_handler(self.budgets)
        informers.informer(Pod).add_event_handler(PodEvents(self))

    def start(self) -> None:
        """Take the present state of nodes and budgets as it is; informers have reported all objects.

        Workloads are looked at in the first round.
        """
        self._nodes.clear()
        self.budgets.start()

    # ---- transactions --------------------------------------------------------------------------------------

    def save(self) -> object:
        """Return the state, for `undo`."""
        queues = self._changed.copy(), self._nodes.copy(), self._deleted.copy()
        return queues, self.deployments.save(), self.budgets.save(), self.control.refusals.copy()

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        (changed, nodes, deleted), deployments, budgets, refusals = saved
        self.control.refusals = refusals.copy()
        self._changed, self._nodes, self._deleted = changed.copy(), nodes.copy(), deleted.copy()
        self.deployments.undo(deployments)
        self.budgets.undo(budgets)

    # ---- what informers report -----------------------------------------------------------------------------

    def note(self, obj: Object) -> None:
        """Look at a workload in the next round, and at the Deployment that controls it.

        Parameters
        ----------
        obj : Object
        """
        self._changed[obj.kind, obj.key] = None
        if isinstance(obj, ReplicaSet):
            self.note_owner(obj)
        self.budgets.note_workload(obj)

    def note_owner(self, obj: Object) -> None:
        """Look at the workload that controls an object in the next round.

        Parameters
        ----------
        obj : Object
        """
        owner = obj.metadata.controller()
        if owner is not None and owner.kind in KINDS:
            self._changed[owner.kind, f"{obj.namespace}/{owner.name}"] = None

    def note_pods(self) -> None:
        """Look at rollouts and refused workloads in the next round, as pods have changed."""
        self._changed.update((("Deployment", key), None) for key in self.deployments.rolling)
        for name in self.control.refusals:
            kind, _, key = name.partition(" ")
            self._changed[kind, key] = None

    def note_node(self, name: str, may_lose_pods: bool) -> None:
        """Look at a node in the next round.

        Parameters
        ----------
        name : str
        may_lose_pods : bool
            Whether the node is gone or has other taints.
        """
        self._nodes[name] = may_lose_pods or self._nodes.get(name, False)

    def note_deletion(self, obj: Object) -> None:
        """Delete what an object owns in the next round.

        Parameters
        ----------
        obj : Object
            The last state.
        """
        self.control.refusals.pop(f"{obj.kind} {obj.key}", None)
        if isinstance(obj, Deployment):
            self.deployments.rolling.pop(obj.key, None)  # else a run would wait for it forever
        self._deleted.append(obj)

    # ---- rounds --------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Do one round for everything that has changed since the last one.

        Returns
        -------
        bool
            Whether anything was written.
        """
        before = self._client.changes
        self._wake()
        self.control.begin_round()
        deleted, self._deleted = self._deleted, []
        for obj in deleted:
            self._collect(obj)
        nodes, self._nodes = self._nodes, {}
        changed, self._changed = self._changed, {}
        for name, may_lose_pods in nodes.items():
            if may_lose_pods:
                self._evict_from(name)
            self._reconcile_daemons(name, changed)
        for kind, key in changed:
            workload = self._copies[kind].get(key)
            if workload is not None:
                self._reconcile(workload)
        self.budgets.work()
        return self._client.changes != before

    def _collect(self, owner: Object) -> None:
        """Delete the dependents of an object that is gone, unless they have another owner left."""
        for copy in self._dependents:
            for obj in dependents(copy, owner):
                if not any(self._exists(obj, reference) for reference in obj.metadata.owner_references):
                    self.control.delete(obj)

    def _exists(self, obj: Object, reference: OwnerReference) -> bool:
        """Whether an owner of an object exists; one of a kind that is not followed does."""
        copy = self.control.pods if reference.kind == "Pod" else self._copies.get(reference.kind)
        if copy is None:
            return True
        owner = copy.get(f"{obj.namespace}/{reference.name}")
        return owner is not None and refers_to(reference, owner)

    def _reconcile(self, obj: Object) -> None:
        """Bring a workload to what it asks for."""
        if isinstance(obj, Deployment):
            self.deployments.reconcile(obj)
            return
        nodes: list[Node] = []
        if isinstance(obj, DaemonSet):
            nodes = self._node_copy.values()
            self._remove_daemons(obj)
        self._create_missing(obj, nodes)
        related: list[Pod] = []
        if isinstance(obj, ReplicaSet) and self.control.active(obj) > (obj.spec.replicas or 0):
            related = self._related(obj)
        for pod in surplus_pods(self.control, obj, related):
            self.control.delete(pod)

    def _create_missing(self, obj: Object, nodes: list[Node]) -> None:
        """Create the missing pods of a workload up to the first that the API server refuses."""
        name = f"{obj.kind} {obj.key}"
        self.control.refusals.pop(name, None)
        try:
            create_missing(self.control, obj, nodes)
        except RefusedError as error:
            self.control.refusals[name] = str(error)

    def _related(self, obj: ReplicaSet) -> list[Pod]:
        """Return the active pods of the Deployment of a ReplicaSet, or of itself alone."""
        reference = obj.metadata.controller()
        owner = self._copies["Deployment"].get(f"{obj.namespace}/{reference.name}") if reference else None
        sets = [obj] if owner is None else self.deployments.sets_of(owner)
        return [pod for one in sets for pod in self.control.owned(one) if is_active(pod)]

    def _remove_daemons(self, obj: DaemonSet) -> None:
        """Delete the pods of a DaemonSet on nodes on which it should not run."""
        spec = daemon_spec(obj)
        for node in self._node_copy.values():
            if not should_continue(spec, node):
                for pod in self.control.daemons(obj, node.name):
                    self.control.delete(pod)

    def _evict_from(self, name: str) -> None:
        """Delete the pods of a node that is gone, or those that do not tolerate its taints."""
        node, info = self._node_copy.get(name), self._cache.node_info(name)
        for pod in info.pods if info is not None else ():
            if node is None or find_intolerable_taint(node.spec.taints, pod.spec.tolerations, _EVICTING):
                self.control.delete(pod)

    def _reconcile_daemons(self, name: str, changed: Container[tuple[str, str]]) -> None:
        """Let the DaemonSets follow a node, except those that are looked at on all nodes anyway."""
        node = self._node_copy.get(name)
        for daemon_set in self._copies["DaemonSet"].values():
            if node is None or not should_continue(daemon_spec(daemon_set), node):
                for pod in self.control.daemons(daemon_set, name):
                    self.control.delete(pod)
            elif (daemon_set.kind, daemon_set.key) not in changed:
                self._create_missing(daemon_set, [node])

    # ---- rollouts ------------------------------------------------------------------------------------------

    def rollouts(self) -> list[Rollout]:
        """Return the rollouts of Deployments that are not complete, by ``namespace/name``."""
        copies = sorted(self._copies["Deployment"].items().items())
        found = [self.deployments.rollout(one) for _, one in copies]
        return [one for one in found if one is not None]

    def next_time(self) -> float:
        """Return the time at which the next pod becomes available; infinite if none waits for it."""
        return min(self.deployments.rolling.values(), default=inf)

    def _wake(self) -> None:
        """Look at the rollouts whose next pod is available by now."""
        now = self._now()
        due = [key for key, when in self.deployments.rolling.items() if when <= now]
        self._changed.update((("Deployment", key), None) for key in due)


class WorkloadEvents:
    """Tells the controllers of changed workloads.

    Parameters
    ----------
    controllers : ClusterControllers
    """

    def __init__(self, controllers: ClusterControllers) -> None:
        self._controllers = controllers

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Look at a new workload.

        Parameters
        ----------
        obj : Object
        is_in_initial_list : bool
        """
        self._controllers.note(obj)

    def on_update(self, old: Object, new: Object) -> None:
        """Look at a changed workload.

        Parameters
        ----------
        old, new : Object
        """
        if old.metadata.uid != new.metadata.uid:
            self._controllers.note_deletion(old)
        self._controllers.note(new)

    def on_delete(self, obj: Object | DeletedFinalStateUnknown[Object]) -> None:
        """Delete what a workload owned, and look at its owner.

        Parameters
        ----------
        obj : Object or DeletedFinalStateUnknown
        """
        last = obj.obj if isinstance(obj, DeletedFinalStateUnknown) else obj
        self._controllers.note_deletion(last)
        self._controllers.note(last)


class NodeEvents:
    """Tells the controllers of new, changed and lost nodes.

    Parameters
    ----------
    controllers : ClusterControllers
    """

    def __init__(self, controllers: ClusterControllers) -> None:
        self._controllers = controllers

    def on_add(self, obj: Node, is_in_initial_list: bool) -> None:
        """Look at a new node.

        Parameters
        ----------
        obj : Node
        is_in_initial_list : bool
        """
        self._controllers.note_node(obj.name, False)

    def on_update(self, old: Node, new: Node) -> None:
        """Look at a node whose labels or taints have changed.

        Parameters
        ----------
        old, new : Node
        """
        has_other_taints = old.spec.taints != new.spec.taints
        if has_other_taints or old.metadata.labels != new.metadata.labels:
            self._controllers.note_node(new.name, has_other_taints)

    def on_delete(self, obj: Node | DeletedFinalStateUnknown[Node]) -> None:
        """Look at the pods of a node that is gone.

        Parameters
        ----------
        obj : Node or DeletedFinalStateUnknown
        """
        node = obj.obj if isinstance(obj, DeletedFinalStateUnknown) else obj
        self._controllers.note_node(node.name, True)


class PodEvents:
    """Tells the controllers of pods.

    Parameters
    ----------
    controllers : ClusterControllers
    """

    def __init__(self, controllers: ClusterControllers) -> None:
        self._controllers = controllers

    def on_run(self, notices: Iterable[Notice[Pod]]) -> int:
        """Process all notices; no pod is made that nobody has read yet.

        Parameters
        ----------
        notices : iterable of Notice

        Returns
        -------
        int
            Their number.
        """
        controllers, number = self._controllers, 0
        has_budgets = controllers.budgets.has_budgets
        for notice in notices:
            number += 1
            if notice.is_deletion:
                self.on_delete(notice.known)
            else:
                if has_budgets:
                    controllers.budgets.note(notice.known)
                if not (notice.is_addition or isinstance(notice.held, WatchEvent)):
                    self._changed(notice.old, notice.known)
        controllers.note_pods()
        return number

    def _changed(self, old: Pod, new: Pod) -> None:
        """Look at the owner of a pod that has ended, and at budgets for labels that a pod had."""
        if old.metadata.labels != new.metadata.labels:
            self._controllers.budgets.note(old)
        if is_active(old) != is_active(new) or old.metadata.owner_references != new.metadata.owner_references:
            self._controllers.note_owner(old)
            self._controllers.note_owner(new)

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        """Receive a new pod; `on_run` does.

        Parameters
        ----------
        obj : Pod
        is_in_initial_list : bool
        """
        self.on_run([Notice(None, obj)])

    def on_update(self, old: Pod, new: Pod) -> None:
        """Receive a changed pod; `on_run` does.

        Parameters
        ----------
        old, new : Pod
        """
        self.on_run([Notice(old, new)])

    def on_delete(self, obj: Pod | DeletedFinalStateUnknown[Pod]) -> None:
        """Look at the owner of a deleted pod, and delete the claims of its ephemeral volumes.

        Parameters
        ----------
        obj : Pod or DeletedFinalStateUnknown
        """
        pod = obj.obj if isinstance(obj, DeletedFinalStateUnknown) else obj
        self._controllers.note_owner(pod)
        self._controllers.budgets.note(pod)
        self._controllers.note_pods()
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            self._controllers.note_deletion(pod)
