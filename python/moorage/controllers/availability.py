"""What workloads wait for: pods that become available or go, and pods that the API server refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from moorage.kube.admission.request import RefusedError
from moorage.kube.model.cluster import RefusedPod
from moorage.kube.model.meta import LabelSelector, Object
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.model.workload import ControllerRevision, Job, PodTemplateSpec, StatefulSet
from moorage.kube.workloads.deployment_rollout import changed_template
from moorage.kube.workloads.job_state import (
    is_left_to_others,
    is_over,
    replaces_failed_only,
    state_of,
    wanted_pods,
)
from moorage.kube.workloads.missing_pods import create_missing, new_pod
from moorage.kube.workloads.ownership import FINISHED, is_healthy
from moorage.kube.workloads.stateful_pods import by_ordinal, ordinals
from moorage.lazy import NamedTuple
from moorage.saved_fields import SavedFields
from moorage.store import find_object
from moorage.table import Table, Tabular

from .api_server import admission_of
from .pod_times import TimesOf
from .store_control import StoreControl, admit_claim, admit_pods


class Availability(SavedFields):
    """Tells which pods are available: those that have been ready for `minReadySeconds`.

    A pod of which nobody reports the condition Ready is ready as it is bound, or some seconds later if a
    workload waits for pods by then.

    Parameters
    ----------
    now : callable
        Returns seconds.
    times : callable
        Returns how long a pod takes.

    Attributes
    ----------
    waiting : dict of (str, str) to float
        The workloads with a step to come, by kind and ``namespace/name``, to the time at which their next pod
        becomes available; infinite where no pod waits for its time.
    """

    fields = ("waiting", "_ready")

    def __init__(self, now: Callable[[], float], times: TimesOf) -> None:
        self.now = now
        self._times = times
        self.waiting: dict[tuple[str, str], float] = {}
        self._ready: dict[str, float] = {}  # when a pod became ready, or will, by UID

    def note_binding(self, pod: Pod) -> None:
        """Note that a pod was bound, while a workload waits for pods."""
        times = self._times(pod)
        self._ready[pod.metadata.uid] = self.now() + times.start + times.ready

    def forget(self, pod: Pod) -> None:
        """Forget a pod that is gone."""
        self._ready.pop(pod.metadata.uid, None)

    def of(self, min_ready_seconds: int) -> AvailablePods:
        """Return a predicate for the pods of a workload."""
        return AvailablePods(self.now(), min_ready_seconds, self._ready)

    def wait(self, obj: Object, is_complete: bool, due: float) -> None:
        """Note whether a workload has a step to come.

        Parameters
        ----------
        due : float
            When its next pod becomes available; infinite where no pod waits for its time.
        """
        if is_complete:
            self.waiting.pop((obj.kind, obj.key), None)
        else:
            self.waiting[obj.kind, obj.key] = due

    def wait_for_events(self, workloads: Iterable[tuple[str, str]]) -> None:
        """Have workloads wait for an event whose time has come and brought no change.

        Parameters
        ----------
        workloads : iterable of (str, str)
            By kind and ``namespace/name``.
        """
        now = self.now()
        for workload in workloads:
            if self.waiting.get(workload, inf) <= now:
                self.waiting[workload] = inf


class AvailablePods:
    """Whether a pod is available now.

    Parameters
    ----------
    now : float
        Seconds.
    period : int
        `minReadySeconds`.
    ready : dict of str to float
        When pods became ready, or will, by UID; is added to.

    Attributes
    ----------
    due : float
        When the next of the pods that were asked for becomes available.
    """

    def __init__(self, now: float, period: int, ready: dict[str, float]) -> None:
        self.due = inf
        self.now, self._period, self._ready = now, period, ready

    def __call__(self, pod: Pod) -> bool:
        when = self.since(pod)
        if when > self.now:
            self.due = min(self.due, when)
        return when <= self.now

    def since(self, pod: Pod) -> float:
        """Return the time from which a pod is available; infinite for one that is not ready.

        Returns
        -------
        float
            Seconds.
        """
        if not is_healthy(pod):
            return inf
        uid = pod.metadata.uid
        ready = self._ready.setdefault(uid, self.now) if self._period else self._ready.get(uid, -inf)
        return ready + self._period


# ---- rollout -----------------------------------------------------------------------------------------------
#
# What users see of a rollout that is not complete.


class Rollout(Struct, Tabular, frozen=True):
    """The rollout of a Deployment, StatefulSet, DaemonSet or Rollout that is not complete.

    Attributes
    ----------
    workload : str
        ``Kind namespace/name``.
    replicas : int
        The number of pods that it should have.
    updated, available : int
        The number of pods with its template, and of all pods that are available.
    without_node : tuple of str
        The pods with its template that have no node, each ``namespace/name``.
    step : str
        Of its strategy, for a Rollout of Argo.
    """

    workload: str
    replicas: int
    updated: int
    available: int
    without_node: tuple[str, ...]
    step: str = ""

    __repr__ = Tabular.__repr__

    def headline(self) -> str:
        """Return workload and numbers in one line."""
        return f"{self.workload}: {self.numbers()}"

    def numbers(self) -> str:
        """Return the numbers of pods."""
        updated = f"{self.updated} of {self.replicas} pods updated, {len(self.without_node)} of these"
        at = f", before {self.step}" if self.step else ""
        return f"{updated} without a node; {self.available} available, old and new{at}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each pod without a node.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Column pod.
        """
        return Table({"pod": list(self.without_node[:limit])})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON value."""
        return structs.asdict(self)


def rollout_of(obj: Object, replicas: int, updated: Iterable[Pod], available: int) -> Rollout:
    """Return the rollout of a workload.

    Parameters
    ----------
    updated : iterable of Pod
        The pods with its template.
    """
    pods = list(updated)
    waiting = tuple(pod.key for pod in pods if not pod.spec.node_name)
    return Rollout(obj.full_name, replicas, len(pods), available, waiting)


# ---- awaited pods ------------------------------------------------------------------------------------------
#
# Which pods workloads lack until others are available or gone, and what those wait for.

WAITS = "waits until the pods before it are available"
_LOST = (
    "the pod before it is being deleted and stays, as node {} does not report: force-delete that pod, or "
    "taint the node node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
)
_KEPT = "the pod before it is being deleted and stays, as it has finalizers: {}"

AWAITING = ("Deployment", "StatefulSet", "Job")
"""The kinds of workloads that wait for pods."""


class AwaitedPod(NamedTuple):
    """A pod that a workload will create, or whose end it waits for; and kind and key of the workload."""

    kind: str
    workload: str
    pod: Pod


def awaited_pods(obj: Object, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that a StatefulSet or a Job lacks until others are available or gone.

    Parameters
    ----------
    pods : sequence of Pod
        Those that it controls, in any state.

    Returns
    -------
    list of Pod
        For each either the pod that is being deleted and that it waits for, or a new one without its spec.
    """
    if obj.metadata.deletion_timestamp is not None:
        return []
    if isinstance(obj, StatefulSet):
        present = by_ordinal(obj, pods)
        wanted = [(at, present.get(at)) for at in ordinals(obj)]
        new = {at: new_pod(obj, PodTemplateSpec(), name=f"{obj.name}-{at}") for at, pod in wanted if not pod}
        return [pod or new[at] for at, pod in wanted if pod is None or pod.metadata.deletion_timestamp]
    if isinstance(obj, Job) and replaces_failed_only(obj) and not (is_left_to_others(obj) or is_over(obj)):
        state = state_of(obj, pods)
        return state.terminating[: max(0, wanted_pods(obj, state) - len(state.active))]
    return []


def why_awaited(pod: Pod) -> str:
    """Return what a pod of `awaited_pods` waits for."""
    if pod.metadata.deletion_timestamp is None:
        return WAITS
    if pod.status.phase in FINISHED:
        return _KEPT.format(", ".join(pod.metadata.finalizers))
    return _LOST.format(pod.spec.node_name)


# ---- refused pods ------------------------------------------------------------------------------------------
#
# Which pods a workload lacks because the API server refuses them, and why.


def refused_pods(control: StoreControl, obj: Object, message: str, nodes: Sequence[Node]) -> list[RefusedPod]:
    """Return the pods that a workload would create now and that the API server refuses.

    Parameters
    ----------
    message : str
        Why its next pod was refused.

    Returns
    -------
    list of RefusedPod
        At least one: where the refusal is of no single pod, such as one of a changed template, a pod with the
        name of the workload. Pods that wait for a refused one are not among them.
    """
    attempt = _Attempt(control)
    create_missing(attempt, obj, nodes)
    is_old = message == changed_template(obj)
    return attempt.refused or [RefusedPod(new_pod(obj, PodTemplateSpec(), name=obj.name), message, is_old)]


class _Attempt:
    """Asks the API server for each pod that a workload lacks, and writes nothing (`PodControl`)."""

    def __init__(self, control: StoreControl) -> None:
        self.refused: list[RefusedPod] = []
        self._control = control
        self._admission = admission_of(control.client)
        self._claims: dict[str, str] = {}  # by name of a claim that is refused, the text
        self.active, self.owned, self.count = control.active, control.owned, control.count
        self.revisions, self.is_new, self.daemon_nodes = (
            control.revisions,
            control.is_new,
            control.daemon_nodes,
        )

    def adopt(self, _: Object, __: LabelSelector | None) -> list[Pod]:
        return []  # the controllers have adopted what there is

    def create(self, owner: Object, pod: Pod, count: int = 1) -> None:
        claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
        texts = [self._claims.get(claim.claim_name) for claim in claims if claim is not None]
        message, admitted = next(filter(None, texts), ""), 0
        try:
            while not message and admitted < count:
                admitted += admit_pods(self._admission, self._control.client, owner, pod, count - admitted)[1]
        except RefusedError as error:
            message = str(error)
        named = pod if pod.name else replace(pod, metadata=replace(pod.metadata, name=owner.name))
        self.refused += [RefusedPod(named, message)] * (count - admitted)

    def create_claim(self, _: Object, claim: PersistentVolumeClaim) -> None:
        if find_object(self._control.client, PersistentVolumeClaim, claim.name, claim.namespace) is not None:
            return
        try:
            admit_claim(self._admission, claim)
        except RefusedError as error:
            self._claims[claim.name] = str(error)

    def write_revision(self, _: Object, revision: ControllerRevision) -> ControllerRevision:
        return revision
