"""Pods with resource claims in the core's loop: the decisions and writes are those of single cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice

from moorage import Cluster, Scheduler
from moorage.devices.device_demands import DeviceDemands
from moorage.objects import Node, Object, Pod, decode_object
from moorage.objects.model.resource_claims import ResourceClaim, ResourceClaimTemplate

KIND = f'device.attributes["{DRIVER}"].kind'
Json = dict[str, Any]


def node(name: str, cpu: int = 8) -> Node:
    found = decode_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"zone": name[0]}},
            "status": {"allocatable": {"cpu": str(cpu), "memory": "32Gi", "pods": "20"}},
        }
    )
    assert isinstance(found, Node)
    return found


def pod(name: str, *claims: str, template: str = "", cpu: str = "1") -> Pod:
    uses = [{"name": one, "resourceClaimName": one} for one in claims]
    if template:
        uses.append({"name": "own", "resourceClaimTemplateName": template})
    found = decode_object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
                "resourceClaims": uses,
            },
        }
    )
    assert isinstance(found, Pod)
    return found


def template(name: str, requests: Sequence[Json], constraints: Sequence[Json] = ()) -> ResourceClaimTemplate:
    found = decode_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": list(requests), "constraints": list(constraints)}}},
        }
    )
    assert isinstance(found, ResourceClaimTemplate)
    return found


def make(others: Sequence[Object], pods: Sequence[Pod], nodes: int = 3, **options: Any) -> Scheduler:
    cluster = Cluster(nodes=[node(f"n{at}") for at in range(nodes)], others=list(others), pods=list(pods))
    return Scheduler(cluster, clock=lambda: 0.0, **options)


def outcome(one: Scheduler) -> tuple[dict[str, str], dict[str, str], list[Any]]:
    """Placements, messages, and the claims as they are in the store."""
    result = one.run()
    claims: list[ResourceClaim] = one.client.list(ResourceClaim)[0]
    states = [(each.key, each.metadata.finalizers, each.status) for each in claims]
    messages = {key: failure.message for key, failure in result.unschedulable.items()}
    return result.placements, messages, states


def in_single_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have plugins schedule all pods with claims."""
    monkeypatch.setattr(DeviceDemands, "refresh", lambda self, cluster, nodes: False)


kinds = st.integers(0, 2)
exact = st.builds(
    lambda count, selector, wants_all: request(
        "r",
        0 if wants_all else count,
        *([selector] if selector else []),
        **({"allocationMode": "All"} if wants_all else {}),
    ),
    st.integers(1, 2),
    st.sampled_from(("", f"{KIND} > 0", f"{KIND} == 1", "device.none")),
    st.sampled_from((False, False, False, True)),
)
choice = st.lists(st.sampled_from((f"{KIND} > 0", f"{KIND} == 1")), min_size=1, max_size=2).map(
    lambda selectors: {
        "name": "r",
        "firstAvailable": [
            {
                "name": f"x{at}",
                "deviceClassName": "gpu",
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": one}}],
            }
            for at, one in enumerate(selectors)
        ],
    }
)
constraints = st.sampled_from(([], [], [{"matchAttribute": f"{DRIVER}/kind"}]))


SHARED = (), (), ("shared-a",), ("shared-b",), ("shared-a", "shared-b"), ("none",)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Object], list[Pod]]:
    others: list[Object] = [device_class()]
    for at in range(3):
        drawn = draw(st.lists(kinds, max_size=4))
        devices = [device(f"d{i}", {"kind": kind}) for i, kind in enumerate(drawn)]
        others.append(resource_slice(f"n{at}", devices))
    if draw(st.booleans()):
        counting = [{"counterSet": "s", "counters": {"a": {"value": "2"}}}]
        partitions = [device(f"p{i}", {"kind": 1}, consumesCounters=counting) for i in range(3)]
        counters = [{"name": "s", "counters": {"a": {"value": "4"}}}]
        where: Json = draw(st.sampled_from(({"allNodes": True, "nodeName": None}, {"nodeName": "n1"})))
        others.append(resource_slice("n1", partitions, "shared", sharedCounters=counters, **where))
    for name in "ab":
        others.append(template(name, [draw(exact | choice)], draw(constraints)))
        others.append(claim(f"shared-{name}", [draw(exact)]))
    pods = []
    for at in range(draw(st.integers(1, 8))):
        shared = draw(st.sampled_from(SHARED))
        own = draw(st.sampled_from(("", "a", "b"))) if not shared or draw(st.booleans()) else ""
        pods.append(pod(f"p{at}", *shared, template=own, cpu=draw(st.sampled_from(("1", "3")))))
    return others, pods


@settings(max_examples=60, deadline=None)
@given(clusters(), st.sampled_from(("first", "go-heap")))
def test_decisions_are_those_of_single_cycles(made: tuple[list[Object], list[Pod]], tie_break: str) -> None:
    together = outcome(make(*made, tie_break=tie_break))
    with pytest.MonkeyPatch.context() as patch:
        in_single_cycles(patch)
        assert together == outcome(make(*made, tie_break=tie_break))
