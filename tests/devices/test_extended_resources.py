"""Extended resources that device classes provide."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.devices.make import device_class

from moorage.devices.extended_resources import ExtendedRequestsOfPods, claim_spec, classes_by_resource
from moorage.objects import ContainerStatus, Pod, PodStatus, ResourceRequirements, decode_object

CLASSES = classes_by_resource(
    [device_class(name, extendedResourceName=f"example.com/{name}") for name in ("gpu", "nic")]
)
NAMES = ("cpu", "example.com/gpu", "example.com/nic", "example.com/other")


def pod(**spec: Any) -> Pod:
    found = decode_object({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert isinstance(found, Pod)
    return found


def requesting(name: str, requests: dict[str, str], **more: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}, **more}


requests = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("0", "1", "2")), max_size=3)
containers = st.builds(requesting, st.sampled_from("ab"), requests)
init_containers = st.builds(requesting, st.sampled_from("cd"), requests) | st.builds(
    requesting, st.sampled_from("cd"), requests, restartPolicy=st.just("Always")
)
pods = st.builds(
    pod,
    containers=st.lists(containers, min_size=1, max_size=2),
    initContainers=st.lists(init_containers, max_size=2),
    overhead=st.just({}) | requests,
)


@given(st.lists(pods, min_size=2, max_size=6))
def test_pods_share_the_requests_that_each_would_have(some: list[Pod]) -> None:
    together = ExtendedRequestsOfPods(CLASSES)
    for one in (*some, *some):
        assert together.of(one) == ExtendedRequestsOfPods(CLASSES).of(one)


def test_equal_pods_share_one_spec() -> None:
    found = ExtendedRequestsOfPods(CLASSES)
    one, other = [pod(containers=[requesting("a", {"example.com/gpu": "2"})]) for _ in range(2)]
    shared = found.of(one)
    assert shared is not None
    assert shared is found.of(other)
    assert (shared.spec, shared.mappings) == claim_spec(one, ["example.com/gpu"], CLASSES)


def test_requests_are_told_apart_by_what_classes_provide() -> None:
    found = ExtendedRequestsOfPods(CLASSES)
    assert found.of(pod(containers=[requesting("a", {"cpu": "1"})])) is None
    partly = found.of(pod(containers=[requesting("a", {"example.com/gpu": "1", "example.com/other": "1"})]))
    assert partly is not None
    assert partly.spec is None
    assert partly.resources == {"example.com/gpu": 1, "example.com/other": 1}


def test_what_containers_hold_is_not_asked_for() -> None:
    held = ContainerStatus(name="a", resources=ResourceRequirements(requests={"example.com/gpu": "1"}))
    status = PodStatus(container_statuses=(held,))
    one = replace(pod(containers=[requesting("a", {"cpu": "1"})]), status=status)
    assert ExtendedRequestsOfPods(CLASSES).of(one) is None


def test_only_so_many_answers_are_kept() -> None:
    found = ExtendedRequestsOfPods(CLASSES)
    found.MOST = 2
    some = [pod(containers=[requesting("a", {"example.com/gpu": str(count)})]) for count in (1, 2, 3, 1)]
    assert [one.resources["example.com/gpu"] for one in map(found.of, some) if one] == [1, 2, 3, 1]
