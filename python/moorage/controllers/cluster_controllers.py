"""The controllers of a cluster that make and delete pods, run by a scheduler over a store of its own.

They follow kube-controller-manager v1.36: replicas, stateful sets, daemon sets, jobs, deployments, disruption
budgets, claims in use, pods of lost nodes, taints that evict, and garbage collection in the background. Time
passes in none of their steps, except for `minReadySeconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from moorage._core.base.indexed_objects import new_states, of_dependents
from moorage._core.base.watch_events import Cause, Notice
from moorage.engine.cache import SchedulerCache
from moorage.engine.plugins.node_affinity_and_taints import UNSCHEDULABLE
from moorage.kube.admission.request import COLLECTOR, RefusedError
from moorage.kube.model.cluster import RefusedPod, Suspended
from moorage.kube.model.meta import Object, OwnerReference
from moorage.kube.model.node import Namespace, Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import PodGroup
from moorage.kube.model.policy import PodDisruptionBudget
from moorage.kube.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.kube.model.workload import (
    PARENTS,
    WORKLOADS,
    CloneSet,
    ControllerRevision,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from moorage.kube.model.workload import Rollout as ArgoRollout
from moorage.kube.releases import FeatureGates
from moorage.kube.workloads.deployment_rollout import (
    Parent,
    changed_template,
    is_child,
    next_children,
    step_of,
)
from moorage.kube.workloads.disruption import SCALABLE
from moorage.kube.workloads.job_state import why_no_more
from moorage.kube.workloads.kind_table import replacement
from moorage.kube.workloads.missing_pods import create_missing, written_revision
from moorage.kube.workloads.ownership import (
    DELETE_DEPENDENTS,
    ORPHAN_DEPENDENTS,
    is_active,
    is_healthy,
    refers_to,
)
from moorage.kube.workloads.readiness import is_coming, progressing, unready_templates
from moorage.kube.workloads.revisions import is_updated, mark_of
from moorage.saved_fields import SavedFields
from moorage.store import (
    DeletedFinalStateUnknown,
    Indexer,
    InformerFactory,
    ObjectStore,
)
from moorage.store.errors import is_namespaced
from moorage.store.informer import HandlerFunctions, ResourceEventHandler, RunHandler, last_state
from moorage.store.protocol import overwrite

from .availability import AWAITING, Availability, AwaitedPod, Rollout, awaited_pods, refused_pods, rollout_of
from .claims_in_use import AttachDetachController, ClaimProtection
from .daemon_set_controller import DaemonSetController
from .deployment_controller import DeploymentController
from .disruption_controller import DisruptionController
from .job_controller import JobController
from .kubelets import SOON, Kubelets, tolerated_seconds
from .pod_times import TimesOf
from .stateful_set_controller import StatefulSetController
from .store_control import OWNER, StoreControl, by_owner, dependents, path, surplus_pods

if TYPE_CHECKING:
    from .queues.queue_controller import QueueController

KINDS = {kind.__name__: kind for kind in WORKLOADS}
_REPLICATED = ("ReplicaSet", "ReplicationController", "StatefulSet")
_MAKERS = frozenset(kind.__name__ for kind in (Deployment, *PARENTS))
"""The kinds whose controllers make the workloads that make the pods."""
NO_CONTROLLER = "no controller would replace it"
_CORDON = UNSCHEDULABLE.key, UNSCHEDULABLE.effect
LATER = 1 << 62
"""The version of workloads that nobody has written: they follow those that were, by their own version."""


class ClusterControllers(SavedFields):
    """Creates, deletes and scales what the workloads in a store ask for, after each change.

    `work` does one round; informers report its writes before the next one.

    Parameters
    ----------
    client : ObjectStore
        Nobody else runs controllers on it.
    cache : SchedulerCache
        Has the pods of each node.
    now : callable
        Returns seconds.
    times : callable
        Returns how long a pod takes.
    gates : FeatureGates
        Those of the cluster, with its release.

    Attributes
    ----------
    handlers : dict of type to ResourceEventHandler or RunHandler
        By kind, what hears of events; `SleepingControllers` pass them on.
    suspended : tuple of Suspended
        The workloads of other projects that were suspended when they came.
    queues : QueueController or None
        Kueue; None for a cluster without its queues.
    """

    def __init__(
        self,
        client: ObjectStore,
        informers: InformerFactory,
        cache: SchedulerCache,
        now: Callable[[], float],
        times: TimesOf,
        gates: FeatureGates,
    ) -> None:
        self._client = client
        self._cache = cache
        # Kind and key of the workloads to look at, with the version in which they were written, or `LATER`.
        self._changed: dict[tuple[str, str], float] = {}
        self._single: dict[str, Pod] = {}  # pods of files that have their turn among workloads
        self._nodes: dict[str, bool] = {}  # nodes that are new, changed or gone; whether pods may have to go
        self._deleted: list[Object] = []  # whose dependents are to be deleted
        # Pods that are gone, with those that operators make in their place; the UIDs of the former of which
        # none was made, with what the API server says.
        self._replacements: list[tuple[Pod, Pod]] = []
        self._refused: dict[str, str] = {}
        self._absent = frozenset[str]()  # workloads that pods name and that were not read: by their paths
        self.suspended: tuple[Suspended, ...] = ()
        self.queues: QueueController | None = None
        self._has_namespaces = False  # whether any was read; else each counts as there
        self._going: set[str] = set()  # UIDs of pods whose replacements were made when the cluster was read
        self._copies: dict[str, Indexer[Any]] = {
            name: informers.informer(kind).indexer for name, kind in KINDS.items()
        }
        self._node_copy: Indexer[Node] = informers.informer(Node).indexer
        claims: Indexer[Any] = informers.informer(PersistentVolumeClaim).indexer
        pods: Indexer[Any] = informers.informer(Pod).indexer
        revisions: Indexer[Any] = informers.informer(ControllerRevision).indexer
        self.kubelets = Kubelets(client, self._node_copy, now, times)
        self.control = StoreControl(client, pods, revisions, self.kubelets.grace_of)
        self.availability = Availability(now, times)
        self.deployments = DeploymentController(self.control, self._copies["ReplicaSet"], self.availability)
        self.stateful_sets = StatefulSetController(self.control, claims, self.availability, gates)
        self.daemon_sets = DaemonSetController(self.control, self._node_copy, self.availability)
        self.jobs = JobController(self.control, self.availability)
        self.budgets = DisruptionController(client, informers, pods)
        groups = informers.informer(PodGroup).indexer if gates["GenericWorkload"] else None
        self.claims = ClaimProtection(client, pods, claims, groups)
        self.attachments = AttachDetachController(client, informers, pods, self.kubelets, gates.release)
        children = (self._copies[kind] for kind in _REPLICATED)
        self._dependents = pods, *children, claims, revisions
        for copy in self._dependents:
            copy.add_index(OWNER, by_owner, is_lasting=True)
        workloads = HandlerFunctions[Any](self.note, self._note_change, self._note_lost_workload)
        protected = HandlerFunctions[Any](
            self.claims.note, lambda _, new: self.claims.note(new), lambda _: None
        )
        self.handlers: dict[type[Object], ResourceEventHandler[Any] | RunHandler[Any]] = {
            **dict.fromkeys(WORKLOADS, workloads),
            Node: NodeEvents(self._note_new_nodes, self._note_changed_node, self._note_lost_node),
            PodDisruptionBudget: self.budgets,
            Namespace: HandlerFunctions[Namespace](lambda _: None, lambda _, __: None, self.note_deletion),
            PersistentVolumeClaim: HandlerFunctions[PersistentVolumeClaim](
                self.claims.note, self._note_changed_claim, lambda _: None
            ),
            PersistentVolume: protected,
            PodGroup: protected,
            Pod: PodWatcher(self),
        }

    def _note_changed_claim(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        """Look at a claim that is being deleted, and at the volume of one that is bound."""
        self.claims.note(new)
        self.attachments.note_claim(old, new)

    def take_turns(self, single: Iterable[tuple[Pod, float]]) -> None:
        """Create single pods in the next round, in their turns among the workloads: between the versions in
        which these were written."""
        for pod, turn in single:
            self._changed[Pod.__name__, pod.key] = turn
            self._single[pod.key] = pod
        self.control.reserved = self._single

    def start(self) -> None:
        """Take the present state of nodes and budgets as it is; informers have reported all objects.

        Workloads are looked at in the first round, in which all that is in namespaces that are being deleted
        goes as well, and pods that do not tolerate a taint NoExecute of their node. The taint of a cordon
        comes or goes. Kubelets end the pods that are being deleted, and start others.
        """
        self._nodes = {}
        for node in self._node_copy.values():
            if node.spec.taints or node.spec.unschedulable:
                has_effect = any(taint.effect == "NoExecute" for taint in node.spec.taints)
                if has_effect or _with_taint_of_cordon(node) is not None:
                    self._nodes[node.name] = has_effect
        self.budgets.start()
        namespaces: list[Namespace] = self._client.list(Namespace)[0]
        self._has_namespaces = bool(namespaces)
        self._deleted += [
            namespace for namespace in namespaces if namespace.metadata.deletion_timestamp is not None
        ]
        pods = self.control.pods.values()
        owners = {
            (owner, pod.metadata.namespace)
            for pod in pods
            for owner in pod.metadata.owner_references
            if owner.controller and owner.kind in _REPLICATED
        }
        self._absent = frozenset(
            path(owner.kind, namespace, owner.name)
            for owner, namespace in owners
            if not self.has(owner, namespace)
        )
        rollouts = progressing(self._copies["Deployment"].values(), self._client.now())
        self.control.unready = unready_templates(pods, rollouts)
        attaches = self.attachments.is_needed
        for pod in pods:
            if attaches:
                self.attachments.note(pod)
            if pod.metadata.deletion_timestamp is not None:
                self._going.add(pod.metadata.uid)
                self.kubelets.note(pod, SOON)
                self.note_owner(pod)
            elif (
                pod.spec.node_name
                and pod.status.conditions
                and not is_healthy(pod)
                and is_coming(pod, rollouts)
            ):
                self.kubelets.note_start(pod)

    def start_among_plain(self, has_namespaces: bool) -> None:
        """Start where nothing that was reported so far concerns controllers.

        Parameters
        ----------
        has_namespaces : bool
            Whether any namespace was read.
        """
        self.budgets.start()
        self._has_namespaces = has_namespaces

    # ---- transactions --------------------------------------------------------------------------------------

    fields = (
        *("_changed", "_nodes", "_deleted", "_replacements", "_refused", "_absent"),
        *("_has_namespaces", "_going", "suspended"),
        *("control", "availability"),
        *("budgets", "claims", "jobs", "kubelets", "attachments", "queues"),
    )

    def _made(self, name: str, like: object) -> SavedFields:
        """Make Kueue for a fork."""
        return self._queues()

    def _restored(self) -> None:
        """Forget what was derived."""
        self.daemon_sets.forget_rollouts()
        self.control.begin_round()  # quotas count other pods

    # ---- what informers report -----------------------------------------------------------------------------

    def note(self, obj: Object) -> None:
        """Look at a workload in the next round, and at the Deployment that controls it."""
        name, version = (obj.kind, obj.key), int(obj.metadata.resource_version)
        self._changed[name] = min(version, self._changed.get(name, LATER))
        if isinstance(obj, ReplicaSet | ReplicationController | StatefulSet):
            self.note_owner(obj)
        if self.budgets.has_budgets and isinstance(obj, SCALABLE):  # its number is what they expect
            makers = self.deployments.sets_of(obj) if isinstance(obj, Deployment) else [obj]
            self.budgets.note(*(pod for maker in makers for pod in self.control.owned(maker)))

    def note_owner(self, obj: Object) -> None:
        """Look at the workload that controls an object in the next round."""
        owner = obj.metadata.controller()
        if owner is not None and owner.kind in KINDS:
            self._changed.setdefault((owner.kind, f"{obj.namespace}/{owner.name}"), LATER)

    def note_lost_pod(self, pod: Pod) -> None:
        """Make the pod in the next round that an operator makes in place of one that is gone, or a workload
        that was not read."""
        owner, is_of_absent = pod.metadata.controller(), self._is_of_absent(pod)
        new = replacement(pod, is_of_absent)
        if new is None or owner is None:
            return
        has_another_name = new.metadata.generate_name or (is_of_absent and owner.kind != "StatefulSet")
        if not (pod.metadata.uid in self._going and has_another_name):
            self._replacements.append((pod, new))

    def _is_of_absent(self, pod: Pod) -> bool:
        owner = pod.metadata.controller() if self._absent else None
        return owner is not None and path(owner.kind, pod.namespace, owner.name) in self._absent

    def note_waiting_owner(self, pod: Pod) -> None:
        """Look at the workload of a pod in the next round, if it waits for its pods."""
        owner = pod.metadata.controller()
        if owner is not None and owner.kind == ReplicaSet.__name__:
            replica_set = self._copies[owner.kind].get(f"{pod.namespace}/{owner.name}")
            owner = None if replica_set is None else replica_set.metadata.controller()
        if owner is not None:
            name = owner.kind, f"{pod.namespace}/{owner.name}"
            if name in self.availability.waiting:
                self._changed.setdefault(name, LATER)

    def _look_at(self, workloads: Iterable[tuple[str, str]]) -> None:
        """Look at workloads in the next round, after those that were written."""
        for workload in workloads:
            self._changed.setdefault(workload, LATER)

    def _note_change(self, old: Object, new: Object) -> None:
        """Look at a changed workload."""
        if old.metadata.uid != new.metadata.uid:
            self.note_deletion(old)
        self.note(new)

    def _note_lost_workload(self, last: Object) -> None:
        """Delete what a workload owned, and look at its owner."""
        self.note_deletion(last)
        self.note(last)

    def _note_new_nodes(self, nodes: Sequence[Node]) -> None:
        """Look at new nodes."""
        self.daemon_sets.forget_rollouts()
        for node in nodes:
            self._nodes.setdefault(node.metadata.name, False)

    def _note_changed_node(self, old: Node, new: Node) -> None:
        """Look at a node whose labels or taints have changed; pods may have to go because of taints."""
        self.daemon_sets.note_node(new.name)
        if old.spec.taints != new.spec.taints or old.status.conditions != new.status.conditions:
            self._nodes[new.name] = True
        elif old.metadata.labels != new.metadata.labels or old.spec != new.spec:
            self._nodes.setdefault(new.name, False)

    def _note_lost_node(self, node: Node) -> None:
        """Look at the pods of a node that is gone."""
        self.daemon_sets.forget_rollouts()
        self._nodes[node.name] = True

    def note_deletion(self, obj: Object) -> None:
        """Delete what an object owns in the next round."""
        self.control.forget_refusal(obj.full_name)
        self.availability.waiting.pop((obj.kind, obj.key), None)  # else a run would wait for it forever
        if isinstance(obj, Job):
            self.jobs.forget(obj.key)
        self._deleted.append(obj)

    # ---- rounds --------------------------------------------------------------------------------------------

    def work(self, decides: bool = True) -> bool:
        """Do one round for everything that has changed since the last one.

        A workload that was looked at because its time had come waits for an event, or for a later time, if
        the round changes nothing. So there are only as many rounds in a row as there are changes.

        Parameters
        ----------
        decides : bool, optional
            Whether Kueue decides. By default it does.
        """
        queues = self.find_queues()
        if queues is not None and queues.work(decides):
            return True
        now = self.availability.now()
        due = [name for name, when in self.availability.waiting.items() if when <= now]
        self._look_at(due)
        if self.control.refusals:
            self._look_at(self.control.to_try_again())
        waiting = (
            *(self._changed, self._nodes, self._deleted, self.budgets.changed, self.claims.changed),
            *(self._replacements, self.attachments.changed),
        )
        if not (any(waiting) or (self.kubelets.due and self.kubelets.is_due)):
            return False
        if self.attachments.work():
            return True  # the others look at pods that they read before
        before = self._client.changes
        self.control.begin_round()
        self.kubelets.work()
        self.claims.work()
        deleted, self._deleted = self._deleted, []
        for obj in deleted:
            self._collect(obj)
        self._replace_pods()
        nodes, self._nodes = self._nodes, {}
        changed, self._changed = self._changed, {}
        for name, may_lose_pods in nodes.items():
            node = self._node_copy.get(name)
            if node is not None and (tainted := _with_taint_of_cordon(node)) is not None:
                self._client.update(tainted)
            if may_lose_pods and self.jobs.has_started:
                self._evict_from(name)
            elif may_lose_pods:
                self._nodes[name] = True  # in the next round, as Jobs count no pod that they do not track yet
            if self._copies["DaemonSet"]:
                self._reconcile_daemons(name, changed)
        self._reconcile_all(changed)
        self.budgets.work()
        self.jobs.has_started = True
        if self._client.changes != before or self._nodes:
            return True
        self.availability.wait_for_events(due)
        return False

    def find_queues(self) -> QueueController | None:
        """Return Kueue, if there is a queue that jobs can name."""
        if self.queues is None:
            self.queues = self._queues() if self._client.has_kind("LocalQueue") else None
        return self.queues

    def _queues(self) -> QueueController:
        from .queues.queue_controller import QueueController  # few clusters have Kueue

        return QueueController(self._client, self.control, lambda: self.suspended)

    def _reconcile_all(self, changed: Mapping[tuple[str, str], float]) -> None:
        """Look at workloads in the order of their writes. Those that make other workloads come first: if that
        changes something, the others wait for a round, in which the new workloads have the turn of their
        maker."""
        before, turns = self._client.changes, {name: self._turn(name, changed[name]) for name in changed}
        in_turn = sorted(changed, key=turns.__getitem__)
        makers = dict.fromkeys(name for name in in_turn if name[0] in _MAKERS and changed[name] < LATER)
        for maker in makers:
            self._reconcile_named(*maker)
        others = {name: changed[name] for name in in_turn if name not in makers}
        if self._client.changes != before:
            self._changed = others | self._changed
            return
        for other in others:
            self._reconcile_named(*other)

    def _turn(self, named: tuple[str, str], version: float) -> float:
        """Return the version of a workload, or of the one that makes it, whose turn it has."""
        obj = self._copies[named[0]].get(named[1]) if named[0] in KINDS else None
        if obj is None:
            return version
        owner, maker = obj.metadata.controller(), None
        if owner is not None and owner.kind in _MAKERS:
            maker = self._copies[owner.kind].get(f"{obj.namespace}/{owner.name}")
        if version == LATER:  # not by events, whose order is that of pods in a file
            return LATER + int((maker or obj).metadata.resource_version)
        return version if maker is None else int(maker.metadata.resource_version)

    def _reconcile_named(self, kind: str, key: str) -> None:
        """Bring a workload to what it asks for; one that is gone has nothing to do, but a Job lets go of its
        pods. A single pod is created."""
        if kind == Pod.__name__:
            self.control.create_single(self._single.pop(key))
            return
        workload = self._copies[kind].get(key)
        if workload is not None:
            self._reconcile(workload)
        elif kind == Job.__name__:
            self.jobs.release(self.control.pods.by_index(OWNER, path(kind, *key.split("/"))))

    def _replace_pods(self) -> None:
        """Create the pods that operators make in place of those that are gone, in namespaces that stay."""
        replacements, self._replacements = self._replacements, []
        listed: list[Namespace] = self._client.list(Namespace)[0] if replacements else []
        stay = {namespace.name for namespace in listed if namespace.metadata.deletion_timestamp is None}
        for gone, pod in replacements:
            if pod.namespace in stay or not self._has_namespaces:
                try:
                    self.control.create(pod, pod)
                except RefusedError as error:
                    self._refused[gone.metadata.uid] = str(error)

    def _collect(self, owner: Object) -> None:
        """Delete what is in a namespace that is gone, or goes, or the dependents of another object, unless
        they have another owner left."""
        if isinstance(owner, Namespace):
            for kind in filter(is_namespaced, self._client.changed_since(-1)):
                for obj in self._client.list(kind, owner.name)[0]:
                    if obj.metadata.deletion_timestamp is None:
                        self._delete(obj)
        for copy in self._dependents:
            for obj in dependents(copy, owner):
                if not any(self._exists(obj, reference) for reference in obj.metadata.owner_references):
                    self._delete(obj)

    def _delete(self, obj: Object) -> None:
        """Delete an object, and let a claim go at once that no pod uses: the next pod may need its name. A
        workload is not looked at in this round, whose copies have it still."""
        with suppress(RefusedError):
            self.control.delete(obj, COLLECTOR)
        self._changed.pop((obj.kind, obj.key), None)
        if isinstance(obj, PersistentVolumeClaim):
            self.claims.release(obj)

    def _let_go(self, owner: Object) -> None:
        """Remove the finalizers of garbage collection of an object that is being deleted: its dependents have
        to be gone first, or are orphaned (kubernetes v1.36, pkg/controller/garbagecollector)."""
        finalizers = owner.metadata.finalizers
        held = [(copy, obj) for copy in self._dependents for obj in dependents(copy, owner)]
        if DELETE_DEPENDENTS in finalizers and held:
            for _, obj in held:
                self._delete(obj)
        elif {DELETE_DEPENDENTS, ORPHAN_DEPENDENTS}.intersection(finalizers):
            for _, obj in held:
                references = obj.metadata.owner_references
                left = tuple(reference for reference in references if not refers_to(reference, owner))
                overwrite(self._client, obj, owner_references=left)
            own = DELETE_DEPENDENTS, ORPHAN_DEPENDENTS
            left_finalizers = tuple(finalizer for finalizer in finalizers if finalizer not in own)
            overwrite(self._client, owner, finalizers=left_finalizers)

    def _exists(self, obj: Object, reference: OwnerReference) -> bool:
        """Whether an owner of an object exists; one of a kind that is not followed does."""
        copy = self.control.pods if reference.kind == "Pod" else self._copies.get(reference.kind)
        if copy is None:
            return True
        owner = copy.get(f"{obj.namespace}/{reference.name}")
        return owner is not None and refers_to(reference, owner)

    def has(self, reference: OwnerReference, namespace: str) -> bool:
        """Whether the pods of an owner are simulated, and it exists."""
        copy = self._copies.get(reference.kind)
        owner = None if copy is None else copy.get(f"{namespace}/{reference.name}")
        return owner is not None and refers_to(reference, owner)

    def why_lost(self, pod: Pod) -> str:
        """Return why there comes no other pod in place of one that is gone; "" where one does, or waits to be
        made, or none is wanted."""
        owner, uid = pod.metadata.controller(), pod.metadata.uid
        if owner is None or uid in self._refused:
            return self._refused.get(uid, NO_CONTROLLER)
        if self.has(owner, pod.namespace):
            job = self._copies[owner.kind].get(f"{pod.namespace}/{owner.name}")
            return why_no_more(job, pod) if isinstance(job, Job) else ""
        return NO_CONTROLLER if replacement(pod, self._is_of_absent(pod)) is None else ""

    def _reconcile(self, obj: Object, node: Node | None = None) -> None:
        """Bring a workload to what it asks for, as far as the API server does not refuse its pods.

        A node is given where a DaemonSet is to be looked at on this node alone.
        """
        name = obj.full_name
        self.control.forget_refusal(name)
        if obj.metadata.deletion_timestamp is not None:
            self._let_go(obj)
        try:
            if isinstance(obj, Deployment):
                self.deployments.reconcile(obj)
            elif isinstance(obj, StatefulSet):
                self.stateful_sets.reconcile(obj)
            elif isinstance(obj, DaemonSet):
                if node is None:
                    self.daemon_sets.reconcile(obj)
                else:
                    self.daemon_sets.reconcile_node(obj, node)
            elif isinstance(obj, Job):
                self.jobs.reconcile(obj)
            elif isinstance(obj, PARENTS):
                self._reconcile_children(obj)
            else:
                before = self._client.changes
                create_missing(self.control, obj, ())
                if self._client.changes == before:  # else there were too few
                    for pod in surplus_pods(self.control, obj, self._related):
                        self.control.delete(pod)
                if isinstance(obj, CloneSet):
                    mark = mark_of(obj, written_revision(self.control, obj))
                    if not all(is_updated(pod, mark) for pod in filter(is_active, self.control.owned(obj))):
                        raise RefusedError(changed_template(obj))
        except RefusedError as error:
            self.control.refuse(obj, str(error))

    def _reconcile_children(self, obj: Parent) -> None:
        """Create and scale what the controller of another project makes."""
        if obj.metadata.deletion_timestamp is not None:
            return
        seconds = obj.spec.min_ready_seconds if isinstance(obj, ArgoRollout) else 0
        children, is_available = self._children(obj), self.availability.of(seconds)

        def available(child: Object) -> int:
            return sum(map(is_available, self.control.owned(child)))

        steps = next_children(obj, children, available)
        if isinstance(obj, ArgoRollout):
            is_complete = not steps and step_of(obj, children, available) is None
            self.availability.wait(obj, is_complete, is_available.due)
        if steps is None:
            raise RefusedError(changed_template(obj))
        for step in steps:
            if step.metadata.uid:
                overwrite(self._client, step)
            else:
                self._client.create(step)

    def _children(self, obj: Parent) -> list[Object]:
        copies = (self._copies[kind] for kind in _REPLICATED)
        return [child for copy in copies for child in copy.values() if is_child(obj, child)]

    def _rollout(self, obj: ArgoRollout) -> Rollout | None:
        """Return how far a Rollout is taken; None if it is complete."""
        children = self._children(obj)
        healthy = {each.name: sum(map(is_healthy, self.control.owned(each))) for each in children}
        if (at := step_of(obj, children, lambda each: healthy[each.name])) is None:
            return None
        (step, new), available = at, sum(healthy.values())
        updated = filter(is_active, self.control.owned(new))
        return replace(rollout_of(obj, obj.spec.replicas or 0, updated, available), step=step)

    def _related(self, obj: Object) -> list[Pod]:
        """Return the active pods of the Deployment of a ReplicaSet, or of a workload alone."""
        reference = obj.metadata.controller()
        owner: Object | None = None
        if reference is not None and reference.kind == "Deployment":
            owner = self._copies["Deployment"].get(f"{obj.namespace}/{reference.name}")
        sets = self.deployments.sets_of(owner) if isinstance(owner, Deployment) else [obj]
        return [pod for replica_set in sets for pod in self.control.owned(replica_set) if is_active(pod)]

    def _evict_from(self, name: str) -> None:
        """Delete the pods of a node that is gone, or those that do not tolerate its taints."""
        node, info = self._node_copy.get(name), self._cache.node_info(name)
        for pod in info.pods if info is not None else ():
            self.kubelets.note(pod)
            if node is None:
                self.control.collect(pod)
            elif not tolerated_seconds(pod, node.spec.taints):
                self.control.evict_by_taint(pod)

    def _reconcile_daemons(self, name: str, changed: Container[tuple[str, str]]) -> None:
        """Let the DaemonSets follow a node, except those that are looked at on all nodes anyway. One with a
        refused pod is looked at on all nodes: it may no longer lack that pod."""
        node = self._node_copy.get(name)
        for daemon_set in self._copies["DaemonSet"].values():
            if node is None:
                self.daemon_sets.leave(daemon_set, name)
            if (daemon_set.kind, daemon_set.key) in changed:
                continue
            if daemon_set.full_name in self.control.refusals:
                self._reconcile(daemon_set)
            elif node is not None:
                self._reconcile(daemon_set, node)

    # ---- rollouts ------------------------------------------------------------------------------------------

    def rollouts(self, among: Collection[tuple[str, str]] | None = None) -> list[Rollout]:
        """Return the rollouts that are not complete, Deployments first, each by ``namespace/name``.

        Parameters
        ----------
        among : collection of (str, str), optional
            Kind and key of the workloads to look at; by default all.
        """
        rollouts: dict[str, Callable[[Any], Rollout | None]] = {
            "Deployment": self.deployments.rollout,
            "StatefulSet": self.stateful_sets.rollout,
            "DaemonSet": self.daemon_sets.rollout,
            "Rollout": self._rollout,
        }
        under_way = [rollout(obj) for kind, rollout in rollouts.items() for obj in self._sorted(kind, among)]
        return [rollout for rollout in under_way if rollout is not None]

    def awaited_pods(self, among: Collection[tuple[str, str]] | None = None) -> list[AwaitedPod]:
        """Return the pods that workloads will create when others are available, or gone; see
        `awaited_pods.awaited_pods`, and `rollouts` for the parameter."""

        def awaited(obj: Object) -> list[Pod]:
            if isinstance(obj, Deployment):
                return self.deployments.awaited_pods(obj)
            return awaited_pods(obj, self.control.owned(obj))

        return [
            AwaitedPod(kind, obj.key, pod)
            for kind in AWAITING
            for obj in self._sorted(kind, among)
            for pod in awaited(obj)
        ]

    def _sorted(self, kind: str, among: Collection[tuple[str, str]] | None) -> list[Any]:
        """Return the workloads of a kind by ``namespace/name``, all of them or some."""
        copy = self._copies[kind]
        if among is None:
            return [obj for _, obj in sorted(copy.items().items())]
        keys = sorted(key for of, key in among if of == kind)
        return [obj for key in keys if (obj := copy.get(key)) is not None]

    def refused_pods(self) -> list[RefusedPod]:
        """Return the pods that the API server refuses: of files, and those that workloads lack."""
        refused = [*self.control.refused]
        for name, message in sorted(self.control.refusals.items()):
            kind, _, key = name.partition(" ")
            obj = self._copies[kind].get(key)
            if obj is not None and name not in self.control.client.denied:  # it has too many pods
                refused += refused_pods(self.control, obj, message, self._node_copy.values())
        return refused

    def next_time(self) -> float:
        """Return the time at which something happens without an event: a pod becomes available, a back-off or
        a grace period ends; infinite if nothing will."""
        return min(self.kubelets.next_time(), *self.availability.waiting.values(), inf)

    def next_stop(self) -> float:
        """Return the time at which the next pod is gone that was deleted; infinity for never."""
        return self.kubelets.next_time()

    @property
    def deletions(self) -> int:
        """Number of pods that the controllers have deleted so far."""
        return self.control.deletions

    def end_back_off(self) -> bool:
        """Look in the next round at the workloads that were refused before the present change, as nobody else
        wants a pod; return whether there are any that may get one."""
        workloads = self.control.end_back_off()
        if workloads:
            self._look_at(workloads)
        return bool(workloads)


def with_cordon(node: Node, value: bool) -> Node:
    """Return a node cordoned or uncordoned. The taint of a cordoned node comes and goes with it, as the node
    lifecycle controller has it (kubernetes v1.36, node_lifecycle_controller.go doNoScheduleTaintingPass).
    """
    kept = [taint for taint in node.spec.taints if (taint.key, taint.effect) != _CORDON]
    taints = (*kept, UNSCHEDULABLE) if value else tuple(kept)
    return replace(node, spec=replace(node.spec, unschedulable=value, taints=taints))


def _with_taint_of_cordon(node: Node) -> Node | None:
    """Return a node with the taint that its cordon lacks, or without one that was of a cordon; None if it has
    what it should."""
    is_tainted = any((taint.key, taint.effect) == _CORDON for taint in node.spec.taints)
    return with_cordon(node, node.spec.unschedulable) if is_tainted != node.spec.unschedulable else None


class NodeEvents(HandlerFunctions[Node]):
    """Passes the events of nodes to functions, those of leading new nodes in one call.

    Parameters
    ----------
    add : callable
        Takes a sequence of new nodes.
    update : callable
        Takes the states before and after.
    """

    def __init__(
        self,
        add: Callable[[Sequence[Node]], object],
        update: Callable[[Node, Node], object],
        delete: Callable[[Node], object],
    ) -> None:
        super().__init__(lambda node: add([node]), update, delete)
        self._add_all = add

    def on_run(self, notices: Iterable[Notice[Node]]) -> int:
        """Pass the leading new nodes (see `RunHandler`)."""
        nodes = new_states(notices, True)
        if nodes:
            self._add_all(nodes)
        return len(nodes)


class PodWatcher:
    """Tells the controllers of pods."""

    def __init__(self, controllers: ClusterControllers) -> None:
        self._controllers = controllers

    def on_run(self, notices: Iterable[Notice[Pod]]) -> int:
        """Process all notices; no pod is made that nobody has read yet."""
        controllers = self._controllers
        has_budgets, waiting = controllers.budgets.has_budgets, controllers.availability.waiting
        attaches = controllers.attachments.is_needed
        reads_all = has_budgets or waiting or controllers.claims.going_groups or attaches
        number, selected = of_dependents(notices)
        if has_budgets:
            controllers.budgets.note(*(notice.identity for notice in notices if not notice.is_deletion))
        for notice in notices if reads_all else selected:
            if notice.is_deletion:
                self.on_delete(notice.old)
            else:
                if waiting:
                    new = cast(Pod, notice.new)
                    controllers.note_waiting_owner(new if notice.is_addition else notice.old)
                    controllers.daemon_sets.note_pod(new)
                    if notice.cause is Cause.BOUND:
                        controllers.availability.note_binding(new)
                if attaches and (notice.cause is Cause.BOUND or notice.is_addition):
                    if notice.identity.spec.volumes:
                        controllers.attachments.note(cast(Pod, notice.new))
                elif notice.cause is Cause.OTHER and not notice.is_addition:
                    self._changed(notice.old, cast(Pod, notice.new))
        return number

    def _changed(self, old: Pod, new: Pod) -> None:
        """Look at the owner of a pod that has ended, and at budgets for labels that a pod had."""
        self._controllers.daemon_sets.note_pod(old)
        if old.metadata.labels != new.metadata.labels:
            self._controllers.budgets.note(old)
        if new.metadata.deletion_timestamp is not None:
            self._controllers.kubelets.note(new)
            self._controllers.note_owner(new)
        if is_active(old) != is_active(new):
            self._controllers.claims.note_lost_pod(new)
            self._controllers.attachments.note(new)
        if is_active(old) != is_active(new) or old.metadata.owner_references != new.metadata.owner_references:
            self._controllers.note_owner(old)
            self._controllers.note_owner(new)
            self._controllers.note_waiting_owner(new)

    def on_delete(self, obj: Pod | DeletedFinalStateUnknown[Pod]) -> None:
        """Look at the owner and the claims of a deleted pod, and delete those that it owns."""
        pod = last_state(obj)
        self._controllers.availability.forget(pod)
        self._controllers.note_owner(pod)
        self._controllers.note_lost_pod(pod)
        self._controllers.daemon_sets.note_pod(pod)
        self._controllers.budgets.note(pod)
        self._controllers.note_waiting_owner(pod)
        self._controllers.claims.note_lost_pod(pod)
        if pod.spec.volumes:
            self._controllers.attachments.note(pod)
            if pod.claim_keys():
                self._controllers.note_deletion(pod)
