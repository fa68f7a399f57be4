"""ClusterState: an operation that fails changes nothing."""

from __future__ import annotations

import pytest
from tests.core.inside import dump
from tests.core.refusals import ADDED
from tests.doors.engine import ClusterState
from tests.make import node, pod

GPU = "example.com/gpu"


def state(*names: str) -> ClusterState:
    """A state with plain nodes."""
    one = ClusterState()
    for name in names:
        one.set_node(node(name))
    return one


def view(one: ClusterState) -> list[str]:
    one.view.refresh()
    return list(one.view.node_names())


def known() -> ClusterState:
    """Nodes a and b; on a an assumed pod and an added one."""
    one = state("a", "b")
    one.assume_pod(pod("assumed", on="a", requests={"cpu": 1}))
    one.add_pod(pod("added", on="a", requests={"cpu": 1}))
    return one


def test_a_node_with_a_bad_quantity_changes_nothing() -> None:
    one = known()
    before, head = dump(one), one.log.head
    for name in ("a", "c"):
        for resource in ("cpu", "memory", "pods", "ephemeral-storage", GPU):
            with pytest.raises(ValueError, match="quantit"):
                one.set_node(node(name, zone="z", images=[(["i:1"], 1)], **{resource: "1K"}))
            assert dump(one, before) == before
    assert one.log.head == head
    assert view(one) == ["a", "b"]


@pytest.mark.parametrize("resource", ["cpu", "memory", GPU])
@pytest.mark.parametrize(
    ("operation", "name", "on"),
    [("assume_pod", "new", "elsewhere"), ("add_pod", "assumed", "elsewhere"), ("update_pod", "added", "a")],
)
def test_a_pod_with_a_bad_quantity_changes_nothing(operation: str, name: str, on: str, resource: str) -> None:
    one = known()
    before, head = dump(one), one.log.head
    bad = pod(name, on=on, requests={resource: " 1"})
    with pytest.raises(ValueError, match="quantit"):
        getattr(one, operation)(*([ADDED] if operation == "update_pod" else []), bad)
    assert dump(one, before) == before
    assert one.log.head == head
    assert one.table.find_row("elsewhere") is None
