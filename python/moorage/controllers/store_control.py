"""What the controllers of workloads share: what they know about pods, how they write them, and which go first
(kubernetes v1.36, pkg/controller/controller_utils.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cmp_to_key
from math import inf, log2
from typing import TypeVar

from msgspec.structs import replace

from moorage._core.base.shared_parts import PartMemo
from moorage.errors import InputError
from moorage.kube.admission.chain import Admission
from moorage.kube.admission.request import (
    POD_COLLECTOR,
    TAINT_EVICTION,
    AdmissionRequest,
    Operation,
    RefusedError,
    UserInfo,
    creator_of,
    deletion,
)
from moorage.kube.model.admission_registration import DECIDERS
from moorage.kube.model.cluster import RefusedPod, seconds
from moorage.kube.model.meta import (
    Condition,
    LabelSelector,
    Object,
    OwnerReference,
    by_label,
    condition_of,
    whole_number,
    with_condition,
)
from moorage.kube.model.node import Node
from moorage.kube.model.pod import DELETION_COST, Pod, disruption_condition
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.model.workload import (
    MAX_PODS,
    ControllerRevision,
    DaemonSet,
    Job,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from moorage.kube.workloads.daemon_pods import node_of
from moorage.kube.workloads.ownership import (
    FINISHED,
    Workloads,
    controller_reference,
    group_to_show,
    has_made_up_uid,
    is_active,
    is_healthy,
)
from moorage.kube.workloads.readiness import with_readiness
from moorage.kube.workloads.revisions import Mark, forgotten_revisions
from moorage.kube.workloads.stateful_pods import ephemeral_claims
from moorage.lazy import NamedTuple
from moorage.saved_fields import SavedFields
from moorage.store import (
    AlreadyExistsError,
    Indexer,
    NotFoundError,
    ObjectClient,
    ObjectStore,
    find_object,
)
from moorage.store.deletion import tell_why
from moorage.store.protocol import overwrite

from .api_server import POLICIES, admission_of, server_of, who_deletes

# ---- owner index -------------------------------------------------------------------------------------------
#
# Indexes of objects by their owners, for informers of pods, ReplicaSets and claims.

T = TypeVar("T", bound=Object)

OWNER, ENDED, ORPHAN = "owner", "owner of ended pods", "orphan"


def path(kind: str, namespace: str, name: str) -> str:
    """Return the value in the index of what an object controls."""
    return f"{kind} {namespace}/{name}"


def by_owner(obj: Object) -> tuple[str, ...]:
    """Return the values of an object in the index of owners: for its controller the path and the path with
    the UID, for any other owner the latter with another sign.
    """
    values, daemon_sets = _values_by(obj.metadata.owner_references, obj.metadata.namespace)
    if daemon_sets and isinstance(obj, Pod):
        return values + tuple([f"{at}@{node_of(obj.spec)}" for at in daemon_sets])
    return values


@PartMemo
def _values_by(owners: tuple[OwnerReference, ...], namespace: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values that its owners give an object, and the paths of those that are DaemonSets."""
    values, daemon_sets = list[str](), list[str]()
    for owner in owners:
        group = group_to_show(owner.kind, owner.api_version) if owner.api_version else ""
        at = path(f"{owner.kind}.{group}" if group else owner.kind, namespace, owner.name)
        values += [at, f"{at}#{owner.uid}"] if owner.controller else [f"{at}!{owner.uid}"]
        daemon_sets += [at] if owner.kind == "DaemonSet" else []
    return tuple(values), tuple(daemon_sets)


def of_ended(pod: Pod) -> tuple[str, ...]:
    """Return the values of a pod that is not active in the index of owners of such pods."""
    return () if is_active(pod) else by_owner(pod)


def of_orphan(pod: Pod) -> Iterable[str]:
    """Return the namespace and the labels of an active pod without a controller, for adoption."""
    return by_label(pod) if pod.metadata.controller() is None and is_active(pod) else ()


def values_of(owner: Object) -> tuple[str, ...]:
    """Return the values that the index has for what an object controls (see `refers_to`)."""
    at = path(owner.kind, owner.namespace, owner.name)
    return (at,) if has_made_up_uid(owner) else (f"{at}#{owner.metadata.uid}", f"{at}#")


def dependents(indexer: Indexer[T], owner: Object) -> list[T]:
    """Return the objects with an owner reference to an object.

    Parameters
    ----------
    indexer : Indexer
        With the index of owners.
    """
    at = path(owner.kind, owner.namespace, owner.name)
    values = (*values_of(owner), f"{at}!{owner.metadata.uid}", f"{at}!")
    return [obj for value in values for obj in indexer.by_index(OWNER, value)]


# ---- store control -----------------------------------------------------------------------------------------

ADMISSION_READS = frozenset({Pod, PersistentVolumeClaim, Service, *DECIDERS, *POLICIES})
"""The kinds on which it depends whether a pod, or a claim of a pod, is admitted."""


class StoreControl(SavedFields):
    """Reads pods from an informer's copy and writes to the store (`PodControl`).

    Parameters
    ----------
    pods, revisions : Indexer
        The informers' copies, with the index of owners.
    grace_of : callable
        Returns the grace period in seconds with which a pod is deleted.

    Attributes
    ----------
    deletions : int
        Number of objects that were deleted.
    refusals : dict of str to str
        The workloads whose next pod the API server would refuse, as ``Kind namespace/name``, with its text.
    backing_off : frozenset of str
        Those of them that were refused before the present change. They try again when nobody else wants a
        pod: kube-controller-manager lets them wait ever longer, while the owner of a pod hears of its end at
        once.
    reserved : mapping of str to Pod
        By ``namespace/name``, pods that files have and that are not created yet.
    refused : tuple of RefusedPod
        Pods that files have and that quotas refused at their turn.
    unready : dict of Mark to int
        The templates of whose pods none was ready when the cluster was read (`unready_templates`).
    """

    fields = ("refusals", "backing_off", "_backed_off", "unready", "refused")

    def __init__(
        self,
        client: ObjectStore,
        pods: Indexer[Pod],
        revisions: Indexer[ControllerRevision],
        grace_of: Callable[[Pod], int],
    ) -> None:
        self.client = client
        self._grace_of, self._began = grace_of, client.now()
        self.pods = pods
        self._revisions = revisions
        self.deletions = 0
        self.refusals: dict[str, str] = {}
        self.backing_off: frozenset[str] = frozenset()
        self.unready: dict[Mark, int] = {}
        self.reserved: Mapping[str, Pod] = {}
        self.refused: tuple[RefusedPod, ...] = ()
        self._to_create = 0  # pods to create in this round
        self._admission: Admission | None = None  # of this round
        self._read = -1  # the changes of the store that the last refusal has seen
        self._backed_off = -1  # those that there were when `end_back_off` was last called
        pods.add_index(ENDED, of_ended, is_lasting=True)
        pods.add_index(ORPHAN, of_orphan, is_lasting=True)

    def begin_round(self) -> None:
        """Forget what admission depends on: policies, and the usage of quotas."""
        self._admission, self._to_create = None, 0

    def to_try_again(self) -> list[tuple[str, str]]:
        """Return kind and ``namespace/name`` of the workloads whose next pod was refused, if something that
        admission reads has changed since; those that back off are not among them."""
        names = self.refusals.keys() - self.backing_off
        return self._named(names) if names and self._has_changed_since(self._read) else []

    def begin_back_off(self, known: Container[str]) -> None:
        """Let those refused workloads back off that are known from before, as ``Kind namespace/name``."""
        self.backing_off = frozenset(name for name in self.refusals if name in known)
        self._backed_off = self.client.changes

    def end_back_off(self) -> list[tuple[str, str]]:
        """Return kind and ``namespace/name`` of the workloads that back off, if something that admission
        reads has changed since the last call. Whoever is refused now backs off from now on."""
        names, before = self.backing_off & self.refusals.keys(), self._backed_off
        self.backing_off, self._backed_off = frozenset(self.refusals), self.client.changes
        return self._named(names) if names and self._has_changed_since(before) else []

    def _has_changed_since(self, changes: int) -> bool:
        return not ADMISSION_READS.isdisjoint(self.client.changed_since(changes))

    def _named(self, names: Container[str]) -> list[tuple[str, str]]:
        """Return kind and key of refused workloads, in the order in which they were refused."""
        parts = (name.partition(" ") for name in self.refusals if name in names)
        return [(kind, key) for kind, _, key in parts]

    def forget_refusal(self, name: str) -> None:
        """Forget that a workload was refused, as it has its turn, or is gone."""
        if self.refusals.pop(name, None) is not None:
            self.backing_off -= {name}

    def refuse(self, owner: Object, message: str) -> None:
        """Remember that the API server refuses the next pod of a workload."""
        self.refusals[owner.full_name] = message
        self._read = self.client.changes

    @property
    def admission(self) -> Admission:
        """The admission of the API server in this round."""
        if self._admission is None:
            self._admission = admission_of(self.client)
        return self._admission

    def active(self, owner: Object) -> int:
        """Return the number of active pods that an object controls."""
        count = self.pods.count
        return sum(count(OWNER, value) - count(ENDED, value) for value in values_of(owner))

    def owned(self, owner: Object) -> list[Pod]:
        """Return the pods that an object controls, in any state."""
        return [pod for value in values_of(owner) for pod in self.pods.by_index(OWNER, value)]

    def adopt(self, owner: Object, selector: LabelSelector | None) -> list[Pod]:
        """Adopt the active pods without a controller that match a selector: they refer to the owner then.

        Parameters
        ----------
        selector : LabelSelector or None
            None adopts no pods.
        """
        if selector is None or not self.pods.count(ORPHAN, owner.namespace):
            return []
        adopted = []
        for orphan in self.pods.selected(ORPHAN, owner.namespace, selector):
            references = (*orphan.metadata.owner_references, *controller_reference(owner))
            with suppress(NotFoundError):
                adopted.append(overwrite(self.client, orphan, owner_references=references))
        return adopted

    def daemon_nodes(self, owner: DaemonSet) -> Container[str]:
        """Return the nodes that have, or will have, a pod of a DaemonSet that has not finished."""
        return DaemonNodes(self.pods, path(owner.kind, owner.namespace, owner.name))

    def daemons(self, owner: DaemonSet, node: str) -> list[Pod]:
        """Return the pods of a DaemonSet that are on a node or require it."""
        return self.pods.by_index(OWNER, f"{path(owner.kind, owner.namespace, owner.name)}@{node}")

    def owned_daemons(self, owner: DaemonSet, node: str) -> list[Pod]:
        """Return those of the pods that a DaemonSet controls that are on a node or require it.

        Returns
        -------
        list of Pod
            In the order of `owned`.
        """
        here = [(pod, by_owner(pod)) for pod in self.daemons(owner, node)]
        return [pod for value in values_of(owner) for pod, values in here if value in values]

    def count(self, owner: Object, missing: int, path: str = "spec.replicas") -> range:
        """Return the numbers of new pods.

        Raises
        ------
        InputError
            There would be more than `MAX_PODS` pods.
        """
        self._to_create += max(missing, 0)
        if len(self.pods) + self._to_create > MAX_PODS:
            message = f"{missing} pods to create would make more than {MAX_PODS} in all"
            raise InputError(message, obj=owner.full_name, path=path)
        return range(missing)

    def create(self, owner: Object, pod: Pod, count: int = 1) -> None:
        """Create equal pods and the claims of their ephemeral volumes; nothing happens if the name is taken.

        Raises
        ------
        RefusedError
            The API server refuses the next one.
        """
        if pod.name and (pod.key in self.reserved or self.pods.get(pod.key) is not None):
            return
        while count:
            admitted, n = admit_pods(self.admission, self.client, owner, pod, count)
            with suppress(AlreadyExistsError):
                for new in self.client.create_equal(with_readiness(admitted, self.unready), n):
                    self.create_claims(new)
            count -= n

    def create_single(self, pod: Pod) -> None:
        """Create an admitted pod of a file, and its claims, unless quotas have no room for it now."""
        try:
            self.admission.charge(pod)
        except RefusedError as error:
            self.refused += (RefusedPod(pod, str(error)),)
        else:
            self.create_claims(self.client.create(pod))

    def is_new(self, node: Node) -> bool:
        """Whether a node has come since the cluster was read, or was forked."""
        created = node.metadata.creation_timestamp
        return created is not None and seconds(created) >= int(self._began)

    def create_claims(self, pod: Pod) -> None:
        """Create the claims of the ephemeral volumes of a new pod."""
        for claim in ephemeral_claims([pod]):
            self.create_claim(pod, claim)

    def create_claim(self, owner: Object, claim: PersistentVolumeClaim) -> None:
        """Create a claim, unless it exists. It gets a UID and a time from the store.

        Raises
        ------
        RefusedError
            The API server refuses the claim of a StatefulSet.
        """
        if find_object(self.client, PersistentVolumeClaim, claim.name, claim.namespace) is not None:
            return
        try:
            admit_claim(self.admission, claim)
        except RefusedError:
            if isinstance(owner, Pod):
                return  # the pod waits for its claim
            raise
        meta = replace(claim.metadata, uid="", creation_timestamp=None)
        self.client.create(replace(claim, metadata=meta))

    def revisions(self, owner: Object) -> list[ControllerRevision]:
        """Return the revisions that an object controls."""
        return [revision for value in values_of(owner) for revision in self._revisions.by_index(OWNER, value)]

    def forget_revisions(self, owner: StatefulSet | DaemonSet, kept: Collection[str]) -> None:
        """Delete the revisions that are beyond the limit of the history; see `forgotten_revisions`."""
        for revision in forgotten_revisions(owner, self.revisions(owner), lambda: self.owned(owner), kept):
            self.delete(revision)

    def write_revision(self, owner: Object, revision: ControllerRevision) -> ControllerRevision:
        """Create a revision, or update one that has a UID."""
        if revision.metadata.uid:
            return overwrite(self.client, revision)
        try:
            return self.client.create(revision)
        except AlreadyExistsError:  # of this round
            return self.client.get(ControllerRevision, revision.name, revision.namespace)

    def delete(self, obj: Object, user: UserInfo | None = None) -> None:
        """Delete an object, unless it is gone or another has its name. A pod on a node has its grace
        period.

        Parameters
        ----------
        user : UserInfo, optional
            Who asks for it; by default the controller that made the object.

        Raises
        ------
        RefusedError
            The API server refuses it.
        """
        with suppress(NotFoundError):
            current = self.client.get(type(obj), obj.name, obj.namespace)
            grace = self._grace_of(current) if isinstance(current, Pod) and current.spec.node_name else 0
            is_going = current.metadata.deletion_timestamp is not None
            left = current.metadata.deletion_grace_period_seconds or 0
            if current.metadata.uid == obj.metadata.uid and not (is_going and grace >= left):
                name = who_deletes(current)
                self.client.denied.pop(name, None)
                try:
                    self._ask(deletion(current, user or creator_of(current)))
                except RefusedError as error:
                    self.client.denied[name] = str(error)
                    raise
                self.client.delete(type(obj), obj.name, obj.namespace, grace_period_seconds=grace)
                self.deletions += 1

    def write(self, old: Object | None, new: Object) -> Object:
        """Create an object that is no pod, or replace one.

        Raises
        ------
        RefusedError
            The API server refuses it.
        """
        operation: Operation = "CREATE" if old is None else "UPDATE"
        self._ask(AdmissionRequest(new, operation, old, creator_of(new)))
        return self.client.create(new) if old is None else overwrite(self.client, new)

    def _ask(self, request: AdmissionRequest) -> None:
        if self.client.has(DECIDERS) and (refusal := self.admission.answer(request).refusal) is not None:
            raise refusal

    def evict_by_taint(self, pod: Pod) -> None:
        """Delete a pod that does not tolerate a taint; one that does not go at once is told why."""
        with suppress(NotFoundError):
            tell_why(self.client, self.client.get(Pod, pod.name, pod.namespace), BY_TAINT)
        with suppress(RefusedError):
            self.delete(pod, TAINT_EVICTION)

    def collect(self, pod: Pod) -> None:
        """Delete a pod whose node is gone; one that may not be deleted has failed, and stays
        (kubernetes v1.36, pkg/controller/podgc)."""
        try:
            self.delete(pod, POD_COLLECTOR)
        except RefusedError:
            if pod.status.phase not in FINISHED:
                overwrite(self.client, failed_with(pod, BY_COLLECTOR))

    def delete_all(self, pods: Iterable[Pod]) -> None:
        """Delete pods; see `delete`."""
        for pod in pods:
            self.delete(pod)


BY_COLLECTOR = disruption_condition("DeletionByPodGC", "PodGC: node no longer exists")
BY_TAINT = disruption_condition("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")


def failed_with(pod: Pod, why: Condition | None) -> Pod:
    """Return a pod that has failed, unless it has succeeded, with a condition that says why."""
    status = pod.status
    if status.phase not in FINISHED:
        status = replace(status, phase="Failed")
    if why is not None:
        status = replace(status, conditions=with_condition(status.conditions, why))
    return replace(pod, status=status)


def admit_pods(admission: Admission, client: ObjectStore, owner: Object, pod: Pod, n: int) -> tuple[Pod, int]:
    """Admit equal pods that the controller of a workload creates; see `Admission.admit_many`.

    Raises
    ------
    RefusedError
        The API server refuses the first one, or the cluster's did (`SeenFailures`).
    """
    failures = server_of(client).failures
    why = "" if failures is None else failures.why(owner, lambda kind: client.list(kind, owner.namespace)[0])
    if why:
        admission.check(pod)  # what it says holds now
        raise RefusedError(why)
    return admission.admit_many(pod, n)


def admit_claim(admission: Admission, claim: PersistentVolumeClaim) -> None:
    """Admit a claim that a StatefulSet creates.

    Raises
    ------
    RefusedError
        The API server refuses it.
    """
    try:
        admission.admit_object(claim)
    except RefusedError as error:
        raise RefusedError(f"failed to create PVC {claim.name}: {error}") from None


def workloads_of(client: ObjectClient) -> Workloads:
    """Return the workloads of the pods of a store."""
    return Workloads([*client.list(ReplicaSet)[0], *client.list(Job)[0]])


class DaemonNodes(Container[str]):
    """The nodes that have, or will have, a pod of a DaemonSet.

    Parameters
    ----------
    owner : str
        Path of the DaemonSet in the index of owners.
    """

    def __init__(self, pods: Indexer[Pod], owner: str) -> None:
        self._pods = pods
        self._owner = owner

    def __contains__(self, node: object) -> bool:
        pods = self._pods.by_index(OWNER, f"{self._owner}@{node}")
        return any(pod.status.phase not in FINISHED for pod in pods)


# ---- surplus pods ------------------------------------------------------------------------------------------
#
# Which pods of a workload are deleted if it has too many (kubernetes v1.36, controller_utils.go).

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def surplus_pods(control: StoreControl, obj: Object, related: Callable[[Object], Sequence[Pod]]) -> list[Pod]:
    """Return the pods that the controller of a workload of equal replicas deletes, in order.

    Parameters
    ----------
    obj : Object
        With defaults; a workload whose number of replicas is not set keeps its pods.
    related : callable
        Returns the active pods of the same Deployment.
    """
    is_scaled = isinstance(obj, ReplicaSet | ReplicationController) and obj.spec.replicas is not None
    surplus = control.active(obj) - (obj.spec.replicas or 0) if is_scaled else 0  # type: ignore[attr-defined]
    if surplus <= 0:
        return []
    pods = [pod for pod in control.owned(obj) if is_active(pod)]
    return first_to_go(control, obj, pods, related(obj))[:surplus]


def first_to_go(control: StoreControl, obj: Object, pods: Iterable[Pod], related: Sequence[Pod]) -> list[Pod]:
    """Return pods in the order in which the controller of a workload deletes them.

    Pods without a node go first, then those in an earlier phase, those that are not ready, those of lower
    deletion cost, those on nodes with more pods of the same Deployment, those that became ready later, those
    with more restarts, and those created later. Ages are compared by their powers of two, and where these are
    equal the pod of the lower UID goes. Of a Job the cost and the node do not count, and ages are exact.

    Parameters
    ----------
    pods : iterable of Pod
        Active pods of the workload.
    related : sequence of Pod
        The active pods of the same Deployment; of a Job they do not count.
    """
    ordered = sorted(pods, key=lambda pod: pod.name, reverse=True)  # those that are alike go in this order
    if isinstance(obj, Job):
        ranks = {pod.name: _Rank.of(pod, 0, 0, None) for pod in ordered}
    else:
        on, now = Counter(pod.spec.node_name for pod in related), control.client.now()
        ranks = {pod.name: _Rank.of(pod, _cost(pod), -on[pod.spec.node_name], now) for pod in ordered}
    order = cmp_to_key(_Rank.compare)
    ordered.sort(key=lambda pod: order(ranks[pod.name]))
    return ordered


class _Age(NamedTuple):
    """When something was, and its rank: the lower one goes first. What has not been has the lowest."""

    time: float
    rank: float

    @classmethod
    def of(cls, text: str | None, now: float | None) -> _Age:
        if text is None:
            return cls(-inf, -inf)
        try:
            time = datetime.fromisoformat(text).timestamp()
        except ValueError:  # times of conditions are not validated
            return cls(-inf, -inf)
        if now is None:
            return cls(time, -time)
        return cls(time, int(log2((now - time) * 1e9)) if now > time else -1)  # of nanoseconds


class _Rank(NamedTuple):
    """What decides which of two pods goes first."""

    state: tuple[bool, int, bool, int, int]
    ready: _Age
    restarts: tuple[int, int]
    created: _Age
    uid: str

    @classmethod
    def of(cls, pod: Pod, cost: int, near: int, now: float | None) -> _Rank:
        """Without `now` the order of ages is exact."""
        is_ready, since, phase = is_healthy(pod), None, pod.status.phase
        ready = condition_of(pod.status.conditions, "Ready")
        if is_ready and ready is None:
            phase = "Running"  # there is no kubelet to say so
        elif is_ready and ready is not None:
            since = ready.last_transition_time
        state = bool(pod.spec.node_name), _PHASES.get(phase, 0), is_ready, cost, near
        created = _Age.of(pod.metadata.creation_timestamp, now)
        sidecars = {
            container.name for container in pod.spec.init_containers if container.restart_policy == "Always"
        }
        of_sidecars = (
            status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars
        )
        regular = (status.restart_count for status in pod.status.container_statuses)
        restarts = max(regular, default=0), max(of_sidecars, default=0)
        return cls(state, _Age.of(since, now), restarts, created, pod.metadata.uid)

    def compare(self, other: _Rank) -> int:
        """Return a negative number if this one goes first, and a positive one if the other one does."""
        if self.state != other.state:
            return -1 if self.state < other.state else 1
        if self.ready.time != other.ready.time:
            return self._by_age(self.ready, other, other.ready)
        if self.restarts != other.restarts:
            return -1 if self.restarts > other.restarts else 1
        if self.created.time != other.created.time:
            return self._by_age(self.created, other, other.created)
        return 0

    def _by_age(self, age: _Age, other: _Rank, its_age: _Age) -> int:
        return -1 if (age.rank, self.uid) < (its_age.rank, other.uid) else 1


def _cost(pod: Pod) -> int:
    """Return the cost of deleting a pod; 0 without a valid one (kubernetes v1.36, pkg/apis/core/helper)."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    cost = whole_number(text.removeprefix("-"))
    if cost is None or (text[0] == "0" and text != "0"):
        return 0
    return -cost if text[0] == "-" else cost
