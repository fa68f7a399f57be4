"""What the status of objects says, beside scheduling: nodes that are not ready, pods that do not become
ready, autoscalers that cannot act, selectors that match nothing. None of them changes a decision.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests
from moorage.errors import examples, first_of, shorten
from moorage.grouped import grouped
from moorage.notes import RoutineNote, reworded

from ..admission.pod_requests import controlled, quantities, strongest, with_recommendation
from ..admission.policy.silent_webhooks import SilentWebhooks
from ..model.autoscaling import HorizontalPodAutoscaler, ScaledObject, VerticalPodAutoscaler
from ..model.cluster import Cluster, seconds
from ..model.meta import Condition, LabelSelector, Object, with_condition
from ..model.pod import ContainerState, ContainerStatus, Pod
from ..model.policy import LimitRange, PodDisruptionBudget
from ..model.workload import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    Service,
    StatefulSet,
)
from .daemon_pods import PRESSURES, pinned_by, why_on_no_node
from .disruption import LabelledObjects
from .missing_pods import MAKERS
from .ownership import HASH_LABEL, Workload, Workloads, is_active, is_healthy
from .revisions import REVISION_LABEL, Mark, template_mark, update_revision

# ---- readiness ---------------------------------------------------------------------------------------------
#
# Which pods become ready: those that start, but none of a template that never is.

STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
_IS_COMPLETE = "NewReplicaSetAvailable"
_PROGRESS_DEADLINE = 600
"""Seconds (kubernetes v1.36, SetDefaults_Deployment)."""
_NOT_READY = Condition(type="Ready", status="False", reason="ContainersNotReady")


def is_starting(pod: Pod) -> bool:
    """Whether a pod is reported not to be ready as its kubelet is about to start it, and has met no error."""
    status = pod.status
    if status.phase != "Pending" or not pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
        return False
    if not any(condition.type == "Ready" and condition.status != "True" for condition in status.conditions):
        return False
    states = (container.state for container in (*status.container_statuses, *status.init_container_statuses))
    reasons = {state.waiting.reason for state in states if state is not None and state.waiting is not None}
    return reasons <= STARTING


def progressing(objects: Iterable[Object], now: float) -> set[str]:
    """Return the Deployments whose controller reports that a rollout goes on and is not late.

    Parameters
    ----------
    now : float
        When they were read, in seconds since 1970.

    Returns
    -------
    set of str
        As ``namespace/name``.
    """
    return {
        deployment.key
        for deployment in objects
        if isinstance(deployment, Deployment) and _progresses(deployment, now)
    }


def _progresses(deployment: Deployment, now: float) -> bool:
    limit = deployment.spec.progress_deadline_seconds
    for condition in deployment.status.conditions:
        if (
            condition.type == "Progressing"
            and condition.status == "True"
            and condition.reason != _IS_COMPLETE
        ):
            with suppress(ValueError):  # times of conditions are not validated
                since = now - seconds(condition.last_update_time or "")
                return since <= (_PROGRESS_DEADLINE if limit is None else limit)
    return False


def is_coming(pod: Pod, rollouts: Container[str]) -> bool:
    """Whether a pod that is not ready becomes so: its kubelet is starting it, or its containers run for the
    first time in a rollout that goes on.

    Parameters
    ----------
    rollouts : container of str
        See `progressing`.
    """
    if is_starting(pod):
        return True
    owner, suffix = pod.metadata.controller(), f"-{pod.metadata.labels.get(HASH_LABEL)}"
    if owner is None or f"{pod.namespace}/{owner.name.removesuffix(suffix)}" not in rollouts:
        return False
    states = pod.status.container_statuses
    runs = all(container.restart_count == 0 and container.state == ContainerState() for container in states)
    return bool(states) and runs and pod.status.phase == "Running" and is_active(pod)


def _started(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that are on a node, and on which its kubelet has reported."""
    return [pod for pod in pods if pod.spec.node_name and pod.status.conditions and is_active(pod)]


def _unready(pods: Iterable[Pod]) -> list[Pod]:
    """Return those of `_started` that are not healthy, which few are."""
    return _started(pod for pod in pods if pod.status.conditions and not is_healthy(pod))


def unready_templates(pods: Collection[Pod], rollouts: Container[str]) -> dict[Mark, int]:
    """Return the templates whose bound pods are all reported not to be ready, and how many these are.

    Their new pods are not taken as ready either: what keeps those from it is not known.

    Parameters
    ----------
    rollouts : container of str
        See `progressing`.

    Returns
    -------
    dict of (str, str, str, str) to int
        By `template_mark`.
    """
    sick = [pod for pod in _unready(pods) if not is_coming(pod, rollouts)]
    marks = Counter(mark for pod in sick if (mark := template_mark(pod)) is not None)
    if not marks:
        return {}
    started = _started(pods)
    well = {template_mark(pod) for pod in started if is_healthy(pod) or is_coming(pod, rollouts)}
    return {mark: number for mark, number in marks.items() if mark not in well}


def with_readiness(pod: Pod, unready: Container[Mark]) -> Pod:
    """Return a new pod as one that will not be ready, if its template is known not to.

    Parameters
    ----------
    unready : container of (str, str, str, str)
        See `unready_templates`.
    """
    if template_mark(pod) not in unready:
        return pod
    conditions = with_condition(pod.status.conditions, _NOT_READY)
    return replace(pod, status=replace(pod.status, conditions=conditions))


def as_starting(pod: Pod) -> Pod:
    """Return a pod as its kubelet reports one that it has not started yet (`is_starting`)."""
    conditions = with_condition(pod.status.conditions, _NOT_READY)
    status = replace(pod.status, phase="Pending", conditions=conditions)
    return replace(pod, metadata=replace(pod.metadata, resource_version=""), status=status)


# ---- input facts -------------------------------------------------------------------------------------------

_EXAMPLES = 3
_MAKERS: tuple[type[Object], ...] = (*MAKERS, Deployment)


class InputFact(NamedTuple):
    """A sentence about an object; without a workload for a node, a namespace or a webhook."""

    workload: Workload | None
    text: str


def input_facts(cluster: Cluster) -> list[InputFact]:
    """Return what the objects of a cluster say of themselves, nodes first."""
    sets = [obj for obj in cluster.others if isinstance(obj, ReplicaSet | Job)]
    workloads, kinds = Workloads(sets), {kind.__name__ for kind in _MAKERS}
    existing = {
        Workload(obj.namespace, obj.kind, obj.name) for obj in cluster.others if isinstance(obj, _MAKERS)
    }
    facts = [
        *_of_nodes(cluster),
        *_deleted_namespaces(cluster),
        *_unserved_webhooks(cluster),
        *_of_pods(cluster.pods, workloads),
    ]
    for obj in cluster.others:
        if isinstance(obj, _MAKERS):
            top = workloads.top(Workload(obj.namespace, obj.kind, obj.name), "")
            facts += (_fact(top, text) for text in _of_workload(obj))
        if (about := _target_of(obj)) is not None:
            head = f"{_SHORT.get(type(obj), obj.kind.lower())}/{obj.name} in namespace {obj.namespace}"
            facts += (InputFact(about, f"{head}: {text}") for text in _of_autoscaler(obj))
            if about.kind in kinds and about not in existing:
                facts.append(InputFact(about, f"{head}: its target {about.text} is not in the input"))
    facts += (_fact(about, text) for about, text in _awaited_pods(cluster))
    facts += _of_recommendations(cluster)
    facts += (_fact(about, text) for about, text in _selecting_nothing(cluster))
    facts += (_fact(about, text) for about, text in _daemons_without_nodes(cluster))
    for obj, text in cluster.failures.past:
        top = workloads.top(Workload(obj.namespace, obj.kind, obj.name), "")
        facts.append(_fact(top, text))
    return list(dict.fromkeys(facts))


def _fact(workload: Workload, text: str) -> InputFact:
    return InputFact(workload, reworded(text, f"{workload.text} in namespace {workload.namespace}: {text}"))


def condition_text(condition: Condition) -> str:
    """Return what a condition says, and since when."""
    since = f" since {condition.last_transition_time}" if condition.last_transition_time else ""
    why = ", ".join(filter(None, (condition.reason, condition.message.rstrip("."))))
    return f"{condition.type} is {condition.status}{since}" + (f": {shorten(why)}" if why else "")


def _of_nodes(cluster: Cluster) -> Iterator[InputFact]:
    bad = {
        node.name: texts
        for node in cluster.nodes
        if (
            texts := [condition_text(condition) for condition in node.status.conditions if _is_bad(condition)]
        )
    }
    on_node: dict[str, list[str]] = defaultdict(list)
    for pod in cluster.pods if bad else ():
        if pod.spec.node_name in bad:
            on_node[pod.spec.node_name].append(pod.key)
    for name, texts in bad.items():
        pods = on_node[name]
        on_it = f"; {len(pods)} on it: {examples(pods, _EXAMPLES)}" if pods else ""
        yield InputFact(None, f"node {name}: {', '.join(texts)}{on_it}")


def _is_bad(condition: Condition) -> bool:
    if condition.type in (*PRESSURES, "NetworkUnavailable"):
        return condition.status == "True"
    return condition.type == "Ready" and condition.status != "True"


def _deleted_namespaces(cluster: Cluster) -> Iterator[InputFact]:
    """Yield the namespaces that are being deleted, with their workloads: nobody makes pods there."""
    for space in cluster.namespaces:
        if (since := space.metadata.deletion_timestamp) is not None:
            of_it = [
                obj for obj in cluster.others if obj.namespace == space.name and isinstance(obj, _MAKERS)
            ]
            texts = [f"{obj.kind.lower()}/{obj.name}" for obj in of_it if obj.metadata.controller() is None]
            if texts:
                what = first_of(texts, _EXAMPLES)
                yield InputFact(None, f"namespace {space.name} is being deleted since {since}, with {what}")


def _of_pods(pods: Collection[Pod], workloads: Workloads) -> Iterator[InputFact]:
    """Yield how many pods of a workload are ready, where some are not for a reason that their status has."""
    reasons: dict[Workload, Counter[str]] = defaultdict(Counter)
    since: dict[tuple[Workload, str], str] = {}
    for pod in _unready(pods):
        if (reason := _why_not_ready(pod)) is not None:
            workload, (why, when) = workloads.of(pod), reason
            reasons[workload][why] += 1
            since[workload, why] = min(filter(None, (since.get((workload, why)), when)), default="")
    counted = _started(pods) if reasons else []
    numbers = Counter(map(workloads.of, counted))
    ready = Counter(workloads.of(pod) for pod in counted if is_healthy(pod))
    for workload, counts in reasons.items():
        facts = [
            f"{why}{f' since {since[workload, why]}' if since[workload, why] else ''} ({number})"
            for why, number in counts.items()
        ]
        yield _fact(workload, f"{ready[workload]} of {numbers[workload]} ready: {'; '.join(facts)}")


def _awaited_pods(cluster: Cluster) -> Iterator[tuple[Workload, str]]:
    """Yield the pods of revisions before, and not ready, for which StatefulSets wait that go in order."""
    sets = {
        obj.metadata.uid: obj
        for obj in cluster.others
        if isinstance(obj, StatefulSet)
        and obj.spec.pod_management_policy != "Parallel"
        and obj.spec.update_strategy.type != "OnDelete"
    }
    listed = grouped(
        (owner.uid, obj)
        for obj in (cluster.others if sets else ())
        if isinstance(obj, ControllerRevision) and (owner := obj.metadata.controller()) is not None
    )
    awaited = dict[tuple[Workload, str, str], list[str]]()
    for pod in cluster.pods if sets else ():
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
            about = Workload(obj.namespace, obj.kind, obj.name), own, new or "its present template"
            awaited.setdefault(about, []).append(pod.name)
    for (workload, own, brings), pods in awaited.items():
        are = "is" if len(pods) == 1 else "are"
        first = sorted(pods, key=lambda name: (len(name), name))  # by their numbers
        named = f"{examples(first, _EXAMPLES)} of revision {own}"
        yield workload, f"it waits until {named} {are} ready or deleted, before it brings {brings}"


def _why_not_ready(pod: Pod) -> tuple[str, str] | None:
    """Return why a pod is not ready, and since when; None for one that is about to start."""
    conditions = {condition.type: condition for condition in pod.status.conditions}
    ready, when = conditions.get("Ready", Condition()), pod.status.start_time or ""
    if conditions.get("Initialized", Condition()).status == "False":
        for container in pod.status.init_container_statuses:
            if not _has_succeeded(container):
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


def _has_succeeded(status: ContainerStatus) -> bool:
    return (
        status.state is not None
        and status.state.terminated is not None
        and status.state.terminated.exit_code == 0
    )


_SHORT = {HorizontalPodAutoscaler: "hpa", VerticalPodAutoscaler: "vpa"}


def _target_of(obj: Object) -> Workload | None:
    """Return the workload that an autoscaler of pods names; None for other objects."""
    target: Any = None
    if isinstance(obj, HorizontalPodAutoscaler | ScaledObject):
        target = obj.spec.scale_target_ref
    elif isinstance(obj, VerticalPodAutoscaler):
        target = obj.spec.target_ref
    return target and Workload(obj.namespace, target.kind or Deployment.__name__, target.name)


def _of_autoscaler(obj: Object) -> Iterator[str]:
    if not isinstance(obj, HorizontalPodAutoscaler):
        return
    for condition in obj.status.conditions:
        if condition.type in ("ScalingActive", "AbleToScale") and condition.status == "False":
            yield f"it cannot act: {condition_text(condition)}"
        if (
            condition.type == "ScalingLimited"
            and condition.status == "True"
            and condition.reason == "TooManyReplicas"
        ):
            yield f"it is at spec.maxReplicas {obj.spec.max_replicas}: {condition_text(condition)}"


def _of_recommendations(cluster: Cluster) -> Iterator[InputFact]:
    """Yield which vertical autoscalers give a new pod more than any node has."""
    recommending: dict[Workload, list[VerticalPodAutoscaler]] = defaultdict(list)
    for obj in cluster.others:
        if isinstance(obj, VerticalPodAutoscaler) and (target := obj.spec.target_ref) is not None:
            recommending[Workload(obj.namespace, target.kind, target.name)].append(obj)
    if not (recommending and cluster.nodes):
        return
    nodes = [quantities(node.status.allocatable) for node in cluster.nodes]
    most = {name: max(node.get(name, Quantity("0")) for node in nodes) for name in ("cpu", "memory")}
    ranges = [obj for obj in cluster.others if isinstance(obj, LimitRange)]
    for obj in cluster.others:
        about = Workload(obj.namespace, obj.kind, obj.name)
        autoscaler = strongest(recommending.get(about, ()))
        template = getattr(getattr(obj, "spec", None), "template", None)
        if autoscaler is None or not isinstance(template, PodTemplateSpec):
            continue
        own = [limits for limits in ranges if limits.namespace == obj.namespace]
        pod = Pod(spec=with_recommendation(template.spec, autoscaler, own))
        set_by_it = {name for each in pod.spec.containers for name in controlled(autoscaler, each.name)}
        for name, amount in pod_requests(pod, resizes=False).items():
            if name in set_by_it and name in most and amount > most[name]:
                head = f"vpa/{autoscaler.name} in namespace {obj.namespace}"
                text = f"a new pod of {about.text} gets {amount} {name}, nodes have {most[name]} at most"
                yield InputFact(about, f"{head}: {text}")


def _of_workload(obj: Object) -> Iterator[str]:
    """Yield that a Job has failed, and what the template of a workload asks for that it hardly means."""
    spec: Any = obj.spec  # type: ignore[attr-defined]
    if getattr(spec, "replicas", None) == 0:
        return
    conditions = obj.status.conditions if isinstance(obj, Job) else ()
    yield from (
        condition_text(condition)
        for condition in conditions
        if condition.type == "Failed" and condition.status == "True"
    )
    if name := pinned_by(obj):
        yield f"spec.template.spec.nodeName is {name}, so the scheduler passes its pods by"
    ports: dict[tuple[object, ...], str] = {}
    for at, container in enumerate(spec.template.spec.containers if spec.template is not None else ()):
        for number, port in enumerate(container.ports):
            field = f"spec.template.spec.containers[{at}].ports[{number}]"
            key = port.container_port, port.protocol or "TCP", port.host_port, port.host_ip
            if ports.setdefault(key, field) != field:
                yield RoutineNote(f"{field}: duplicate port definition with {ports[key]}")


# ---- webhooks that nobody serves ---------------------------------------------------------------------------


def _unserved_webhooks(cluster: Cluster) -> Iterator[InputFact]:
    """Yield the webhooks that fail closed and that nobody answers."""
    for silence in SilentWebhooks.of_cluster(cluster):
        why = f"service {silence.service} is not in the input: without it"
        if silence.is_there:
            why = f"no pod of service {silence.service} is ready, so"
        about = f"{silence.webhook.name} ({silence.configuration.kind} {silence.configuration.name})"
        yield InputFact(None, f"{why} what webhook {about} is asked about is refused")


# ---- selectors that match nothing --------------------------------------------------------------------------


def _selecting_nothing(cluster: Cluster) -> Iterator[tuple[Workload, str]]:
    """Yield the objects of a cluster that select no pod, neither one that is there nor one of a template, and
    what is to say of them."""
    templates = [(obj, _template(obj)) for obj in cluster.others if isinstance(obj, _MAKERS)]

    @cache
    def labelled() -> LabelledObjects[Object]:
        future = (
            Pod(metadata=replace(template.metadata, namespace=obj.namespace)) for obj, template in templates
        )
        return LabelledObjects((*cluster.pods, *cluster.finished, *future))

    def matches_none(namespace: str, selector: LabelSelector) -> bool:
        return not labelled().selected(namespace, selector)

    for obj in cluster.others:
        about = Workload(obj.namespace, obj.kind, obj.name)
        if isinstance(obj, PodDisruptionBudget) and (selector := obj.spec.selector) is not None:
            if matches_none(obj.namespace, selector):
                yield (
                    about,
                    f"its selector ({_rules(selector)}) matches no pod of the input, so it protects none",
                )
        elif isinstance(obj, Service) and obj.spec.selector:
            selector = LabelSelector(match_labels=obj.spec.selector)
            if matches_none(obj.namespace, selector):
                yield about, f"its selector ({_rules(selector)}) matches no pod of the input"
    for obj, template in templates:
        if obj.metadata.controller() is not None:
            continue
        for at, constraint in enumerate(template.spec.topology_spread_constraints):
            selector = constraint.label_selector or LabelSelector()
            if constraint.label_selector is not None and matches_none(obj.namespace, selector):
                field = f"spec.template.spec.topologySpreadConstraints[{at}]"
                text = f"{field}: its labelSelector ({_rules(selector)}) matches no pod, not even its own"
                yield Workload(obj.namespace, obj.kind, obj.name), text


_PLATFORMS = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})


def _daemons_without_nodes(cluster: Cluster) -> Iterator[tuple[Workload, str]]:
    """Yield the DaemonSets for which there is no node, but for those of platforms that the nodes are not."""
    platforms = set().union(*(node.metadata.labels.items() for node in cluster.nodes))
    for obj in cluster.others if cluster.nodes else ():
        if not isinstance(obj, DaemonSet):
            continue
        selector = obj.spec.template.spec.node_selector or {}
        is_of_platform = {each for each in selector.items() if each[0] in _PLATFORMS} <= platforms
        if is_of_platform and (why := why_on_no_node(obj, cluster.nodes)):
            yield Workload(obj.namespace, obj.kind, obj.name), why


def _template(obj: Any) -> Any:
    return obj.spec.template


def _rules(selector: LabelSelector) -> str:
    rules = [f"{key}={value}" for key, value in selector.match_labels.items()]
    rules += [
        " ".join(filter(None, (rule.key, rule.operator, ", ".join(rule.values))))
        for rule in selector.match_expressions
    ]
    return ", ".join(rules)


# ---- how many are told -------------------------------------------------------------------------------------

MOST_FACTS = 12


def told_facts(facts: Iterable[InputFact], about: Container[Workload] | None = None) -> list[str]:
    """Return what the objects of an input say of themselves, at most `MOST_FACTS` sentences.

    Parameters
    ----------
    about : container of Workload, optional
        The workloads that an answer is about; nodes are always told.
    """
    texts = [fact.text for fact in facts if about is None or fact.workload is None or fact.workload in about]
    more = len(texts) - MOST_FACTS
    return texts if more <= 1 else [*texts[:MOST_FACTS], f"{more} more facts of this kind"]
