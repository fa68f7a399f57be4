"""What objects say of themselves in their status: nodes, pods and autoscalers that do not work. None of it
changes a decision."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests
from moorage.errors import examples, first_of, shorten
from moorage.grouped import grouped
from moorage.kube import Deployment, Object, Pod
from moorage.kube.admission.pod_requests import controlled, quantities, strongest, with_recommendation
from moorage.kube.admission.policy.silent_webhooks import SilentWebhooks
from moorage.kube.model.autoscaling import (
    HorizontalPodAutoscaler,
    MetricSpec,
    ScaledObject,
    VerticalPodAutoscaler,
)
from moorage.kube.model.meta import Condition
from moorage.kube.model.pod import ContainerStatus
from moorage.kube.model.policy import LimitRange
from moorage.kube.model.workload import ControllerRevision, Job, PodTemplateSpec, StatefulSet
from moorage.kube.workloads.daemon_pods import PRESSURES
from moorage.kube.workloads.ownership import Workload, is_active, is_healthy
from moorage.kube.workloads.readiness import STARTING, is_starting, started
from moorage.kube.workloads.revisions import REVISION_LABEL, update_revision

from .finding import MAKERS, Ground, LintFinding, identity, of_workload

_EXAMPLES = 3


def condition_text(condition: Condition) -> str:
    """Return what a condition says, and since when."""
    since = f" since {condition.last_transition_time}" if condition.last_transition_time else ""
    why = ", ".join(filter(None, (condition.reason, condition.message.rstrip("."))))
    return f"{condition.type} is {condition.status}{since}" + (f": {shorten(why)}" if why else "")


def node_conditions(ground: Ground) -> Iterator[LintFinding]:
    """Yield the nodes that are not ready or short of something."""
    bad = {
        node.name: texts
        for node in ground.cluster.nodes
        if (
            texts := [condition_text(condition) for condition in node.status.conditions if _is_bad(condition)]
        )
    }
    on_node: dict[str, list[str]] = defaultdict(list)
    for pod in ground.cluster.pods if bad else ():
        if pod.spec.node_name in bad:
            on_node[pod.spec.node_name].append(pod.key)
    for name, texts in bad.items():
        pods = on_node[name]
        on_it = f"; {len(pods)} on it: {examples(pods, _EXAMPLES)}" if pods else ""
        node = Workload("", "Node", name)
        yield LintFinding("node-condition", node, f"{', '.join(texts)}{on_it}", pods=len(pods))


def _is_bad(condition: Condition) -> bool:
    if condition.type in (*PRESSURES, "NetworkUnavailable"):
        return condition.status == "True"
    return condition.type == "Ready" and condition.status != "True"


def deleted_namespaces(ground: Ground) -> Iterator[LintFinding]:
    """Yield the namespaces that are being deleted, with their workloads: nobody makes pods there."""
    for space in ground.cluster.namespaces:
        if (since := space.metadata.deletion_timestamp) is not None:
            of_it = [obj for obj in ground.makers if obj.namespace == space.name]
            texts = [f"{obj.kind.lower()}/{obj.name}" for obj in of_it if obj.metadata.controller() is None]
            if texts:
                what = first_of(texts, _EXAMPLES)
                yield LintFinding(
                    "namespace-deleted", identity(space), f"it is being deleted since {since}, with {what}"
                )


def unready_pods(ground: Ground) -> Iterator[LintFinding]:
    """Yield how many pods of a workload are ready, where some are not for a reason that their status has."""
    workloads, pods = ground.workloads, ground.cluster.pods
    reasons: dict[Workload, Counter[str]] = defaultdict(Counter)
    since: dict[tuple[Workload, str], str] = {}
    for pod in ground.unready:
        if (reason := _why_not_ready(pod)) is not None:
            workload, (why, when) = workloads.of(pod), reason
            reasons[workload][why] += 1
            since[workload, why] = min(filter(None, (since.get((workload, why)), when)), default="")
    counted = started(pods) if reasons else []
    numbers = Counter(map(workloads.of, counted))
    ready = Counter(workloads.of(pod) for pod in counted if is_healthy(pod))
    for workload, counts in reasons.items():
        facts = [
            f"{why}{f' since {since[workload, why]}' if since[workload, why] else ''} ({number})"
            for why, number in counts.items()
        ]
        text = f"{ready[workload]} of {numbers[workload]} ready: {'; '.join(facts)}"
        yield of_workload("pod-not-ready", workload, text, counts.total())


def _why_not_ready(pod: Pod) -> tuple[str, str] | None:
    """Return why a pod is not ready, and since when; None for one that is about to start."""
    conditions = {condition.type: condition for condition in pod.status.conditions}
    ready, when = conditions.get("Ready", Condition()), pod.status.start_time or ""
    if conditions.get("Initialized", Condition()).status == "False":
        for container in pod.status.init_container_statuses:
            if not (
                container.state is not None
                and container.state.terminated is not None
                and container.state.terminated.exit_code == 0
            ):
                why = f", {waits}" if (waits := _waits_for(container)) else ""
                when = conditions["Initialized"].last_transition_time or when
                return f"in init container {container.name}{why}", when
    if ready.reason == "ReadinessGatesNotReady":
        message = shorten(ready.message.rstrip(".")) or ready.reason
        return f"waits for a readiness gate, {message}", when
    for container in pod.status.container_statuses:
        if waits := _waits_for(container):
            return f"container {container.name}: {waits}", when
    ended = [container.name for container in pod.status.container_statuses if _has_ended(container)]
    left = [container.name for container in pod.status.container_statuses if not _has_ended(container)]
    if ended and left and pod.spec.restart_policy != "Always":
        return f"container {', '.join(ended)} has ended, {', '.join(left)} runs on", when
    return None if is_starting(pod) else ("not ready", ready.last_transition_time or when)


def _waits_for(status: ContainerStatus) -> str:
    """Return why a container does not run, if it is not just about to start; "" otherwise."""
    waiting = None if status.state is None else status.state.waiting
    return "" if waiting is None or waiting.reason in STARTING else waiting.reason


def _has_ended(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.terminated is not None


def awaited_pods(ground: Ground) -> Iterator[LintFinding]:
    """Yield the StatefulSets that go in order and wait for pods of revisions before that are not ready."""
    sets = {
        obj.metadata.uid: obj
        for obj in ground.listed(StatefulSet)
        if obj.spec.pod_management_policy != "Parallel" and obj.spec.update_strategy.type != "OnDelete"
    }
    listed = grouped(
        (owner.uid, obj)
        for obj in (ground.listed(ControllerRevision) if sets else ())
        if (owner := obj.metadata.controller()) is not None
    )
    awaited = dict[tuple[Workload, str, str], list[str]]()
    for pod in ground.cluster.pods if sets else ():
        owner = pod.metadata.controller()
        obj = None if owner is None else sets.get(owner.uid)
        is_new = pod.spec.node_name and not pod.status.conditions
        if obj is None or not is_active(pod) or is_new or is_healthy(pod) or is_starting(pod):
            continue
        own, new = pod.metadata.labels.get(REVISION_LABEL), obj.status.update_revision
        if revisions := listed.get(obj.metadata.uid, ()):
            present = update_revision(obj, revisions)  # the status may be older than the template
            new = "" if present is None else present.name
        if own and own != new and (new or revisions):
            about = identity(obj), own, new or "its present template"
            awaited.setdefault(about, []).append(pod.name)
    for (workload, own, brings), pods in awaited.items():
        are = "is" if len(pods) == 1 else "are"
        first = sorted(pods, key=lambda name: (len(name), name))  # by their numbers
        named = f"{examples(first, _EXAMPLES)} of revision {own}"
        text = f"it waits until {named} {are} ready or deleted, before it brings {brings}"
        yield of_workload("rollout-waits", workload, text, len(pods))


def failed_jobs(ground: Ground) -> Iterator[LintFinding]:
    """Yield the Jobs that have failed."""
    for obj in ground.listed(Job):
        for condition in obj.status.conditions:
            if condition.type == "Failed" and condition.status == "True":
                yield of_workload("job-failed", ground.top(obj), condition_text(condition))


def past_refusals(ground: Ground) -> Iterator[LintFinding]:
    """Yield the workloads whose pods the cluster has refused for what the input has otherwise."""
    failures = ground.cluster.failures
    for obj, text in () if failures is None else failures.past:
        yield of_workload("refused-before", ground.top(obj), text)


# ---- autoscalers of pods -----------------------------------------------------------------------------------


def autoscalers(ground: Ground) -> Iterator[LintFinding]:
    """Yield the autoscalers of pods that cannot act, are at their maximum, or have no target."""
    kinds, existing = {kind.__name__ for kind in MAKERS}, {*map(identity, ground.makers)}
    for obj in ground.listed(HorizontalPodAutoscaler, ScaledObject, VerticalPodAutoscaler):
        if (about := target_of(obj)) is None:
            continue
        yield from (LintFinding(rule, identity(obj), text, about) for rule, text in _of_status(obj))
        if about.kind in kinds and about not in existing:
            text = f"its target {about.text} is not in the input"
            yield LintFinding("autoscaler-target", identity(obj), text, about)


def target_of(obj: Object) -> Workload | None:
    """Return the workload that an autoscaler of pods names."""
    spec: Any = obj.spec  # type: ignore[attr-defined]
    target = spec.target_ref if isinstance(obj, VerticalPodAutoscaler) else spec.scale_target_ref
    return target and Workload(obj.namespace, target.kind or Deployment.__name__, target.name)


def _of_status(obj: Object) -> Iterator[tuple[str, str]]:
    for condition in obj.status.conditions if isinstance(obj, HorizontalPodAutoscaler) else ():
        if condition.type in ("ScalingActive", "AbleToScale") and condition.status == "False":
            yield "autoscaler-cannot-act", f"it cannot act: {condition_text(condition)}"
        if (
            condition.type == "ScalingLimited"
            and condition.status == "True"
            and condition.reason == "TooManyReplicas"
        ):
            most = obj.spec.max_replicas  # type: ignore[attr-defined]
            yield "autoscaler-at-maximum", f"it is at spec.maxReplicas {most}: {condition_text(condition)}"


def recommendations(ground: Ground) -> Iterator[LintFinding]:
    """Yield which vertical autoscalers give a new pod more than any node has."""
    cluster, recommending = ground.cluster, defaultdict[Workload, list[VerticalPodAutoscaler]](list)
    for obj in ground.listed(VerticalPodAutoscaler):
        if (target := target_of(obj)) is not None:
            recommending[target].append(obj)
    if not (recommending and cluster.nodes):
        return
    nodes = [quantities(node.status.allocatable) for node in cluster.nodes]
    most = {name: max(node.get(name, Quantity("0")) for node in nodes) for name in ("cpu", "memory")}
    for maker in cluster.others:
        about = identity(maker)
        autoscaler = strongest(recommending.get(about, ()))
        template = getattr(getattr(maker, "spec", None), "template", None)
        if autoscaler is None or not isinstance(template, PodTemplateSpec):
            continue
        own = [limits for limits in ground.listed(LimitRange) if limits.namespace == maker.namespace]
        pod = Pod(spec=with_recommendation(template.spec, autoscaler, own))
        set_by_it = {name for each in pod.spec.containers for name in controlled(autoscaler, each.name)}
        for name, amount in pod_requests(pod, resizes=False).items():
            if name in set_by_it and name in most and amount > most[name]:
                text = f"a new pod of {about.text} gets {amount} {name}, nodes have {most[name]} at most"
                yield LintFinding("recommendation-too-large", identity(autoscaler), text, about)


def unscaled(ground: Ground) -> Iterator[LintFinding]:
    """Yield the autoscalers that measure the share of requests that is used, of pods without requests."""
    for obj in ground.listed(HorizontalPodAutoscaler):
        about = target_of(obj)
        pods = ground.pods.get(about, []) if about is not None else []
        if about is None or not pods or any(each.type == "ScalingActive" for each in obj.status.conditions):
            continue  # the status tells more
        spec, resources = pods[0].spec, [_utilized(metric) for metric in obj.spec.metrics] or ["cpu"]
        lacking = [
            f"container {container.name} of {about.text} requests no {resource}"
            for resource in resources
            for container in spec.containers
            if resource and resource not in container.resources.requests
        ]
        if len(lacking) >= len(resources) and spec.resources is None and all(resources):
            text = f"it never scales, as {first_of(lacking, 1)}"
            yield LintFinding("autoscaler-cannot-act", identity(obj), text, about, len(pods))


def _utilized(metric: MetricSpec) -> str:
    """Return the resource of whose requests a metric is a share; "" for another metric."""
    of = metric.resource
    return of.name if of is not None and metric.type == "Resource" and of.target.type == "Utilization" else ""


# ---- webhooks that nobody serves ---------------------------------------------------------------------------


def unserved_webhooks(ground: Ground) -> Iterator[LintFinding]:
    """Yield the webhooks that fail closed and that nobody answers."""
    for silence in SilentWebhooks.of_cluster(ground.cluster):
        why = f"service {silence.service} is not in the input: without it"
        if silence.is_there:
            why = f"no pod of service {silence.service} is ready, so"
        text = f"{why} what webhook {silence.webhook.name} is asked about is refused"
        yield LintFinding("webhook-unserved", identity(silence.configuration), text)
