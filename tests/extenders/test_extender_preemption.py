"""HTTPExtender in preemption: victims go out whole or by UID, and come back by UID."""

from __future__ import annotations

from typing import Any

import pytest
from tests.extenders.extender_server import ExtenderServer
from tests.extenders.test_http_extender import NODES, POD, P, extender, failure
from tests.make import pod

from moorage.engine.cache import SchedulerCache
from moorage.engine.framework import Victims


def cluster() -> SchedulerCache:
    cache = SchedulerCache()
    for one in NODES:
        cache.add_node(one)
    for name, on in (("v", "a"), ("w", "a"), ("x", "b")):
        cache.add_pod(pod(name, on))
    return cache


OFFERED = {"b": Victims((pod("x", "b"),)), "a": Victims((pod("v", "a"),), 1)}


def test_victims_are_offered_whole() -> None:
    cache = cluster()
    with ExtenderServer(preempt={"NodeNameToMetaVictims": {}}) as server:
        assert extender(server.url, cache.node_info).process_preemption(P, OFFERED) == {}
    (request,) = server.requests
    victims = request.message["NodeNameToVictims"]
    assert request.message == {"Pod": POD, "NodeNameToVictims": victims, "NodeNameToMetaVictims": None}
    assert list(victims) == ["a", "b"]
    assert {name: one["NumPDBViolations"] for name, one in victims.items()} == {"a": 1, "b": 0}
    assert victims["a"]["Pods"][0]["metadata"] == {"name": "v", "namespace": "default", "uid": "v"}


def test_victims_are_offered_and_answered_by_uid() -> None:
    cache = cluster()
    answer = {"b": {"Pods": None}, "a": {"pods": [{"UID": "w"}, {"uid": "v"}], "NumPDBViolations": 2}}
    with ExtenderServer(preempt={"NodeNameToMetaVictims": answer}) as server:
        one = extender(server.url, cache.node_info, nodeCacheCapable=True)
        left = one.process_preemption(P, OFFERED)
    assert list(left) == ["a", "b"]
    assert [(v.metadata.uid, v.spec.node_name) for v in left["a"].pods] == [("w", "a"), ("v", "a")]
    assert (left["a"].num_pdb_violations, left["b"]) == (2, Victims(()))
    offered = {
        "a": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1},
        "b": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0},
    }
    expected = {"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": offered}
    assert server.requests[0].message == expected


def test_victims_on_other_nodes_come_back_too() -> None:
    """Of a group that is evicted whole; others of that node do not."""
    offered = {"a": Victims((pod("v", "a"), pod("x", "b")))}
    answer = {"a": {"Pods": [{"UID": "x"}, {"UID": "v"}]}}
    with ExtenderServer(preempt={"NodeNameToMetaVictims": answer}) as server:
        left = extender(server.url, cluster().node_info).process_preemption(P, offered)
    assert [(v.metadata.uid, v.spec.node_name) for v in left["a"].pods] == [("x", "b"), ("v", "a")]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"z": {}}, 'nodeinfo not found for node name "z"'),
        (
            {"a": {"Pods": [{"UID": "x"}]}},
            "extender: {url} claims to preempt pod (UID: &{x}) on node: a, but the pod is not found on that "
            "node",
        ),
    ],
)
def test_victims_that_an_extender_makes_up_are_an_error(answer: Any, text: str) -> None:
    with ExtenderServer(preempt={"NodeNameToMetaVictims": answer}) as server:
        one = extender(server.url, cluster().node_info)
        assert failure(one.process_preemption, P, OFFERED) == text.replace("{url}", server.url)
