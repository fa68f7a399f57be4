"""Filters where no vector asks: features that nodes declare, and a shortage that eviction may end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.make import declaring
from tests.make import node, pod, scheduler

from moorage import default_profile
from moorage.engine.framework import Code
from moorage.engine.scheduler import Profile
from moorage.kube import Node, Pod
from moorage.kube.releases import dependents_off

UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
LACKS = "node(s) didn't match Pod's required features"


def rejection(asked: Pod, there: Node, **settings: Any) -> tuple[str, Code, tuple[str, ...]] | None:
    """(plugin, code, reasons) with which a node rejects a pod; None where it fits."""
    statuses = scheduler(there, **settings).examine(asked).rejected.values()
    return next(((status.plugin, status.code, status.reasons) for status in statuses), None)


def needing(*features: str, init: bool = False, **spec: Any) -> Pod:
    """A pod that needs features of its node."""
    rules = [{"action": "Restart"}, *([{"action": "RestartAllContainers"}] if RESTART in features else [])]
    ruled = {"restartPolicyRules": rules, "resources": {"requests": spec.pop("requests", {})}}
    inits = [{"name": "i"} | ruled] if init else []
    users = {"hostNetwork": True, "hostUsers": False} if USERS in features else {}
    plain = [{"name": "c"} | ({} if init else ruled)]
    return pod("p", containers=plain, initContainers=inits, **users, **spec)


@pytest.mark.parametrize(
    ("needs", "declares", "fits"),
    [
        ((), (), True),
        ((USERS,), (RESTART,), False),
        ((USERS,), (RESTART, USERS), True),
        ((RESTART,), ("GuaranteedQoSPodCPUResize",), False),
        ((RESTART,), (RESTART,), True),
        ((RESTART, USERS), (RESTART,), False),
        ((RESTART, USERS), ("A", RESTART, USERS), True),
    ],
)
@pytest.mark.parametrize("init", [False, True])
def test_node_declared_features(needs: Any, declares: Any, fits: bool, init: bool) -> None:
    found = rejection(needing(*needs, init=init), declaring(node(), *declares))
    assert found == (None if fits else ("NodeDeclaredFeatures", UNRESOLVABLE, (LACKS,)))


@pytest.mark.parametrize("settings", [{"hostNetwork": True}, {"hostUsers": False}, {"hostUsers": True}])
def test_pods_that_need_no_declared_feature(settings: dict[str, bool]) -> None:
    assert rejection(pod(**settings), node()) is None


def test_declared_features_do_not_count_without_the_gate() -> None:
    gates = {"NodeDeclaredFeatures": False}
    assert rejection(needing(USERS), node(), feature_gates=gates | dependents_off(gates)) is None


def test_a_pod_waits_until_a_node_declares_its_features() -> None:
    one = scheduler(node("a"), declaring(node("b"), RESTART), needing(USERS))
    failure = one.run().unschedulable["default/p"]
    assert failure.message.startswith(f"0/2 nodes are available: 2 {LACKS}.")
    one.client.update(declaring(node("a"), USERS))
    assert one.run().placements == {"default/p": "a"}


def test_nobody_is_evicted_where_the_node_lacks_a_feature() -> None:
    """Resources come first among the filters, so preemption tries such a node."""
    there = [pod(f"low-{on}", on=on, requests={"cpu": "4"}, priority=-1) for on in "ab"]
    urgent = needing(USERS, requests={"cpu": "4"}, priority=5)
    result = scheduler(node("a"), declaring(node("b"), USERS), there, urgent).run()
    assert (list(result.evicted), result.placements) == (["default/low-b"], {"default/p": "b"})


def test_before_1_34_no_shortage_was_unresolvable() -> None:
    profile = Profile(default_profile().plugins, fit_unresolvable=False)
    found = rejection(pod("p", requests={"cpu": 5}), node("a"), profile=profile)
    assert found == ("NodeResourcesFit", Code.UNSCHEDULABLE, ("Insufficient cpu",))
