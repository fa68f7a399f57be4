"""DeviceTaintRules taint devices, and changes of them wake the pods that wait for devices."""

from __future__ import annotations

from typing import Any

import pytest
from tests.devices.make import DRIVER, claim, request
from tests.make import make, pod
from tests.plugins.test_dynamic_resources import cluster

from moorage import Scheduler
from moorage.kube import DeviceTaintRule

TOLERATES = {"tolerations": [{"key": "broken", "operator": "Exists"}]}
ON = {"DRADeviceTaintRules": True}


def rule(selector: dict[str, str] | None, effect: str = "NoSchedule", name: str = "rule") -> Any:
    spec: dict[str, Any] = {"taint": {"key": "broken", "effect": effect}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return make("DeviceTaintRule", name, spec)


def scheduler(*rules: DeviceTaintRule, version: str = "1.37", **asked: Any) -> Scheduler:
    """One pod with a claim; nodes b and c have a device each, d0 of pool-b and of pool-c."""
    made = cluster([pod("p", claims=["c"])], claim("c", [request(**asked)]), *rules)
    return Scheduler(made, kubernetes_version=version, feature_gates={} if version == "1.37" else ON)


def node_of(one: Scheduler) -> str | None:
    return one.run().placements.get("default/p")


@pytest.mark.parametrize(
    ("selector", "node"),
    [
        ({"pool": "pool-b"}, "c"),
        ({"driver": DRIVER, "pool": "pool-c", "device": "d0"}, "b"),
        ({"driver": DRIVER}, None),
        ({"device": "d0"}, None),
        ({}, None),
        *(
            (nothing, "b")
            for nothing in ({"driver": "other"}, {"pool": "b"}, {"pool": "pool-b", "device": "d1"})
        ),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector: dict[str, str], node: str | None) -> None:
    others = [rule({"pool": "pool-c"}, name="other")] if node == "b" else []
    assert node_of(scheduler(rule(selector), *others)) == node


def test_requests_tolerate_the_taints_of_rules() -> None:
    assert node_of(scheduler(rule({}), **TOLERATES)) in ("b", "c")
    assert node_of(scheduler(rule({}), rule({}, "NoExecute", "other"), **TOLERATES)) in ("b", "c")
    assert node_of(scheduler(rule({}, "None"))) in ("b", "c")


@pytest.mark.parametrize(("version", "taints"), [("1.35", True), ("1.36", True), ("1.37", False)])
def test_a_rule_without_a_selector(version: str, taints: bool) -> None:
    made = cluster([pod("p", claims=["c"])], claim("c", [request()]), rule(None))
    gates = {} if version == "1.37" else ON | {"DRADeviceTaints": True}
    one = Scheduler(made, kubernetes_version=version, feature_gates=gates)
    assert (node_of(one) is None) is taints


@pytest.mark.parametrize(
    ("version", "gates", "taints"),
    [
        ("1.34", {}, False),
        ("1.34", {"DRADeviceTaints": True}, True),
        ("1.35", {"DRADeviceTaints": True}, False),
        ("1.36", {}, False),
        ("1.36", ON, True),
        ("1.37", {}, True),
        ("1.37", {"DRADeviceTaintRules": False}, False),
    ],
)
def test_the_gate_of_each_release(version: str, gates: dict[str, bool], taints: bool) -> None:
    made = cluster([pod("p", claims=["c"])], claim("c", [request()]), rule({}))
    one = Scheduler(made, kubernetes_version=version, feature_gates=gates)
    assert (node_of(one) is None) is taints


def test_a_pod_that_waits_for_a_device_is_tried_when_the_rule_goes() -> None:
    one = scheduler(rule({}))
    assert node_of(one) is None
    one.client.delete(DeviceTaintRule, "rule")
    assert node_of(one) in ("b", "c")


def waiting(one: Scheduler) -> int:
    one.sync()
    return len(one.queue.pending_pods().unschedulable)


def test_a_change_of_a_rule_wakes_if_it_changes_the_taints_of_devices() -> None:
    one = scheduler(rule({}))
    assert node_of(one) is None
    one.client.update(rule({"driver": DRIVER}))
    assert waiting(one) == 1, "the same devices have the same taint"
    one.client.create(rule({"pool": "nobody"}, name="other"))
    assert waiting(one) == 1
    one.client.update(rule({"pool": "pool-b"}))
    assert waiting(one) == 0
    assert node_of(one) == "c"


def test_hints_get_the_slices_whose_devices_have_other_taints() -> None:
    one = scheduler(rule({"pool": "pool-b"}), rule({}, name="other"))
    assert node_of(one) is None
    seen = list[tuple[Any, Any]]()
    one.queue.move_all = (  # type: ignore[method-assign]
        lambda event, changes: seen.extend((change.old, change.new) for change in changes)
    )
    one.client.update(rule({"pool": "pool-c"}))
    one.sync()
    taints = [
        (old.spec.pool.name, *(len(each.spec.devices[0].taints) for each in (old, new))) for old, new in seen
    ]
    assert taints == [("pool-b", 2, 1), ("pool-c", 1, 2)]


def test_an_explanation_counts_the_taints_of_rules() -> None:
    one = scheduler(rule({}))
    one.run()
    (found,) = one.ask.explain("default/p").claims
    left = {step.kind: step.devices for step in found.requests[0].steps}
    assert (left["published"], left["taint"]) == (2, 0)
