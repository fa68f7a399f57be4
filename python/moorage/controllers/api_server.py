"""Who decides about the requests to a store: the admission of an API server, of the objects that it has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from moorage.kube import Namespace, Object, Pod
from moorage.kube import admission as admitting
from moorage.kube.model.admission_registration import ADMISSION_POLICIES, DECIDERS, WEBHOOKS, PolicyParameter
from moorage.kube.model.autoscaling import VerticalPodAutoscaler
from moorage.kube.model.cluster import Cluster
from moorage.kube.model.node import ServiceAccount
from moorage.kube.model.policy import AdmissionPlugins, LimitRange, ResourceQuota, RuntimeClass, Scheduler
from moorage.kube.model.resource_claims import DeviceClass
from moorage.kube.model.storage import StorageClass
from moorage.kube.model.workload import PriorityClass, Service
from moorage.kube.releases import DEFAULT_GATES, FeatureGates
from moorage.store import ObjectClient, ObjectStore, WatchEvent, find_object
from moorage.store.errors import ServerError, is_namespaced, structs

if TYPE_CHECKING:
    from moorage.kube.admission.chain import Admission, Existing
    from moorage.kube.admission.policy.silent_webhooks import SilentWebhooks
    from moorage.kube.admission.request import AdmissionRequest, UserInfo
    from moorage.kube.admission.siblings import Siblings
    from moorage.kube.workloads.seen_failures import SeenFailures


POLICIES: tuple[type[Object], ...] = (
    *(LimitRange, ResourceQuota, RuntimeClass, PriorityClass, ServiceAccount, StorageClass),
    *(Namespace, Scheduler, AdmissionPlugins, VerticalPodAutoscaler, DeviceClass),
    *(*ADMISSION_POLICIES, PolicyParameter),
)

_OF_BINDINGS = (*WEBHOOKS, *ADMISSION_POLICIES)
"""The kinds that decide about bindings and deletions, which quotas do not count."""

T = TypeVar("T", bound=Object)


class ApiServer:
    """What an API server knows beside the objects of its store, and how it admits requests.

    Attributes
    ----------
    siblings : Siblings or None
        How new pods differ from their templates (`Cluster.siblings`).
    failures : SeenFailures or None
        Which pods the cluster could not create, for controllers (`Cluster.failures`).
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.siblings: Siblings | None = None
        self.failures: SeenFailures | None = None
        self._chain: Admission | None = None
        self._chain_reads: frozenset[type[Object]] = frozenset()
        self._read = -1  # the changes of the store that the chain has seen

    def copy_to(self, store: ObjectStore) -> ApiServer:
        """Return the same for a copy of the store."""
        copy = ApiServer(store)
        copy.siblings = None if self.siblings is None else self.siblings.copy()
        copy.failures = self.failures
        return copy

    def chain(self) -> Admission:
        """Return the admission by the policies of the store, which is kept while they stay as they are."""
        store = self._store
        if self._chain is None or not self._chain_reads.isdisjoint(store.changed_since(self._read)):
            owners = admitting.policies.OWNERS if store.has((VerticalPodAutoscaler,)) else ()
            self._chain_reads = frozenset((*POLICIES, *owners))
            self._chain = _chain_of(store, policies_of(store))
        self._read = store.changes
        return self._chain

    def silent_webhooks(self) -> SilentWebhooks:
        """Return the webhooks that nobody answers now."""
        store = self._store
        kinds = (*WEBHOOKS, Namespace, AdmissionPlugins) if store.has(WEBHOOKS) else ()
        objects: list[Object] = [obj for kind in kinds for obj in store.list(kind)[0]]

        def listed(kind: type[T], namespace: str) -> list[T]:
            return store.list(kind, namespace)[0]

        return admitting.policy.silent_webhooks.SilentWebhooks(
            objects, partial(listed, Service), partial(listed, Pod), store.had_placed_pods
        )

    @property
    def decides(self) -> bool:
        """Whether there are policies or webhooks that look at bindings and deletions."""
        return self._store.has(_OF_BINDINGS)

    def admit_bindings(self, pods: Iterable[Pod], nodes: Iterable[str]) -> None:
        """Ask whether pods may be bound to nodes.

        Raises
        ------
        ServerError
            A binding is refused.
        """
        if self.decides:
            self.admit(map(admitting.request.binding, pods, nodes))

    def admit_victims(self, pods: Iterable[Pod | WatchEvent[Pod]]) -> None:
        """Ask whether the scheduler may delete pods; one that is gone already is none.

        Raises
        ------
        ServerError
            A deletion is refused.
        """
        if self.decides:
            for each in pods:
                pod = each.identity if isinstance(each, WatchEvent) else each
                current = find_object(self._store, Pod, pod.name, pod.namespace)
                if current is not None and current.metadata.uid == pod.metadata.uid:
                    self.admit([admitting.request.deletion(current, admitting.request.SCHEDULER)])

    def admit_of_scheduler(self, objects: Iterable[T]) -> list[T]:
        """Return objects as the scheduler would create them; see `admit`."""
        return cast(
            "list[T]",
            self.admit(
                admitting.request.AdmissionRequest(obj, user=admitting.request.SCHEDULER) for obj in objects
            ),
        )

    def admit(self, requests: Iterable[AdmissionRequest]) -> list[Object]:
        """Return the objects of requests as an API server stores them, by its quotas, policies and webhooks.

        Raises
        ------
        ServerError
            It refuses one.
        """
        if not self._store.has(DECIDERS):
            return [request.obj for request in requests]
        admission, out = admission_of(self._store), list[Object]()
        users = map(admitting.request.user_of, self._store.list(AdmissionPlugins)[0])
        admin = next(filter(None, users), admitting.request.ADMIN)
        for request in requests:
            if request.user is admitting.request.ADMIN:
                request = replace(request, user=admin)
            answer = admission.answer(request)
            if answer.obj is None:
                raise ServerError(str(answer.refusal))
            out.append(answer.obj)
        return out


def who_deletes(obj: Object) -> str:
    """Return who is denied if an object may not be deleted: its controller, or the object."""
    owner = obj.metadata.controller()
    return obj.full_name if owner is None else f"{owner.kind} {obj.namespace}/{owner.name}"


def server_of(store: ObjectStore) -> ApiServer:
    """Return the API server of a store."""
    if not isinstance(store.server, ApiServer):
        store.server = ApiServer(store)
    return store.server


def admitted(client: ObjectClient, request: AdmissionRequest) -> Object:
    """Return the object of a request as the API server of a store admits it; a real server asks itself.

    Raises
    ------
    ServerError
        It refuses the request.
    """
    return server_of(client).admit([request])[0] if isinstance(client, ObjectStore) else request.obj


def may_delete(client: ObjectClient, obj: Object, user: UserInfo) -> bool:
    """Ask whether somebody may delete an object, likewise; a refusal stands in `ObjectStore.denied`."""
    if not isinstance(client, ObjectStore) or not server_of(client).decides:
        return True
    name = who_deletes(obj)
    try:
        admitted(client, admitting.request.deletion(obj, user))
    except ServerError as error:
        client.denied[name] = str(error)
        return False
    client.denied.pop(name, None)
    return True


def policies_of(client: ObjectClient) -> list[Object]:
    """Return what admission looks at in a store, beside its pods and the objects that quotas count."""
    return [obj for kind in POLICIES for obj in client.list(kind)[0]]


def existing_in(client: ObjectClient) -> Existing:
    """Return what the quotas of a store count, and the webhooks that nobody answers."""
    kinds = [kind for kind in structs() if is_namespaced(kind) and kind is not Pod]
    return admitting.chain.Existing(
        lambda namespace: client.list(Pod, namespace)[0],
        lambda namespace: [obj for kind in kinds for obj in client.list(kind, namespace)[0]],
        server_of(client).silent_webhooks() if isinstance(client, ObjectStore) else None,
    )


def admission_of(client: ObjectClient, has_webhooks: bool = True, before: Cluster | None = None) -> Admission:
    """Return the admission of the API server for the pods of a store. With webhooks, new pods of workloads
    differ from their templates as those did with which the cluster was read, and those webhooks refuse that
    nobody answers.

    Parameters
    ----------
    before : Cluster, optional
        Whose policies and webhooks count; by default those of the store do.
    """
    existing = existing_in(client)
    store = client if isinstance(client, ObjectStore) else None
    server = None if store is None else server_of(store)
    if server is not None and server.siblings is None:
        server.siblings = admitting.siblings.Siblings()
    if before is not None:
        options = [obj for obj in policies_of(client) if isinstance(obj, AdmissionPlugins)]
        chain = _chain_of(client, [*before.others, *before.namespaces, *options])
        of_cluster = admitting.policy.silent_webhooks.SilentWebhooks.of_cluster(before)
        existing = existing._replace(webhooks=of_cluster)
    else:
        chain = _chain_of(client, policies_of(client)) if server is None else server.chain()
    admission = chain.begun_with(
        existing if has_webhooks else existing._replace(webhooks=None),
        server.siblings if has_webhooks and server is not None else None,
    )
    if admission.policies is not None and store is not None:
        admission.policies.not_known = store.policies_not_asked
    return admission


def _chain_of(client: ObjectClient, policies: list[Object]) -> Admission:
    """Return the admission by policies, where nothing exists yet."""
    if any(isinstance(obj, VerticalPodAutoscaler) for obj in policies):
        policies += [obj for kind in admitting.policies.OWNERS for obj in client.list(kind)[0]]

    def gates() -> FeatureGates:
        return client.served_gates if isinstance(client, ObjectStore) else DEFAULT_GATES

    return admitting.chain.Admission(policies, lambda _: (), gates=gates)
