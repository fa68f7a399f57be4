"""Pods with the names of their nodes, made when they are read."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.engine import BoundPods, held_of, nodes_of, not_terminating, selected
from tests.make import pod

from moorage.kube import Pod
from moorage.store import WatchEvent


class Maker:
    """Counts the pods that are made."""

    made = 0

    def __call__(self, before: Pod, version: str, argument: object) -> Pod:
        self.made += 1
        return replace(before, metadata=replace(before.metadata, resource_version=version))


def test_pods_are_made_when_they_are_read() -> None:
    maker = Maker()
    held = WatchEvent.deferred("MODIFIED", pod("a"), 7, maker)
    pods = BoundPods([held, pod("b")], ["n0", "n1"])
    assert (len(pods), nodes_of(pods), held_of(pods)[0]) == (2, ["n0", "n1"], held)
    assert [nodes_of(not_terminating(pods)), nodes_of(selected(pods, [True, False])), maker.made] == [
        ["n0", "n1"],
        ["n0"],
        0,
    ]
    assert [(one.name, one.spec.node_name, one.metadata.resource_version) for one in pods] == [
        ("a", "n0", "7"),
        ("b", "n1", ""),
    ]
    assert maker.made == 1


def test_they_are_a_sequence() -> None:
    pods = BoundPods([pod("a"), pod("b"), pod("c")], ["n", "n", "m"])
    assert [one.name for one in pods[1:]] == ["b", "c"]
    assert pods == list(pods)
    assert pods != [pod("a")]
    with pytest.raises(IndexError):
        pods[3]
    with pytest.raises(ValueError, match="each pod has one node"):
        BoundPods([pod("a")], [])


def test_they_are_shown_with_their_nodes() -> None:
    pods = BoundPods([pod("a")], ["n"])
    assert repr(pods) == f"BoundPods([{pods[0]!r}])"
    assert pods[0].spec.node_name == "n"


def test_terminating_pods_are_left_out() -> None:
    ending = pod("a")
    ending = replace(ending, metadata=replace(ending.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    both = [replace(one, spec=replace(one.spec, node_name="n")) for one in (ending, pod("b"))]
    assert nodes_of(not_terminating(BoundPods([ending, pod("b")], ["n", "m"]))) == ["m"]
    assert not_terminating(both) == both[1:]
    assert held_of(both) is both
    assert nodes_of(both) == ["n", "n"]
