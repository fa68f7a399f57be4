"""What a binding makes of a pod."""

from __future__ import annotations

from msgspec.structs import replace
from tests.doors.store import PodBinder

from moorage.kube import Condition, ObjectMeta, Pod, PodSpec, PodStatus

NOW = "2026-01-01T00:00:00Z"
SCHEDULED = Condition(type="PodScheduled", status="True", last_transition_time=NOW)


def test_pods_of_a_template_share_what_a_binding_makes_of_their_spec_and_status() -> None:
    bind, spec, status = PodBinder(NOW), PodSpec(priority=3), PodStatus(nominated_node_name="n1")
    pods = [Pod(metadata=ObjectMeta(name=name), spec=spec, status=status) for name in "abc"]
    a, b = bind(pods[0], "4", "n1"), bind(pods[1], "5", "n1")
    assert (a.name, a.metadata.resource_version, b.name, b.metadata.resource_version) == ("a", "4", "b", "5")
    assert a.spec is b.spec
    assert a.spec == PodSpec(priority=3, node_name="n1")
    assert a.status is b.status
    assert a.status == PodStatus(conditions=(SCHEDULED,))
    c = bind(pods[2], "6", "n2")
    assert (c.spec.node_name, c.status) == ("n2", a.status)
    other = replace(pods[0], spec=PodSpec(), status=PodStatus(phase="Pending"))
    d = bind(other, "7", "n2")
    assert d.spec == PodSpec(node_name="n2")
    assert d.status == PodStatus(phase="Pending", conditions=(SCHEDULED,))
    assert bind(pods[0], "8", "n2").spec == c.spec
