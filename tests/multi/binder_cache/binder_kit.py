"""A BinderCache with a clock that a test moves, and pods of 100 millicores and 500 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.kube import placeholder_of
from tests.make import pod as make_pod
from tests.words import GROUP_ANNOTATION, MATCHED_PLACEHOLDER, RESERVATION, RESERVATION_INDEX, RESOURCE_TYPE

from moorage.compat.binder_cache import (
    CNR,
    BinderCache,
    CacheHandler,
    CachePodInfo,
    CNRStatus,
    CurrentOwners,
    NMNode,
    NMNodeStatus,
    QosNodeInfo,
    Reservation,
    ReservationSpec,
    ReservationStatus,
    ReservationTemplate,
)
from moorage.errors import MoorageError
from moorage.kube import (
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodGroup,
    PodGroupStatus,
)

PLACEHOLDER_UID = "godel.bytedance.com/placeholder-uid"

REQUESTS = {"cpu": "100m", "memory": 500}
GANG = "PodGroupUnit/default/g"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Kit:
    """`cache`, its clock, and what tests ask it."""

    def __init__(self, **handler: Any) -> None:
        self.clock = Clock()
        self.cache = BinderCache(CacheHandler(clock=self.clock, **handler))

    def assume(self, one: Pod) -> None:
        self.cache.assume_pod(CachePodInfo(one))

    def forget(self, one: Pod) -> None:
        self.cache.forget_pod(CachePodInfo(one))

    def info(self, name: str) -> QosNodeInfo:
        found = self.cache.get_node_info(name)
        assert found is not None
        return found

    def used(self, name: str) -> tuple[int, int]:
        """Millicores that guaranteed pods request on a node, and its pods; (0, 0) where it is not known."""
        found = self.cache.get_node_info(name)
        return (found.requested.milli_cpu, len(found.pods)) if found is not None else (0, 0)

    def has(self, one: Pod) -> bool:
        return self.cache.pods.find(one) is not None

    def is_assumed(self, one: Pod) -> bool:
        return self.cache.is_assumed_pod(one)

    def clean(self, now: float) -> None:
        self.clock.now = now
        self.cache.clean(now)


def pod(name: str, on: str = "", annotations: dict[str, str] | None = None, **more: Any) -> Pod:
    """A pod whose UID is its name."""
    return make_pod(name, on, metadata={"annotations": annotations or {}}, **({"requests": REQUESTS} | more))


def best_effort(name: str, on: str = "", **more: Any) -> Pod:
    return pod(name, on, {RESOURCE_TYPE: "best-effort"}, **more)


def nm_node(name: str, capacity: dict[str, Any], allocatable: dict[str, Any]) -> NMNode:
    status = NMNodeStatus(resource_capacity=capacity, resource_allocatable=allocatable)
    return NMNode(metadata=ObjectMeta(name=name), status=status)


def cnr(name: str, **allocatable: Any) -> CNR:
    return CNR(metadata=ObjectMeta(name=name), status=CNRStatus(best_effort_resource_allocatable=allocatable))


WANTS = {RESERVATION: "true", RESERVATION_INDEX: "i"}
TAKES = {RESERVATION_INDEX: "i", MATCHED_PLACEHOLDER: "default/a-placeholder"}


def reservation(of: Pod, phase: str = "", owner: str = "") -> Reservation:
    """What a controller makes of a deleted pod."""
    return Reservation(
        metadata=ObjectMeta(
            name=of.name,
            namespace=of.namespace,
            annotations={RESERVATION_INDEX: placeholder_of(of), PLACEHOLDER_UID: of.metadata.uid},
        ),
        spec=ReservationSpec(template=ReservationTemplate(spec=of.spec), node_name=of.spec.node_name),
        status=ReservationStatus(phase=phase, current_owners=CurrentOwners(uid=owner)),
    )


def member(name: str, on: str = "n") -> Pod:
    """A pod of the group g."""
    return pod(name, on, {GROUP_ANNOTATION: "g"})


def group(phase: str, name: str = "g") -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name=name, namespace="default"), status=PodGroupStatus(phase=phase))


def pdb(name: str, namespace: str = "default", **labels: str) -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels))
    return PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def refused(text: str, do: Callable[..., object], *arguments: object) -> None:
    """An operation raises exactly this."""
    with pytest.raises(MoorageError) as caught:
        do(*arguments)
    assert str(caught.value) == text
