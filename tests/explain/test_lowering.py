"""Lowering a request: at one place if that is enough, by no more than it takes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conftest import NIGHTLY
from tests.doors.cluster import drop_request, effective_request, lower
from tests.doors.engine import PodGates
from tests.explain.explain_world import random_pod
from tests.make import container, node, pod

from moorage import Scheduler
from moorage.kube import Cluster, Container, ContainerStatus, Pod, ResourceRequirements

GATES = PodGates()


def edits(asked: Pod, target: int, resource: str = "cpu") -> list[tuple[str, str, str]]:
    lowered = lower(asked, resource, target, GATES)
    assert lowered is not None
    assert effective_request(lowered[0], resource, GATES) == target
    return [(edit.path, edit.before, edit.after) for edit in lowered[1]]


def with_containers(*containers: Container, **spec: Any) -> Pod:
    return pod("p", containers=containers, **spec)


def test_the_largest_container_gives() -> None:
    two = with_containers(container("a", {"cpu": "1"}), container("b", {"cpu": "3"}))
    assert edits(two, 2500) == [("spec.containers[1].resources.requests[cpu]", "3", "1500m")]


def test_an_init_container_gives_where_it_is_what_counts() -> None:
    peak = with_containers(container("a", {"cpu": "3"}), init_containers=(container("i", {"cpu": "5"}),))
    assert edits(peak, 4000) == [("spec.initContainers[0].resources.requests[cpu]", "5", "4")]
    both = "spec.initContainers[0].resources.requests[cpu]", "spec.containers[0].resources.requests[cpu]"
    assert {path for path, *_ in edits(peak, 2000)} == set(both)


def test_a_sidecar_counts_beside_both() -> None:
    sidecar = container("s", {"memory": "2Gi"}, restart_policy="Always")
    beside = with_containers(
        container("a", {"memory": "1Gi"}), init_containers=(sidecar, container("i", {"memory": "1Gi"}))
    )
    assert effective_request(beside, "memory", GATES) == 3 << 30
    assert edits(beside, 2 << 30, "memory") == [
        ("spec.initContainers[0].resources.requests[memory]", "2Gi", "1Gi")
    ]


def test_several_containers_give_where_one_is_not_enough() -> None:
    three = with_containers(*(container(name, {"cpu": "1"}) for name in "abc"))
    found = edits(three, 1000)
    assert len(found) == 3
    assert sum(int(after.removesuffix("m")) for *_, after in found) == 1000


def test_the_requests_of_a_whole_pod() -> None:
    own = ResourceRequirements(requests={"cpu": "4"})
    loose = with_containers(container("a", {"cpu": "1"}), resources=own)
    assert edits(loose, 2000) == [("spec.resources.requests[cpu]", "4", "2")]
    # Never below what its containers add up to.
    assert edits(loose, 500) == [
        ("spec.resources.requests[cpu]", "4", "500m"),
        ("spec.containers[0].resources.requests[cpu]", "1", "125m"),
    ]


def test_the_requests_of_a_whole_pod_do_not_count_without_their_gate() -> None:
    own = ResourceRequirements(requests={"cpu": "4"})
    whole, off = with_containers(container("a", {"cpu": "2"}), resources=own), PodGates(False)
    assert (effective_request(whole, "cpu", GATES), effective_request(whole, "cpu", off)) == (4000, 2000)
    lowered = lower(whole, "cpu", 1000, off)
    assert lowered is not None
    (edit,) = lowered[1]
    assert (edit.path, edit.container, edit.before, edit.after) == (
        "spec.containers[0].resources.requests[cpu]",
        "a",
        "2",
        "1",
    )


def test_an_explanation_lowers_what_counts_under_its_gates() -> None:
    own = ResourceRequirements(requests={"cpu": "8"})
    whole = with_containers(container("a", {"cpu": "3"}), resources=own)
    gates = {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}
    one = Scheduler(Cluster(nodes=[node("n", cpu=2)]), feature_gates=gates)
    (change,) = [each for each in one.ask.explain(whole).changes if each.values.get("resource") == "cpu"]
    assert change.text == "lower the cpu request of container a from 3 to 2"


def test_what_a_container_has_now_does_not_count() -> None:
    """The request of the whole pod covers what the containers ask for, resized or not."""
    whole = with_containers(
        container("a", {"cpu": "1"}), resources=ResourceRequirements(requests={"cpu": "4"})
    )
    larger = ContainerStatus(name="a", resources=ResourceRequirements(requests={"cpu": "3"}))
    whole = replace(whole, status=replace(whole.status, container_statuses=(larger,)))
    assert edits(whole, 2000) == [("spec.resources.requests[cpu]", "4", "2")]


def test_lowering_leaves_the_overhead_as_it_is() -> None:
    sandboxed = with_containers(container("a", {"cpu": "1"}), overhead={"cpu": "200m"})
    assert edits(sandboxed, 700) == [("spec.containers[0].resources.requests[cpu]", "1", "500m")]
    assert lower(sandboxed, "cpu", 100, GATES) is None
    assert effective_request(drop_request(sandboxed, "cpu"), "cpu", GATES) == 200


def test_a_pod_that_asks_for_nothing_is_no_advice() -> None:
    assert lower(with_containers(container("a", {"cpu": "1"})), "cpu", 0, GATES) is None
    assert (
        lower(with_containers(container("a", {"cpu": "1"}), overhead={"cpu": "200m"}), "cpu", 200, GATES)
        is None
    )


def test_a_container_that_would_give_all_shares_with_others() -> None:
    two = with_containers(container("a", {"cpu": "1"}), container("b", {"cpu": "3"}))
    assert [after for *_, after in edits(two, 1000)] == ["750m", "250m"]


@pytest.mark.parametrize(("resource", "limit"), [("nvidia.com/gpu", "1"), ("cpu", "4")])
def test_a_limit_that_has_to_be_equal_goes_along(resource: str, limit: str) -> None:
    equal = ResourceRequirements(requests={resource: "4"}, limits={resource: "4"})
    lowered = lower(
        with_containers(Container(name="a", resources=equal)), resource, effective_of(resource), GATES
    )
    assert lowered is not None
    assert lowered[0].spec.containers[0].resources.limits == {resource: limit}


def effective_of(resource: str) -> int:
    return 1000 if resource == "cpu" else 1


def test_fractions_of_a_unit_stay_exact() -> None:
    fine = with_containers(container("a", {"cpu": "1500.5m"}), container("b", {"cpu": "0.3m"}))
    assert effective_request(fine, "cpu", GATES) == 1501
    assert edits(fine, 1000) == [("spec.containers[0].resources.requests[cpu]", "1500500u", "999700u")]


@pytest.mark.parametrize("seed", range(300 if NIGHTLY else 30))
def test_any_target_is_met_exactly_and_at_one_place_if_possible(seed: int) -> None:
    random = Random(seed)
    asked = random_pod(random)
    for resource in ("cpu", "memory"):
        least, most = (
            effective_request(drop_request(asked, resource), resource, GATES),
            effective_request(asked, resource, GATES),
        )
        for target in {least + 1, most - 1, random.randint(least + 1, max(most - 1, least + 1))}:
            if not least < target < most:
                continue
            lowered = lower(asked, resource, target, GATES)
            assert lowered is not None
            assert effective_request(lowered[0], resource, GATES) == target
            if len(lowered[1]) > 1:
                assert not any(one_place_is_enough(asked, resource, target))


def one_place_is_enough(asked: Pod, resource: str, target: int) -> list[bool]:
    """Per container: whether the pod would be small enough even if it asked for a little."""
    spec, found = asked.spec, []
    if spec.resources is not None and resource in spec.resources.requests:
        return found
    for name in ("containers", "init_containers"):
        for at, one in enumerate(getattr(spec, name)):
            requests = {key: value for key, value in one.resources.requests.items() if key != resource}
            bare = replace(one, resources=ResourceRequirements(requests=requests))
            others = getattr(spec, name)
            changed = replace(spec, **{name: (*others[:at], bare, *others[at + 1 :])})
            found.append(effective_request(replace(asked, spec=changed), resource, GATES) < target)
    return found
