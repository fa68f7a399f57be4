"""Native plugins asked about single nodes: they say what the search says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.make import pinned
from tests.framework.make import UNSCHEDULABLE, make, said, status
from tests.make import node, pod
from tests.scheduler.make import scheduler_with

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.cache import NodeInfo
from moorage.engine.framework import NominatingInfo
from moorage.errors import MoorageError
from moorage.kube import Pod, Taint

NODES = [
    node("a", cpu=1),
    node("b", taints=[Taint(key="t", effect="NoSchedule")]),
    node("c", unschedulable=True),
    node("d", cpu=8),
]


def info(one: Scheduler, name: str) -> NodeInfo:
    found = one.cache.node_info(name)
    assert found is not None
    return found


def framework(one: Scheduler) -> Any:
    return one.engines["default-scheduler"].framework


def test_filters_say_what_the_search_says() -> None:
    one = scheduler_with(nodes=NODES)
    asked, seen = pod("p", requests={"cpu": 2, "example.com/x": 1}), {}
    state = framework(one).new_state(asked)
    framework(one).run_pre_filter_plugins(state, asked)
    for name in "abcd":
        answer = framework(one).run_filter_plugins(state, asked, info(one, name))
        if answer is not None:
            seen[name] = answer
    assert seen == one.examine(asked).rejected
    assert seen.keys() == set("abcd")


def test_scores_say_what_the_search_says() -> None:
    one = scheduler_with(nodes=[node("a"), node("b", cpu=8)])
    asked = pod("p", requests={"cpu": 1, "memory": "1Gi"})
    state, seen = framework(one).new_state(asked), one.examine(asked)
    for plugin, _ in framework(one).profile.scorers:
        if plugin.name in seen.raw:
            assert [plugin.score(state, asked, info(one, n)) for n in "ab"] == seen.raw[plugin.name].tolist()
    records, failed = framework(one).run_score_plugins(state, asked, framework(one).all_nodes())
    assert failed is None
    assert [dict(record.scores)["NodeResourcesFit"] for record in records] == seen.raw[
        "NodeResourcesFit"
    ].tolist()


def test_a_clone_is_judged_by_its_own_pods() -> None:
    one = scheduler_with(nodes=[node("a", cpu=2)], pods=[pod("there", on="a", requests={"cpu": 1})])
    asked = pod("p", requests={"cpu": 1})
    state, head = framework(one).new_state(asked), one.table.requested["cpu"].tolist()
    plugin = next(p for p in framework(one).profile.filters if p.name == "NodeResourcesFit")
    clone = info(one, "a").clone()
    assert plugin.filter(state, asked, clone) is None
    clone.add_pod(pod("more", requests={"cpu": 1}))
    assert said(plugin.filter(state, asked, clone)) == (UNSCHEDULABLE, "Insufficient cpu", "NodeResourcesFit")
    clone.remove_pod(pod("there", on="a", requests={"cpu": 1}))
    assert plugin.filter(state, asked, clone) is None
    assert one.table.requested["cpu"].tolist() == head
    assert not one.cache.state.has_pod(pod("more"))


def test_nominated_pods_count_for_native_filters() -> None:
    one = scheduler_with(nodes=[node("a", cpu=2)])
    asked = pod("p", requests={"cpu": 2})
    state = framework(one).new_state(asked)
    framework(one).run_pre_filter_plugins(state, asked)
    waiting = pod("n", requests={"cpu": 1}, priority=9)
    handle = framework(one).handle
    handle.nominator.is_current = lambda pod: True
    handle.nominator.add_nominated_pod(waiting, NominatingInfo("a"))
    answer = framework(one).run_filter_plugins_with_nominated_pods(state, asked, info(one, "a"))
    assert said(answer) == (UNSCHEDULABLE, "Insufficient cpu", "NodeResourcesFit")
    handle.nominator.delete_nominated_pod_if_exists(waiting)
    assert framework(one).run_filter_plugins_with_nominated_pods(state, asked, info(one, "a")) is None


def test_a_plugin_may_ask_kernels_during_the_search_but_not_about_clones() -> None:
    answers: list[Any] = []

    def filter(self: Any, state: Any, pod: Pod, node_info: Any) -> Any:
        fit = next(p for p in self.handle.framework.profile.filters if p.name == "NodeResourcesFit")
        answers.append(fit.filter(state, pod, node_info))
        try:
            fit.filter(state, pod, node_info.clone())
        except MoorageError as error:
            answers.append(str(error))
        return status(UNSCHEDULABLE, "no") if node_info.name == "a" else None

    one = scheduler_with(
        make(mo.FilterPlugin, "Asks", filter=filter), nodes=[node("a"), node("b")], pods=[pod("p")]
    )
    assert one.run().placements == {"default/p": "b"}
    text = "a clone of a NodeInfo cannot be judged by native plugins during a search"
    assert answers == [None, text] * 2


def test_nodes_that_cannot_be_judged() -> None:
    one = scheduler_with(nodes=[node("a"), node("b")])
    asked = pod("p", affinity=pinned("a"))
    state = framework(one).new_state(asked)
    fit = next(p for p in framework(one).profile.filters if p.name == "NodeResourcesFit")
    gone = info(one, "b").clone()
    one.cache.remove_node(node("b"))
    with pytest.raises(MoorageError, match=r"^node b is not in the cache$"):
        fit.filter(state, asked, gone)


def test_a_native_plugin_without_a_scheduler_says_so() -> None:
    plugin = next(p for p in default_profile().plugins if p.name == "NodeName")
    with pytest.raises(RuntimeError, match=r'^plugin "NodeName" is not part of a scheduler$'):
        plugin.filter(None, pod("p"), None)  # type: ignore[attr-defined]
