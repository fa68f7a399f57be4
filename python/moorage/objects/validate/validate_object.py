"""Validation of the fields that scheduling reads, with the rules of the API server."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.errors import InputError
from moorage.objects.model.meta import Object
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import DisruptionMode, PodGroup, PodGroupSpec
from moorage.objects.model.policy import PodDisruptionBudget, percent
from moorage.objects.model.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from moorage.objects.model.workload import (
    DaemonSet,
    Deployment,
    Job,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from moorage.objects.read.decode import CLUSTER_SCOPED, shorten

from .validate_pod import (
    EFFECTS,
    PREEMPTION_POLICIES,
    VOLUME_MODES,
    check_access_modes,
    check_claim_spec,
    check_enum,
    check_labels,
    check_node_term,
    check_pod_spec,
    check_quantity,
    check_range,
    check_resources,
    check_selector,
    fail,
)

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE = re.compile(_LABEL)
_MAX_NAME = 253
_MAX_NAMESPACE = 63
MAX_PODS = 2_000_000
"""How many pods workloads may request, each and in total: a limit for memory."""
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_VOLUME_PHASES = ("Pending", "Available", "Bound", "Released", "Failed")
_CLAIM_PHASES = ("Pending", "Bound", "Lost")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_RECLAIM_POLICIES = ("Retain", "Delete", "Recycle")
_GROUP_PHASES = (
    "Pending",
    "PreScheduling",
    "Scheduled",
    "Running",
    "Finished",
    "Failed",
    "Timeout",
    "Unknown",
)
_DISRUPTION_MODES = ("Pod", "PodGroup")
_MAX_TOPOLOGIES = 1


def validate(obj: Object) -> None:
    """Check one object, before or after `defaults`.

    Checked is what scheduling reads: names, labels, quantities, ranges, enumerations, selectors. Types and
    integer sizes were checked when the object was decoded.

    Parameters
    ----------
    obj : Object
        Of any kind.

    Raises
    ------
    InputError
        For the first error; names the object and the field.
    """
    try:
        _check_metadata(obj)
        check = _CHECKS.get(type(obj))
        if check is not None:
            check(obj)
    except InputError as error:
        named = f"{obj.kind} {obj.key}".strip()
        raise InputError(shorten(error.message), obj=shorten(named), path=shorten(error.path)) from None


def _check_metadata(obj: Object) -> None:
    meta = obj.metadata
    name = meta.name or meta.generate_name.rstrip("-.")
    field = "metadata.name" if meta.name else "metadata.generateName"
    namespace_kind = obj.kind == "Namespace"
    if not name:
        fail("metadata.name", "required")
    limit, pattern = (_MAX_NAMESPACE, _NAMESPACE) if namespace_kind else (_MAX_NAME, _NAME)
    if len(name) > limit:
        fail(field, f"must not be longer than {limit} characters")
    if pattern.fullmatch(name) is None:
        fail(field, f'"{name}" is not a DNS {"label" if namespace_kind else "subdomain"}')
    namespace = "" if obj.kind in CLUSTER_SCOPED else meta.namespace
    if namespace and (len(namespace) > _MAX_NAMESPACE or _NAMESPACE.fullmatch(namespace) is None):
        fail("metadata.namespace", f'"{namespace}" is not a DNS label')
    check_labels(meta.labels, "metadata.labels")
    _check_timestamp(meta.creation_timestamp, "metadata.creationTimestamp")
    _check_timestamp(meta.deletion_timestamp, "metadata.deletionTimestamp")


def _check_timestamp(text: str | None, path: str) -> None:
    if text is None:
        return
    if _TIMESTAMP.fullmatch(text) is not None:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return
    fail(path, f'"{text}" is not a timestamp like 2006-01-02T15:04:05Z')


def _check_pod(pod: Pod) -> None:
    check_pod_spec(pod.spec, "spec")
    check_enum(pod.status.phase, _POD_PHASES, "status.phase")
    _check_timestamp(pod.status.start_time, "status.startTime")
    for field, statuses in (
        ("containerStatuses", pod.status.container_statuses),
        ("initContainerStatuses", pod.status.init_container_statuses),
    ):
        for i, status in enumerate(statuses):
            check_resources(status.allocated_resources, f"status.{field}[{i}].allocatedResources")
            if status.resources is not None:
                check_resources(status.resources.requests, f"status.{field}[{i}].resources.requests")
    check_resources(pod.status.allocated_resources, "status.allocatedResources")
    if pod.status.resources is not None:
        check_resources(pod.status.resources.requests, "status.resources.requests")


def _check_node(node: Node) -> None:
    check_resources(node.status.capacity, "status.capacity")
    check_resources(node.status.allocatable, "status.allocatable")
    for i, taint in enumerate(node.spec.taints):
        path = f"spec.taints[{i}]"
        if not taint.key:
            fail(f"{path}.key", "required")
        check_labels({taint.key: taint.value}, path)
        check_enum(taint.effect, EFFECTS, f"{path}.effect", required=True)


def _check_workload(obj: Deployment | ReplicaSet | StatefulSet | DaemonSet) -> None:
    if not isinstance(obj, DaemonSet):
        check_range(obj.spec.replicas, 0, MAX_PODS, "spec.replicas")
    if isinstance(obj, StatefulSet):
        for i, template in enumerate(obj.spec.volume_claim_templates):
            check_claim_spec(template.spec, f"spec.volumeClaimTemplates[{i}].spec")
    check_selector(obj.spec.selector, "spec.selector")
    _check_template(obj.spec.template)
    selector, labels = obj.spec.selector, obj.spec.template.metadata.labels
    if selector is not None and not LabelSelectorMatcher(selector).matches(labels):
        fail("spec.template.metadata.labels", "spec.selector does not match them")


def _check_replication_controller(obj: ReplicationController) -> None:
    check_range(obj.spec.replicas, 0, MAX_PODS, "spec.replicas")
    check_labels(obj.spec.selector, "spec.selector")
    if obj.spec.template is None:
        fail("spec.template", "required")
    _check_template(obj.spec.template)


def _check_job(job: Job) -> None:
    check_range(job.spec.parallelism, 0, None, "spec.parallelism")
    check_range(job.spec.completions, 0, None, "spec.completions")
    check_enum(job.spec.completion_mode, ("NonIndexed", "Indexed"), "spec.completionMode")
    if job.spec.completion_mode == "Indexed" and job.spec.completions is None:
        fail("spec.completions", "required for an indexed Job")
    check_selector(job.spec.selector, "spec.selector")
    _check_template(job.spec.template)
    for path, text in (
        ("status.completedIndexes", job.status.completed_indexes),
        ("status.failedIndexes", job.status.failed_indexes),
    ):
        if text and re.fullmatch(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*", text) is None:
            fail(path, f'"{text}" is not a list of indexes like 1,3-5')


def _check_template(template: PodTemplateSpec) -> None:
    check_labels(template.metadata.labels, "spec.template.metadata.labels")
    check_pod_spec(template.spec, "spec.template.spec")


def _check_budget(obj: PodDisruptionBudget) -> None:
    """As pkg/apis/policy/validation of v1.36, with its texts."""
    spec, status = obj.spec, obj.status
    if spec.min_available is not None and spec.max_unavailable is not None:
        fail("spec", "minAvailable and maxUnavailable cannot be both set")
    _check_int_or_percent(spec.min_available, "spec.minAvailable")
    _check_int_or_percent(spec.max_unavailable, "spec.maxUnavailable")
    check_selector(spec.selector, "spec.selector")
    _check_int_or_percent(status.disruptions_allowed, "status.disruptionsAllowed")
    _check_int_or_percent(status.current_healthy, "status.currentHealthy")
    _check_int_or_percent(status.desired_healthy, "status.desiredHealthy")
    _check_int_or_percent(status.expected_pods, "status.expectedPods")


def _check_int_or_percent(value: int | str | None, path: str) -> None:
    if isinstance(value, int) and value < 0:
        fail(path, f"Invalid value: {value}: must be greater than or equal to 0")
    if isinstance(value, str):
        if re.fullmatch("[0-9]+%", value) is None:
            fail(path, f'Invalid value: "{value}": {_PERCENT}')
        if len(value.lstrip("0")) > len("100%") or percent(value) > 100:
            fail(path, f'Invalid value: "{value}": must not be greater than 100%')


def _check_priority_class(obj: PriorityClass) -> None:
    check_enum(obj.preemption_policy, PREEMPTION_POLICIES, "preemptionPolicy")


# ---- storage -----------------------------------------------------------------------------------------------


def _check_volume(volume: PersistentVolume) -> None:
    spec = volume.spec
    check_resources(spec.capacity, "spec.capacity")
    check_access_modes(spec.access_modes, "spec.accessModes")
    check_enum(spec.volume_mode, VOLUME_MODES, "spec.volumeMode")
    check_enum(spec.persistent_volume_reclaim_policy, _RECLAIM_POLICIES, "spec.persistentVolumeReclaimPolicy")
    check_enum(volume.status.phase, _VOLUME_PHASES, "status.phase")
    affinity = spec.node_affinity
    if affinity is not None and affinity.required is not None:
        for i, term in enumerate(affinity.required.node_selector_terms):
            check_node_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{i}]")


def _check_claim(claim: PersistentVolumeClaim) -> None:
    check_claim_spec(claim.spec, "spec")
    check_enum(claim.status.phase, _CLAIM_PHASES, "status.phase")


def _check_class(obj: StorageClass) -> None:
    if not obj.provisioner:
        fail("provisioner", "required")
    check_enum(obj.volume_binding_mode, _BINDING_MODES, "volumeBindingMode")
    check_enum(obj.reclaim_policy, _RECLAIM_POLICIES, "reclaimPolicy")


def _check_csi_node(obj: CSINode) -> None:
    for i, driver in enumerate(obj.spec.drivers):
        if not driver.name:
            fail(f"spec.drivers[{i}].name", "required")
        if driver.allocatable is not None:
            check_range(driver.allocatable.count, 0, None, f"spec.drivers[{i}].allocatable.count")


def _check_capacity(obj: CSIStorageCapacity) -> None:
    if not obj.storage_class_name:
        fail("storageClassName", "required")
    for field, quantity in (("capacity", obj.capacity), ("maximumVolumeSize", obj.maximum_volume_size)):
        if quantity is not None:
            check_quantity(quantity, field)
    check_selector(obj.node_topology, "nodeTopology")


# ---- pod groups --------------------------------------------------------------------------------------------


def _check_pod_group(group: PodGroup) -> None:
    """Check a group by pkg/apis/scheduling/validation of v1.36; of Gödel's groups minimum and phase."""
    spec = group.spec
    if group.is_godel:
        if spec.min_member is None:
            fail("spec.minMember", "required")
        check_range(spec.min_member, 1, None, "spec.minMember")
        check_range(spec.schedule_timeout_seconds, 0, None, "spec.scheduleTimeoutSeconds")
        check_enum(group.status.phase, _GROUP_PHASES, "status.phase")
    else:
        _check_policy(spec)
        _check_constraints(spec)
        _check_disruption_mode(spec)


def _check_policy(spec: PodGroupSpec) -> None:
    policy = spec.scheduling_policy
    if policy is None:
        fail("spec.schedulingPolicy", "required")
    if (policy.basic is None) == (policy.gang is None):
        fail("spec.schedulingPolicy", "must have exactly one of basic, gang")
    if policy.gang is not None:
        check_range(policy.gang.min_count, 1, None, "spec.schedulingPolicy.gang.minCount")


def _check_constraints(spec: PodGroupSpec) -> None:
    if spec.scheduling_constraints is None:
        return
    path, topology = "spec.schedulingConstraints.topology", spec.scheduling_constraints.topology
    if len(topology) > _MAX_TOPOLOGIES:
        fail(path, f"must have at most {_MAX_TOPOLOGIES} item")
    for i, constraint in enumerate(topology):
        if not constraint.key:
            fail(f"{path}[{i}].key", "required")
        check_labels({constraint.key: ""}, f"{path}[{i}].key")


def _check_disruption_mode(spec: PodGroupSpec) -> None:
    mode = spec.disruption_mode
    if isinstance(mode, str):
        check_enum(mode, _DISRUPTION_MODES, "spec.disruptionMode", required=True)
    elif isinstance(mode, DisruptionMode) and (mode.single is None) == (mode.all is None):
        fail("spec.disruptionMode", "must have exactly one of single, all")


_CHECKS: dict[type[Object], Callable[[Any], None]] = {
    Pod: _check_pod,
    Node: _check_node,
    Deployment: _check_workload,
    ReplicaSet: _check_workload,
    StatefulSet: _check_workload,
    DaemonSet: _check_workload,
    ReplicationController: _check_replication_controller,
    Job: _check_job,
    PriorityClass: _check_priority_class,
    PodDisruptionBudget: _check_budget,
    PodGroup: _check_pod_group,
    PersistentVolume: _check_volume,
    PersistentVolumeClaim: _check_claim,
    StorageClass: _check_class,
    CSINode: _check_csi_node,
    CSIStorageCapacity: _check_capacity,
}
