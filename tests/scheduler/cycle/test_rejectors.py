"""Who rejected a pod: whose registrations decide which events bring it back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.make import pinned
from tests.framework.make import PENDING, UNRESOLVABLE, UNSCHEDULABLE, make, status
from tests.make import node, pod

from moorage import Scheduler, default_profile
from moorage.engine.framework import FilterPlugin, PermitPlugin, PreFilterPlugin, PreFilterResult
from moorage.engine.scheduler import Profile
from moorage.kube import Cluster, Taint

TAINT = Taint(key="k", effect="NoSchedule")


def rejectors(one: Any, *plugins: Any, nodes: Any = None) -> tuple[set[str], set[str]]:
    profile = Profile((*default_profile().plugins, *plugins))
    scheduler = Scheduler(
        Cluster(nodes=nodes if nodes is not None else [node("a"), node("b")]), profile=profile
    )
    scheduler.client.create(one)
    scheduler.run()
    info = scheduler.queue.get(one.metadata.uid)
    assert info is not None
    return set(info.unschedulable_plugins), set(info.pending_plugins)


def narrowing(name: str, *names: str) -> Any:
    return make(PreFilterPlugin, name, pre_filter=PreFilterResult(frozenset(names)))


@pytest.mark.parametrize(
    ("plugins", "found"),
    [
        ([], {"NodeResourcesFit", "TaintToleration"}),
        ([make(FilterPlugin, "X", filter=status(UNSCHEDULABLE))], {"NodeResourcesFit", "TaintToleration"}),
        ([make(PreFilterPlugin, "X", pre_filter=status(UNSCHEDULABLE))], {"X"}),
        ([make(PreFilterPlugin, "X", pre_filter=status(UNRESOLVABLE))], {"X"}),
        ([narrowing("X", "a")], {"TaintToleration", "X"}),
        ([narrowing("X", "a"), make(PreFilterPlugin, "Y", pre_filter=status(UNSCHEDULABLE))], {"X", "Y"}),
        ([narrowing("X", "a"), make(PreFilterPlugin, "Y", pre_filter=status(UNRESOLVABLE))], {"Y"}),
        ([narrowing("X", "a"), narrowing("Y", "b")], {"X", "Y"}),
    ],
)
def test_plugins_that_reject_a_pod_are_its_rejectors(plugins: list[Any], found: set[str]) -> None:
    nodes = [node("a", taints=[TAINT]), node("b", cpu="0")]
    assert rejectors(pod("p", requests={"cpu": "1"}), *plugins, nodes=nodes) == (found, set())


def test_a_pod_of_a_daemon_set_names_its_node() -> None:
    nodes = [node("a", taints=[TAINT]), node("b")]
    found = {"NodeAffinity", "TaintToleration"}
    assert rejectors(pod("p", affinity=pinned("a")), nodes=nodes) == (found, set())


def test_who_asks_to_wait_is_in_both() -> None:
    waits = make(FilterPlugin, "X", filter=status(PENDING))
    assert rejectors(pod("p"), waits) == ({"X"}, {"X"})


def test_a_plugin_that_does_not_permit_a_pod_is_its_rejector() -> None:
    assert rejectors(pod("p"), make(PermitPlugin, "X", permit=status(UNSCHEDULABLE))) == ({"X"}, set())


def test_nobody_rejects_where_there_are_no_nodes_or_errors() -> None:
    assert rejectors(pod("p"), nodes=[]) == (set(), set())
    assert rejectors(pod("p"), make(FilterPlugin, "X", filter=ValueError("x"))) == (set(), set())
    assert rejectors(pod("p"), make(PermitPlugin, "X", permit=ValueError("x"))) == (set(), set())
