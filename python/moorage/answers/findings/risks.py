"""What the objects of a cluster risk: budgets that allow nothing, pods that a drain or a failure takes down,
claims, volumes and devices that are not what they seem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from moorage._core.base.resources import pod_requests
from moorage.errors import first_of, number_of
from moorage.grouped import grouped
from moorage.kube import Node, Pod, PodDisruptionBudget, ResourceSlice
from moorage.kube.model.autoscaling import HorizontalPodAutoscaler
from moorage.kube.model.meta import share
from moorage.kube.model.node import ZONE
from moorage.kube.model.pod import MIRROR_ANNOTATION
from moorage.kube.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.kube.workloads.ownership import Workload

from ..nodes.device_use import MODEL_LABELS
from .finding import Ground, LintFinding, identity, of_workload
from .statuses import target_of

_EXAMPLES = 3
_LASTING = frozenset(
    {"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Rollout", "CloneSet"}
)
"""The kinds whose pods serve together."""
_DEVICE_LABELS = (*MODEL_LABELS, "nvidia.com/gpu.present", "nvidia.com/gpu.count", "skypilot.co/accelerator")
_NO_DEVICES = ("hugepages-", "attachable-volumes-")


# ---- budgets -----------------------------------------------------------------------------------------------


def blocking_budgets(ground: Ground) -> Iterator[LintFinding]:
    """Yield the budgets that allow no eviction, and the workloads whose pods have several."""
    budgets = [*ground.listed(PodDisruptionBudget)]
    selectors, selected = BudgetSelectors(budgets), Counter[str]()
    overlapping = dict[tuple[Workload, str], int]()
    for workload, pods in ground.pods.items() if budgets else ():
        for pod in pods:
            if pod.spec.node_name and (its := selectors.of(pod)):
                selected.update(budget.key for budget in its)
                if len(its) > 1:
                    key = workload, first_of([budget.name for budget in its], _EXAMPLES)
                    overlapping[key] = overlapping.get(key, 0) + 1
    for budget in budgets:
        status, number = budget.status, selected[budget.key]
        if status.disruptions_allowed > 0 or not number:
            continue
        needs = number_of(status.desired_healthy, "healthy pod", "healthy pods")
        text = f"it needs {needs} and has {status.current_healthy}"
        text += f" of {status.expected_pods}: it allows no eviction until more are ready"
        if status.desired_healthy >= status.expected_pods:
            needs = f"all {status.expected_pods} of its pods" if status.expected_pods > 1 else "its only pod"
            text = f"it never allows an eviction: it needs {needs}"
        if not status.expected_pods:
            text = "it never allows an eviction: the controllers of its pods have no number of replicas"
        yield of_workload("budget-blocks", identity(budget), text, number)
    for (workload, names), number in overlapping.items():
        text = f"its pods have several budgets, with which no eviction is allowed: {names}"
        yield of_workload("budgets-overlap", workload, text, number)


def budgets_of_fewer_replicas(ground: Ground) -> Iterator[LintFinding]:
    """Yield the budgets that will allow no eviction once an autoscaler has as few replicas as it may."""
    autoscalers = ground.listed(HorizontalPodAutoscaler)
    selectors = BudgetSelectors(ground.listed(PodDisruptionBudget) if autoscalers else ())
    listed = chain.from_iterable(ground.pods.values() if autoscalers else ())
    selected = Counter(budget.key for pod in listed for budget in selectors.of(pod))
    for autoscaler in autoscalers:
        about, fewest = target_of(autoscaler), autoscaler.spec.min_replicas
        fewest = 1 if fewest is None else fewest
        pods = ground.pods.get(about, []) if about is not None and fewest else []
        for budget in selectors.of(pods[0]) if pods else ():
            left = selected[budget.key] - len(pods) + fewest  # with those of other workloads
            low, high = budget.spec.min_available, budget.spec.max_unavailable
            needed = share(low or 0, left) if high is None else left - share(high, left)
            if needed >= left and budget.status.disruptions_allowed > 0:
                text = f"with {number_of(fewest, 'replica', 'replicas')}, as few as hpa/{autoscaler.name} may"
                yield of_workload(
                    "budget-blocks-later", identity(budget), f"{text} set, it allows no eviction"
                )


def without_budget(ground: Ground) -> Iterator[LintFinding]:
    """Yield the workloads of several pods all of which may be evicted at once."""
    selectors = BudgetSelectors(ground.listed(PodDisruptionBudget))
    for workload, pods in ground.pods.items():
        if workload.kind in _LASTING and len(pods) > 1 and not any(map(selectors.of, pods)):
            text = "no budget selects its pods, so drains may evict all of them at once"
            yield of_workload("no-budget", workload, text, len(pods))


# ---- pods --------------------------------------------------------------------------------------------------


def _own(ground: Ground) -> Iterator[tuple[Workload, list[Pod]]]:
    """Yield the workloads and their pods, without those that belong to a node."""
    for workload, pods in ground.pods.items():
        if workload.kind != Node.__name__ and MIRROR_ANNOTATION not in pods[0].metadata.annotations:
            yield workload, pods


def without_requests(ground: Ground) -> Iterator[LintFinding]:
    """Yield the workloads whose pods request no cpu or memory."""
    for workload, pods in _own(ground):
        requested = pod_requests(pods[0], resizes=False)
        lacking = [name for name in ("cpu", "memory") if not (name in requested and requested[name].sign())]
        if lacking:
            text = f"requests no {' and no '.join(lacking)}, so nodes take more of it than they have room for"
            yield of_workload("no-requests", workload, text, len(pods))


def without_controller(ground: Ground) -> Iterator[LintFinding]:
    """Yield the pods that nobody makes anew."""
    for workload, pods in _own(ground):
        if workload.kind == Pod.__name__:
            yield of_workload(
                "no-controller", workload, "no controller makes it anew if its node goes", len(pods)
            )


def single_replicas(ground: Ground) -> Iterator[LintFinding]:
    """Yield the workloads that a drain or the loss of a node stops."""
    for obj in ground.makers:
        if obj.kind in _LASTING and obj.metadata.controller() is None:
            replicas = obj.spec.replicas  # type: ignore[attr-defined]
            if replicas in (None, 1):
                text = "it has one replica, so a drain or the loss of its node stops it"
                yield of_workload("one-replica", ground.top(obj), text, 1)


def in_one_domain(ground: Ground) -> Iterator[LintFinding]:
    """Yield the workloads with several pods that are all on one node, or in one zone of several."""
    nodes = {node.name: node for node in ground.cluster.nodes}
    zones = {name: node.metadata.labels.get(ZONE, "") for name, node in nodes.items()}
    number_of_zones = len({*zones.values()} - {""})
    for workload, pods in _own(ground) if len(nodes) > 1 else ():
        names = [pod.spec.node_name for pod in pods if pod.spec.node_name]
        if workload.kind not in _LASTING or len(names) < 2:
            continue
        own = {zones.get(name, "") for name in names}
        if len({*names}) == 1:
            text = f"all {len(names)} pods are on node {names[0]}"
            yield of_workload("one-node", workload, text, len(names))
        elif number_of_zones > 1 and len(own) == 1 and "" not in own:
            text = f"all {len(names)} pods are in zone {own.pop()}"
            yield of_workload("one-zone", workload, text, len(names))


# ---- claims, volumes and devices ---------------------------------------------------------------------------


def held_claims(ground: Ground) -> Iterator[LintFinding]:
    """Yield the claims that are being deleted while pods use them, or whose volume is lost."""
    claims = [
        claim
        for claim in ground.listed(PersistentVolumeClaim)
        if claim.metadata.deletion_timestamp or claim.status.phase == "Lost"
    ]
    users = grouped(
        ((pod.namespace, volume.persistent_volume_claim.claim_name), pod.name)
        for pod in (ground.cluster.pods if claims else ())
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    )
    for claim in claims:
        pods = users.get((claim.namespace, claim.name), [])
        if (since := claim.metadata.deletion_timestamp) and pods:
            text = (
                f"it is being deleted since {since} and stays while pods use it: {first_of(pods, _EXAMPLES)}"
            )
            yield LintFinding("claim-held", identity(claim), text, pods=len(pods))
        elif not since:
            text = f"it is Lost: its volume {claim.spec.volume_name} is gone"
            yield LintFinding("claim-held", identity(claim), text, pods=len(pods))


def released_volumes(ground: Ground) -> Iterator[LintFinding]:
    """Yield the volumes that keep the claim that they had, so that no other takes them."""
    for volume in ground.listed(PersistentVolume):
        claim = volume.spec.claim_ref
        if volume.status.phase == "Released" and claim is not None:
            key = f"{claim.namespace}/{claim.name}"
            text = (
                f"it is Released and names claim {key}, so no other claim takes it while it has spec.claimRef"
            )
            yield LintFinding("volume-released", identity(volume), text)


def missing_devices(ground: Ground) -> Iterator[LintFinding]:
    """Yield the nodes whose labels or capacity tell of devices that they do not offer."""
    with_slices = {each.spec.node_name for each in ground.listed(ResourceSlice)}
    for node in ground.cluster.nodes:
        labels, allocatable = node.metadata.labels, node.status.allocatable
        offered = {name for name, amount in allocatable.items() if "/" in name and str(amount) != "0"}
        capacity: dict[str, Any] = {**node.status.capacity}
        gone = [
            name
            for name, amount in capacity.items()
            if "/" in name and not name.startswith(_NO_DEVICES) and str(amount) != "0" and name not in offered
        ]
        if gone:
            lost = first_of([f"{capacity[name]} {name}" for name in gone], _EXAMPLES)
            text = f"it offers none of its {lost}: its device plugin reports none healthy"
            yield LintFinding("device-missing", identity(node), text)
        elif not offered and node.name not in with_slices:
            for label in _DEVICE_LABELS:
                if labels.get(label) not in (None, "", "0", "false"):
                    text = f"it has the label {label}={labels[label]} and offers no device"
                    yield LintFinding("device-missing", identity(node), text)
                    break
