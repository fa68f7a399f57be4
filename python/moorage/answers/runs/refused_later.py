"""Workloads whose pods run, while the API server would refuse new ones since a change of what it admits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from moorage.controllers.api_server import admission_of, server_of
from moorage.controllers.store_control import workloads_of
from moorage.kube import Cluster, Namespace, Object, Pod
from moorage.kube.admission.chain import Admission
from moorage.kube.admission.policy.silent_webhooks import Silence, SilentWebhooks
from moorage.kube.admission.request import RefusedError, binding
from moorage.kube.admission.secured_namespaces import pod_template
from moorage.kube.model.admission_registration import ADMISSION_POLICIES
from moorage.kube.model.policy import LimitRange, ResourceQuota
from moorage.kube.model.workload import CronJob, Job
from moorage.kube.workloads.job_state import is_over
from moorage.kube.workloads.missing_pods import MAKERS, new_pod
from moorage.kube.workloads.ownership import Workload, is_active
from moorage.store import ObjectClient, ObjectStore

from .simulation import REFUSED, REFUSED_LATER, PodsAlike, Simulation

_DECIDING = (Namespace, LimitRange, ResourceQuota, *ADMISSION_POLICIES)


def groups_refused_later(simulation: Simulation, before: Cluster) -> list[PodsAlike]:
    """Return, as groups without a pod, the workloads whose new pods are refused, or may not be bound, since
    labels of namespaces, limit ranges, quotas or policies changed, or nobody answers a webhook.

    A new pod takes the place of one that runs, so a quota need not have room for one more.
    """
    client = simulation.scheduler.client
    changed = _changed(client, before)
    if not changed:
        return []
    old, new, workloads = admission_of(client, before=before), admission_of(client), workloads_of(client)
    refused = {outcome.workload for outcome in simulation.outcomes if outcome.status == REFUSED}
    reasons = {(outcome.workload, outcome.reason) for outcome in simulation.outcomes}
    groups, running = dict[Workload, PodsAlike](), dict[str, Pod]()
    for pod in (pod for namespace in changed for pod in client.list(Pod, namespace)[0] if is_active(pod)):
        running.update((owner.uid, pod) for owner in filter(None, [pod.metadata.controller()]))
    for maker in _makers(client, changed):
        template = pod_template(maker)
        assert template is not None
        pod = new_pod(maker, template, base=f"{maker.name}-")
        workload = workloads.of(pod)
        if workload in refused or workload in groups:
            continue
        gone = running.get(maker.metadata.uid)
        text = _refusal(new, pod, gone)
        if text and (workload, text) not in reasons and not _refusal(old, pod, gone):
            groups[workload] = PodsAlike(workload, REFUSED_LATER, text, [])
    return [*groups.values()]


def _changed(client: ObjectClient, before: Cluster) -> set[str]:
    """Return the namespaces that were there and whose policies have changed; all where a policy has that is
    in none."""
    known = {namespace.name for namespace in before.namespaces}
    old = _deciding([*before.others, *before.namespaces], SilentWebhooks.of_cluster(before))
    webhooks = server_of(client).silent_webhooks() if isinstance(client, ObjectStore) else ()
    new = _deciding((obj for kind in _DECIDING for obj in client.list(kind)[0]), webhooks)
    changed = {key[0] for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return known if "" in changed else changed & known


def _deciding(objects: Iterable[Object], webhooks: Iterable[Silence]) -> dict[tuple[str, str, str], Any]:
    """Return what decides about pods, by namespace, kind and name of its object."""
    deciding = dict[tuple[str, str, str], Any]()
    for silence in webhooks:
        deciding["", silence.configuration.full_name, silence.webhook.name] = silence.refusal
    for obj in objects:
        if isinstance(obj, Namespace):
            deciding[obj.name, obj.kind, obj.name] = obj.metadata.labels
        elif isinstance(obj, (LimitRange, ResourceQuota, *ADMISSION_POLICIES)):
            deciding[obj.namespace, obj.kind, obj.name] = obj.spec
    return deciding


def _makers(client: ObjectClient, namespaces: Iterable[str]) -> Iterator[Object]:
    """Yield what makes pods in some namespaces, now or at times."""
    for namespace in sorted(namespaces):
        kinds: tuple[type[Object], ...] = (*MAKERS, CronJob)
        for kind in kinds:
            listed: list[Any] = client.list(kind, namespace)[0]
            for obj in listed:
                is_idle = getattr(obj.spec, "replicas", None) == 0 or getattr(obj.spec, "suspend", None)
                if not (is_idle or (isinstance(obj, Job) and is_over(obj))):
                    yield obj


def _refusal(admission: Admission, pod: Pod, gone: Pod | None) -> str:
    """Return why a pod in the place of another one would be refused; "" where it would not."""
    try:
        admission.check(pod, gone)
    except RefusedError as error:
        refusal: RefusedError | None = error
    else:
        refusal = admission.answer(binding(pod, "")).refusal
    text = "" if refusal is None else str(refusal)
    return text.partition(" is forbidden: ")[2] or text
