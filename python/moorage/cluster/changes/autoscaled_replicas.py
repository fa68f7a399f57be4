"""The replicas that autoscalers give their targets at least, or at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from moorage.kube import Object
from moorage.kube.model.autoscaling import HorizontalPodAutoscaler, ScaledObject
from moorage.kube.model.workload import (
    CloneSet,
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    full_kind,
)
from moorage.kube.read.decode import is_known
from moorage.kube.workloads.deployment_rollout import PARENTS
from moorage.store import ObjectClient, find_object, kind_named

from .change import Change, full_name

Bound = Literal["min", "max"]
SCALABLE = (Deployment, ReplicaSet, ReplicationController, StatefulSet, CloneSet, *PARENTS)
PAUSED = "autoscaling.keda.sh/paused-replicas"
_MAX_OF_KEDA = 100


class Bounds(NamedTuple):
    """What an autoscaler says of its target.

    Attributes
    ----------
    autoscaler : Object
    api_version, kind, name : str
        The target, in the namespace of the autoscaler.
    least, most : int
        Replicas.
    wakes : bool
        Whether a target without replicas is scaled too.
    """

    autoscaler: Object
    api_version: str
    kind: str
    name: str
    least: int
    most: int
    wakes: bool


def scale_to(client: ObjectClient, bound: Bound) -> Change:
    """Give each target of an autoscaler its least or its most replicas.

    Parameters
    ----------
    bound : {"min", "max"}
        Of several autoscalers of one target, the widest bound counts.

    Returns
    -------
    Change
        What has changed; `kept` has the autoscalers without effect, and why.
    """
    wanted: dict[tuple[type[Object], str, str], tuple[Object, int]] = {}
    kept: dict[str, str] = {}
    for autoscaler in autoscalers(client):
        namespace, number = (
            autoscaler.autoscaler.namespace,
            autoscaler.least if bound == "min" else autoscaler.most,
        )
        target = _target(client, autoscaler, namespace)
        if isinstance(target, str):
            kept[full_name(autoscaler.autoscaler)] = target
            continue
        key = type(target), namespace, target.name
        _, other = wanted.get(key, (target, number))
        wanted[key] = target, min(number, other) if bound == "min" else max(number, other)
    changed = []
    for target, number in wanted.values():
        obj: Any = target
        new = replace(obj, spec=replace(obj.spec, replicas=number))
        if new != obj:
            changed.append(full_name(client.update(new)))
    return Change(changed=tuple(changed), kept=kept)


def autoscalers(client: ObjectClient) -> Iterator[Bounds]:
    """Yield the bounds of all autoscalers; a HorizontalPodAutoscaler that KEDA has made has none of its
    own."""
    scaled: list[ScaledObject] = client.list(ScaledObject)[0]
    listed = {(one.namespace, one.name) for one in scaled}
    for one in scaled:
        spec, target = one.spec, one.spec.scale_target_ref
        floor = spec.min_replica_count or 0
        least = floor if spec.idle_replica_count is None else min(floor, spec.idle_replica_count)
        most = _MAX_OF_KEDA if spec.max_replica_count is None else spec.max_replica_count
        if (paused := one.metadata.annotations.get(PAUSED, "")).isdecimal():
            least = most = int(paused)
        kind, version = target.kind or "Deployment", target.api_version
        yield Bounds(one, version or ("" if target.kind else "apps/v1"), kind, target.name, least, most, True)
    found: list[HorizontalPodAutoscaler] = client.list(HorizontalPodAutoscaler)[0]
    for hpa in found:
        owner = hpa.metadata.controller()
        if owner is not None and owner.kind == "ScaledObject" and (hpa.namespace, owner.name) in listed:
            continue
        ref = hpa.spec.scale_target_ref
        least = 1 if hpa.spec.min_replicas is None else hpa.spec.min_replicas
        yield Bounds(hpa, ref.api_version, ref.kind, ref.name, least, hpa.spec.max_replicas, not least)


def _target(client: ObjectClient, bounds: Bounds, namespace: str) -> Object | str:
    """Return the target of an autoscaler, or why it is not scaled."""
    kind, name = full_kind(bounds.kind, bounds.api_version), f"{namespace}/{bounds.name}"
    struct = kind_named(bounds.kind) if is_known(bounds.kind, bounds.api_version) else None
    if struct not in SCALABLE:
        return f"moorage does not simulate the replicas of its target {kind} {name}"
    target: Any = find_object(client, struct, bounds.name, namespace)
    if target is None:
        return f"there is no {kind} {name}"
    if target.spec.replicas == 0 and not bounds.wakes:
        return f"its target {kind} {name} has 0 replicas, which switches it off"
    found: Object = target
    return found
