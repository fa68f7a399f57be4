"""Who decides about the requests to a store: the admission of an API server, of the objects that it has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, runtime_checkable

from moorage.kube import Namespace, Object, Pod
from moorage.kube.admission.chain import Admission, Existing
from moorage.kube.admission.policies import OWNERS
from moorage.kube.admission.policy.silent_webhooks import SilentWebhooks
from moorage.kube.admission.request import ADMIN, AdmissionRequest, user_of
from moorage.kube.admission.siblings import Siblings
from moorage.kube.model.admission_policies import KINDS as ADMISSION_POLICIES
from moorage.kube.model.admission_policies import PolicyParameter
from moorage.kube.model.autoscaling import VerticalPodAutoscaler
from moorage.kube.model.cluster import Cluster
from moorage.kube.model.node import ServiceAccount
from moorage.kube.model.policy import AdmissionPlugins, LimitRange, ResourceQuota, RuntimeClass, Scheduler
from moorage.kube.model.storage import StorageClass
from moorage.kube.model.webhooks import KINDS as WEBHOOKS
from moorage.kube.model.workload import PriorityClass
from moorage.kube.releases import DEFAULT_GATES, FeatureGates

from .errors import ServerError, is_namespaced, structs
from .protocol import ObjectClient

POLICIES: tuple[type[Object], ...] = (
    *(LimitRange, ResourceQuota, RuntimeClass, PriorityClass, ServiceAccount, StorageClass),
    *(Namespace, Scheduler, AdmissionPlugins, VerticalPodAutoscaler),
    *(*ADMISSION_POLICIES, PolicyParameter),
)
DECIDERS = (*WEBHOOKS, *ADMISSION_POLICIES, ResourceQuota)
"""The kinds without which everything that a controller or a scheduler writes is admitted."""


@runtime_checkable
class Server(Protocol):
    """What an API server in memory knows beside its objects; see `ObjectStore`."""

    siblings: Siblings
    served_gates: FeatureGates
    policies_not_asked: dict[str, str]

    def silent_webhooks(self) -> SilentWebhooks:
        """Return the webhooks that nobody answers now."""


def policies_of(client: ObjectClient) -> list[Object]:
    """Return what admission looks at in a store, beside its pods and the objects that quotas count."""
    return [obj for kind in POLICIES for obj in client.list(kind)[0]]


def existing_in(client: ObjectClient) -> Existing:
    """Return what the quotas of a store count, and the webhooks that nobody answers."""
    kinds = [kind for kind in structs() if is_namespaced(kind) and kind is not Pod]
    return Existing(
        lambda namespace: client.list(Pod, namespace)[0],
        lambda namespace: [obj for kind in kinds for obj in client.list(kind, namespace)[0]],
        client.silent_webhooks() if isinstance(client, Server) else None,
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
    policies, existing = policies_of(client), existing_in(client)
    if before is not None:
        options = [obj for obj in policies if isinstance(obj, AdmissionPlugins)]
        policies = [*before.others, *before.namespaces, *options]
        existing = existing._replace(webhooks=SilentWebhooks.of_cluster(before))
    if any(isinstance(obj, VerticalPodAutoscaler) for obj in policies):
        policies += [obj for kind in OWNERS for obj in client.list(kind)[0]]
    store = client if isinstance(client, Server) else None
    admission = Admission(
        policies,
        *(existing if has_webhooks else existing._replace(webhooks=None)),
        store.siblings if has_webhooks and store is not None else None,
        lambda: DEFAULT_GATES if store is None else store.served_gates,
    )
    if admission.policies is not None and store is not None:
        admission.policies.not_known = store.policies_not_asked
    return admission


def admitted(client: ObjectClient, requests: Iterable[AdmissionRequest]) -> list[Object]:
    """Return the objects of requests as an API server stores them.

    Raises
    ------
    ServerError
        It refuses one.
    """
    admission, out = admission_of(client), list[Object]()
    users = map(user_of, client.list(AdmissionPlugins)[0])
    admin = next(filter(None, users), ADMIN)
    for request in requests:
        if request.user is ADMIN:
            request = replace(request, user=admin)
        answer = admission.answer(request)
        if answer.obj is None:
            raise ServerError(str(answer.refusal))
        out.append(answer.obj)
    return out
