"""Explanations of pods with claims for devices: what each rule leaves, who is in the way, and changes, each
of them made on a scheduler of its own."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.conftest import NIGHTLY, SHARE
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice
from tests.devices.test_request_survey import consuming, holding
from tests.doors.answers import devices as device_rules
from tests.house.source import ROOT
from tests.make import node, pod

import moorage as mo
from moorage import Scheduler
from moorage.answers.explain import Explanation, HelpfulChange, explain_in_turn
from moorage.kube import (
    Object,
    ObjectMeta,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)

MODEL = f'device.attributes["{DRIVER}"].model'
EXTENDED = "example.com/gpu"
X, Y = {"model": "x"}, {"model": "y"}


def asking(name: str, claim_name: str = "c", **more: Any) -> Pod:
    return pod(name, resourceClaims=[{"name": "gpus", "resourceClaimName": claim_name}], **more)


def objects(*others: Object, pods: list[Pod] | None = None) -> mo.Cluster:
    """Three nodes: a without devices, b with three of model x, c with one of model y; and pods that have the
    claims which are reserved."""
    listed = [
        device_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName=EXTENDED),
        device_class("other", f'{MODEL} == "y"'),
        resource_slice("b", [device(f"d{at}", X) for at in range(3)]),
        resource_slice("c", [device("d0", Y)]),
        *others,
    ]
    nodes = [node("a"), node("b"), node("c")]
    users = [
        pod(user.name, on="a")
        for one in others
        if isinstance(one, ResourceClaim)
        for user in one.status.reserved_for
    ]
    return mo.Cluster(nodes=nodes, pods=[*users, *([asking("p")] if pods is None else pods)], others=listed)


def explained(*others: Object, pods: list[Pod] | None = None, key: str = "default/p") -> Explanation:
    return Scheduler(objects(*others, pods=pods)).ask.explain(key)


def texts(found: Explanation) -> list[str]:
    return [change.text for change in found.changes]


def places(cluster: mo.Cluster, change: HelpfulChange, key: str = "default/p") -> int:
    """The number of feasible nodes after a change of the objects themselves."""
    one = Scheduler(cluster)
    one.sync()
    for changed in [edit.change(None) for edit in change.edits if edit.about is ResourceClaim]:
        stored = one.client.get(ResourceClaim, changed.name, changed.namespace)
        one.client.update(replace(stored, spec=changed.spec, status=changed.status))
    if change.kind == "add-node":
        one.change.add_nodes(1, like=change.values["like"])
    one.sync()
    subject = change.pod if change.kind in ("drop", "lower-request") else one.client.get(Pod, "p", "default")
    return len(one.ask.explain(subject).feasible)


CASES: dict[str, tuple[list[Object], list[str]]] = {
    "too many": (
        [claim("c", [request("r", 5)])],
        ["ask for 3 devices instead of 5 in request r of claim gpus", "drop claim gpus"],
    ),
    "in use": (
        [claim("c", [request("r", 3)]), holding("one", "d0", node="b"), holding("two", "d1", node="b")],
        [
            "add a node like b (4 cpu, 8Gi memory)",
            "ask for 1 device instead of 3 in request r of claim gpus",
            "drop claim gpus",
        ],
    ),
    "one claim holds them": (
        [claim("c", [request("r", 3)]), holding("one", "d0", "d1", node="b")],
        [
            "add a node like b (4 cpu, 8Gi memory)",
            "ask for 1 device instead of 3 in request r of claim gpus",
            "drop claim gpus",
            "free claim default/one (2 devices, used by pod-one)",
        ],
    ),
    "wrong class": (
        [claim("c", [request("r", 1, deviceClassName="wrong")])],
        [
            "ask for class gpu instead of wrong in request r of claim gpus",
            "ask for class other instead of wrong in request r of claim gpus",
            "drop claim gpus",
        ],
    ),
    "selector": (
        [claim("c", [request("r", 1, f'{MODEL} == "z"')])],
        ["drop claim gpus", f'drop the selector {MODEL} == "z" of request r of claim gpus'],
    ),
    "constraint": (
        [claim("c", [request("r", 2)], [{"matchAttribute": f"{DRIVER}/none"}])],
        ["drop claim gpus", f"drop the constraint matchAttribute {DRIVER}/none of claim gpus"],
    ),
    "allocated elsewhere": (
        [
            claim(
                "c",
                [request()],
                allocation={
                    "devices": {
                        "results": [{"request": "r", "driver": DRIVER, "pool": "gone", "device": "d"}]
                    },
                    "nodeSelector": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
                        ]
                    },
                },
            )
        ],
        ["drop claim gpus", "free claim default/c (1 device, unused)"],
    ),
    "tainted": (
        [
            claim("c", [request("r", 1, f'{MODEL} == "t"')]),
            resource_slice(
                "a", [device("t", {"model": "t"}, taints=[{"key": "bad", "effect": "NoSchedule"}])]
            ),
        ],
        [
            "tolerate the device taint bad:NoSchedule in request r of claim gpus",
            "drop claim gpus",
            f'drop the selector {MODEL} == "t" of request r of claim gpus',
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_changes_that_place_a_pod(case: str) -> None:
    others, expected = CASES[case]
    found = explained(*others)
    assert not found.feasible
    assert texts(found) == expected
    for change in found.changes:
        assert places(objects(*others), change) == change.feasible_nodes > 0, change.text


def random_request(random: Random, name: str) -> dict[str, Any]:
    selectors = [f'{MODEL} == "{random.choice("xyz")}"'] if random.random() < 0.3 else []
    of = random.choice(("gpu", "gpu", "gpu", "other", "wrong"))
    return request(name, random.choice((1, 1, 2, 3, 4)), *selectors, deviceClassName=of)


def random_devices(random: Random) -> list[Object]:
    """A claim, devices on node a besides those of `objects`, some with taints, and claims that have some."""
    taint = {"key": "bad", "effect": "NoSchedule"}
    pools = {"a": random.randint(0, 3), "b": 3, "c": 1}
    devices = [
        device(f"d{at}", {"model": random.choice("xyz")}, taints=[taint] if random.random() < 0.4 else [])
        for at in range(pools["a"])
    ]
    held = [
        holding(f"h-{node_name}{at}", f"d{at}", node=node_name)
        for node_name, number in pools.items()
        for at in range(number)
        if random.random() < 0.4
    ]
    requests = [random_request(random, f"r{at}") for at in range(random.choice((1, 1, 2)))]
    attribute = random.choice((f"{DRIVER}/model", f"{DRIVER}/none"))
    constraints = [{"matchAttribute": attribute}] if random.random() < 0.3 else []
    return [claim("c", requests, constraints), resource_slice("a", devices), *held]


def random_case(seed: int) -> Counter[str]:
    others = random_devices(Random(seed))
    found = explained(*others)
    for change in found.changes:
        assert places(objects(*others), change) == change.feasible_nodes > 0, change.text
    return Counter(change.kind for change in found.changes)


@settings(max_examples=1000 if NIGHTLY else 5 * SHARE)
@given(st.integers(0, 2**32))
def test_changes_that_place_a_pod_in_random_clusters(seed: int) -> None:
    random_case(seed)


@pytest.mark.nightly  # of the test above
def test_the_random_clusters_have_all_kinds_of_changes() -> None:
    found = sum(map(random_case, range(200)), Counter[str]())
    for kind in ("fewer-devices", "device-class", "tolerate-device", "add-node", "free-claim", "drop"):
        assert found[kind], kind


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_classes_with_enough_devices_are_tried(more: int) -> None:
    """A class whose devices are all in use does not count."""
    names = [f"b{at:02}" for at in range(device_rules.MOST_CLASSES - 2 + more)]  # beside gpu and other
    found = explained(
        claim("c", [request("r", 1, deviceClassName="wrong")]),
        device_class("a-used", f'{MODEL} == "u"'),
        *(device_class(name, f'{MODEL} == "x"') for name in names),
        resource_slice("a", [device("u0", {"model": "u"})]),
        holding("one", "u0", node="a"),
    )
    tried = {*[*names, "gpu", "other"][: device_rules.MOST_CLASSES]}
    assert {change.values["to"] for change in found.changes if change.kind == "device-class"} == tried


def test_a_class_whose_devices_break_a_constraint_is_not_tried() -> None:
    mixed = [f"a{at:02}" for at in range(device_rules.MOST_CLASSES)]
    found = explained(
        claim("c", [request("r", 2, deviceClassName="wrong")], [{"matchAttribute": f"{DRIVER}/model"}]),
        *(device_class(name, f'{MODEL} in ["u", "v"]') for name in mixed),
        resource_slice("a", [device("u0", {"model": "u"}), device("v0", {"model": "v"})]),
    )
    assert [change.values["to"] for change in found.changes if change.kind == "device-class"] == ["gpu"]


def test_one_of_two_constraints_is_dropped() -> None:
    """The other one stays in the changed claim."""
    keys = [f"{DRIVER}/none", f"{DRIVER}/model"]
    found = explained(claim("c", [request("r", 2)], [{"matchAttribute": key} for key in keys]))
    (change,) = [one for one in found.changes if one.text.startswith("drop the constraint")]
    (changed,) = [edit.change(None) for edit in change.edits]
    assert [one.match_attribute for one in changed.spec.devices.constraints] == keys[1:]


def test_a_selector_that_fails_is_told_by_its_error() -> None:
    """The rule itself would be that no device fulfils the selector."""
    found = explained(claim("c", [request("r", 1, f'device.attributes["{DRIVER}"].none == "z"')]))
    assert [rule for _, rule in device_rules.lacking_requests(found.claims[0], "b")] == ["no such key: none"]


def test_an_alternative_is_changed() -> None:
    kinds = [
        {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        for name, count in (("many", 8), ("four", 4))
    ]
    others = [claim("c", [{"name": "r", "firstAvailable": kinds}])]
    found = explained(*others)
    assert [each.request.full_name for each in found.claims[0].requests] == ["r/many", "r/four"]
    assert texts(found) == [
        "ask for 3 devices instead of 4 in request r/four of claim gpus",
        "ask for 3 devices instead of 8 in request r/many of claim gpus",
        "drop claim gpus",
    ]
    for change in found.changes:
        assert places(objects(*others), change) == change.feasible_nodes


def test_all_devices_are_too_many() -> None:
    others = [claim("c", [request("r", 0, allocationMode="All")]), holding("one", "d0", node="b")]
    used = holding("two", "d0", node="c")
    found = explained(*others, used)
    assert "ask for 2 devices instead of all in request r of claim gpus" in texts(found)


def test_blockers_of_each_node() -> None:
    found = explained(claim("c", [request("r", 3)]), holding("one", "d0", node="b"))
    blockers = {group.nodes[0]: [(one.name, one.detail) for one in group.evidence] for group in found.groups}
    (all_nodes,) = blockers.values()  # equal verdicts
    assert set(all_nodes) == {
        ("r of claim gpus", "0 of 3 devices published"),
        ("r of claim gpus", "2 of 3 devices free"),
        ("r of claim gpus", "1 of 3 devices published"),
    }


def test_a_claim_on_another_node_blocks() -> None:
    others, _ = CASES["allocated elsewhere"]
    (group,) = explained(*others).groups
    assert [one.text for one in group.evidence] == [f"claim default/c (has {DRIVER}/gone/d)"]


def test_an_invalid_pool_blocks() -> None:
    broken = resource_slice("a", [consuming("e0", 1)])
    found = explained(claim("c", [request("r", 5)]), broken)
    pools = [one for group in found.groups for one in group.evidence if one.kind == "pool"]
    assert [(one.name, one.nodes) for one in pools] == [(f"{DRIVER}/pool-a", 1)]
    assert pools[0].detail == (
        "ResourceSlice slice-pool-a: spec.devices[0].consumesCounters[0].counterSet: "
        'no counter set "set" in the pool'
    )
    missing = resource_slice("a", [device("e0")], count=2)
    found = explained(claim("c", [request("r", 5)]), missing)
    pools = [one for group in found.groups for one in group.evidence if one.kind == "pool"]
    assert [one.detail for one in pools] == ["slices are missing"]


def test_two_requests_that_compete() -> None:
    """Each alone has enough devices."""
    found = explained(claim("c", [request("r", 2), request("s", 2)]))
    texts_of_nodes = {one.text for group in found.groups for one in group.evidence}
    told = "claim default/c (each request alone finds enough devices; the search finds no set of them)"
    assert told in texts_of_nodes
    assert "ask for 1 device instead of 2 in request s of claim gpus" in texts(found)


def test_extended_resources_are_explained_as_requests_of_devices() -> None:
    wants = [pod("p", requests={"cpu": "1", EXTENDED: "5"})]
    found = explained(holding("one", "d0", node="b"), pods=wants)
    (one,) = found.claims
    assert (one.claim, one.use) == ("extended resources", "")
    (survey,) = one.requests
    assert one.request_text(survey) == f"request {EXTENDED} (container-0-request-1): 5 of class gpu"
    assert texts(found)[0] == f"lower the {EXTENDED} request of container c from 5 to 2"
    assert found.changes[0].feasible_nodes == 1
    cluster = objects(holding("one", "d0", node="b"), pods=wants)
    assert places(cluster, found.changes[0]) == 1


def test_a_bound_pod_is_explained_without_its_devices() -> None:
    """Its three devices are free, those of the other pod are not."""
    pods = [asking("p"), asking("q", "d")]
    others = [claim("c", [request("r", 3)]), claim("d", [request("r", 1, f'{MODEL} == "y"')])]
    one = Scheduler(objects(*others, pods=pods))
    assert one.run().placements == {"default/p": "b", "default/q": "c"}
    found = one.ask.explain("default/p")
    assert (found.bound_to, found.feasible) == ("b", ["b"])
    held = one.client.get(ResourceClaim, "c", "default").status
    assert held.allocation is not None
    assert [user.name for user in held.reserved_for] == ["p"]
    assert one.run().placements == {}


def test_a_bound_pod_with_extended_resources() -> None:
    one = Scheduler(objects(pods=[pod("p", requests={EXTENDED: "3"})]))
    assert one.run().placements == {"default/p": "b"}
    assert one.ask.explain("default/p").feasible == ["b"]


TEMPLATE = ResourceClaimTemplate(
    metadata=ObjectMeta(name="two", namespace="default"),
    spec=ResourceClaimTemplateSpec(spec=claim("x", [request("r", 2)]).spec),
)


def from_template(name: str) -> Pod:
    return pod(name, resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "two"}])


def test_a_pod_that_is_not_stored_gets_claims_of_its_templates() -> None:
    one = Scheduler(objects(TEMPLATE, pods=[]))
    found = one.ask.explain(from_template("new"))
    assert (found.feasible, found.skipped) == (["b"], "")
    assert one.client.list(ResourceClaim)[0] == []
    missing = Scheduler(objects(pods=[])).ask.explain(from_template("new"))
    assert missing.message == ('0/3 nodes are available: pod "default/new": ResourceClaim not created yet.')
    assert missing.skipped


def test_a_bound_pod_keeps_the_claims_of_its_templates() -> None:
    one = Scheduler(objects(TEMPLATE, pods=[from_template("p")]))
    assert one.run().placements == {"default/p": "b"}
    assert one.ask.explain("default/p").feasible == ["b"]


def test_an_explanation_changes_nothing() -> None:
    others = [claim("c", [request("r", 3)]), holding("one", "d0", node="b")]
    pods = [asking("p"), asking("q", "d")]
    one = Scheduler(objects(*others, claim("d", [request("r", 2)]), pods=pods))
    assert not one.ask.explain("default/p").feasible
    assert one.run().placements == {"default/q": "b"}


def test_pairs_with_a_change_of_devices() -> None:
    """The pod asks for too many devices and too much cpu."""
    big = asking("p", requests={"cpu": "5"})
    found = explained(claim("c", [request("r", 4)]), pods=[big])
    assert found.changes == []
    assert [pair.text for pair in found.pairs] == [
        "ask for 3 devices instead of 4 in request r of claim gpus, and "
        "lower the cpu request of container c from 5 to 4",
        "lower the cpu request of container c from 5 to 4, and drop claim gpus",
    ]


def test_the_document_has_the_claims() -> None:
    found = explained(claim("c", [request("r", 3)]), holding("one", "d0", node="b")).to_dict()
    (one,) = found["claims"]
    assert (one["claim"], one["use"], one["devices"]) == ("default/c", "gpus", [])
    (asked,) = one["requests"]
    assert (asked["name"], asked["class"], asked["count"]) == ("r", "gpu", 3)
    step = next(each for each in asked["steps"] if each["kind"] == "in-use")
    assert step == {
        "kind": "in-use",
        "text": "",
        "devices": 3,
        "mostOnANode": 2,
        "nodesWithEnough": 0,
        "error": "",
        "holders": [{"claim": "default/one", "users": ["pod-one"], "devices": 1}],
    }
    change = next(each for each in found["changes"] if each["kind"] == "fewer-devices")
    assert (change["claim"], change["request"], change["from"], change["to"]) == ("gpus", "r", "3", "2")


def test_the_claim_that_has_the_capacity_is_named() -> None:
    cluster = mo.load(ROOT / "tests/data/threads/40_dra_capacity.yaml")
    found = explain_in_turn(lambda: Scheduler(cluster), ["default/p2"])["default/p2"].to_dict()
    (asked,) = found["claims"][0]["requests"]
    step = next(each for each in asked["steps"] if each["kind"] == "capacity")
    assert (step["text"], step["devices"]) == ("bandwidth 6G", 0)
    assert step["holders"] == [{"claim": "default/c1", "users": ["p1"], "devices": 1}]
