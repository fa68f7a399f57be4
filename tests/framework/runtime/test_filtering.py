"""PreFilter, Filter and PostFilter: control flow and texts of kube-scheduler v1.36's runtime."""

from __future__ import annotations

from typing import Any

import pytest
from tests.framework.make import (
    ERROR,
    PENDING,
    SKIPPED,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    framework,
    make,
    said,
    status,
)
from tests.make import node, pod

from moorage.engine.framework import (
    CycleState,
    FilterPlugin,
    NominatingInfo,
    PostFilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreFilterRun,
    Status,
)
from moorage.errors import PluginError
from moorage.kube import Pod


def pre_filter(name: str, answer: Any, **more: Any) -> Any:
    return make(PreFilterPlugin, name, pre_filter=answer, **more)


def filters(name: str, answer: Any) -> Any:
    return make(FilterPlugin, name, filter=answer)


def names(*of: str) -> PreFilterResult:
    return PreFilterResult(frozenset(of))


def run(*plugins: Any) -> tuple[PreFilterRun, CycleState]:
    one, state = framework(*plugins), CycleState()
    return one.run_pre_filter_plugins(state, pod("p")), state


# ---- PreFilter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["a", 5, ["a"], {1}])
def test_node_names_of_another_type(names: Any) -> None:
    with pytest.raises(TypeError, match="the node_names of a PreFilterResult are a frozenset of str"):
        PreFilterResult(names)


def test_narrowed_nodes_intersect() -> None:
    ran, _ = run(pre_filter("Y", names("a", "b")), pre_filter("N", None), pre_filter("X", names("b", "c")))
    assert (ran.node_names, ran.plugins) == ({"b"}, ("X", "Y"))
    assert said(ran.absent) == (UNRESOLVABLE, "node(s) didn't satisfy plugin(s) [X Y]", "")


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ((names(),), "node(s) didn't satisfy plugin P0"),
        ((names("a"), names("b")), "node(s) didn't satisfy plugin(s) [P0 P1] simultaneously"),
    ],
)
def test_nothing_left_is_a_rejection_without_a_plugin(
    results: tuple[PreFilterResult, ...], text: str
) -> None:
    ran, _ = run(*(pre_filter(f"P{at}", result) for at, result in enumerate(results)))
    assert said(ran.rejection) == (UNRESOLVABLE, text, "")


def test_code_3_stops_at_once() -> None:
    ran, state = run(
        pre_filter("A", status(SKIPPED)),
        pre_filter("B", status(UNRESOLVABLE, "no")),
        pre_filter("C", AssertionError("not reached")),
    )
    assert said(ran.rejection) == (UNRESOLVABLE, "no", "B")
    assert ran.skipped == state.skip_filter_plugins == {"A"}


def test_after_code_2_the_others_run_and_the_last_one_stands() -> None:
    ran, state = run(
        pre_filter("A", status(UNSCHEDULABLE, "one")),
        pre_filter("B", status(UNSCHEDULABLE, "two")),
        pre_filter("C", status(SKIPPED)),
    )
    assert said(ran.rejection) == (UNSCHEDULABLE, "two", "B")
    assert state.skip_filter_plugins == {"C"}


# ---- Filter ------------------------------------------------------------------------------------------------


def filtered(*plugins: Any, **settings: Any) -> Status | None:
    one = framework(*plugins, **settings)
    return one.run_filter_plugins(CycleState(), pod("p"), one.all_nodes().node_info(0))


def test_what_a_plugin_raised_is_the_cause() -> None:
    boom = ValueError("boom")
    answer = filtered(filters("P", boom))
    assert answer is not None
    err = answer.err
    assert isinstance(err, PluginError)
    assert err.__cause__ is not None
    assert err.__cause__.__cause__ is boom


def test_the_vectorised_form_serves_single_nodes() -> None:
    def filter_all(self: Any, state: Any, pod: Pod, nodes: Any) -> Any:
        return nodes.allocatable["cpu"] - nodes.requested["cpu"] >= 2000

    plugin = make(FilterPlugin, "Free", filter_all=filter_all)
    big, small = node("big", cpu=2), node("small", cpu=1)
    one = framework(plugin, nodes=[big, small])
    infos = list(one.all_nodes())
    assert one.run_filter_plugins(CycleState(), pod("p"), infos[0]) is None
    answer = one.run_filter_plugins(CycleState(), pod("p"), infos[1])
    assert said(answer) == (UNSCHEDULABLE, "node(s) didn't satisfy plugin Free", "Free")
    clone = infos[0].clone()
    clone.add_pod(pod("q", on="big", requests={"cpu": 1}))
    assert said(one.run_filter_plugins(CycleState(), pod("p"), clone)) == said(answer)


# ---- pods that come and go in thought ----------------------------------------------------------------------


class Extensions:
    """Notes AddPod and RemovePod, and answers as told."""

    def __init__(self, answer: Status | None = None) -> None:
        self.answer = answer
        self.seen: list[tuple[str, str, str]] = []

    def add_pod(self, state: CycleState, pod: Pod, pod_to_add: Pod, node_info: Any) -> Status | None:
        self.seen.append(("add", pod_to_add.name, node_info.name))
        return self.answer

    def remove_pod(self, state: CycleState, pod: Pod, pod_to_remove: Pod, node_info: Any) -> Status | None:
        self.seen.append(("remove", pod_to_remove.name, node_info.name))
        return self.answer


def extended(name: str, extensions: Extensions) -> Any:
    return pre_filter(name, None, pre_filter_extensions=extensions)


def test_extensions_are_told_of_pods() -> None:
    kept, skipped = Extensions(), Extensions()
    one = framework(extended("A", kept), extended("S", skipped), pre_filter("N", None))
    state, info = CycleState(), one.all_nodes().node_info(0)
    state.skip_filter_plugins = {"S"}
    assert one.run_pre_filter_extension_add_pod(state, pod("p"), pod("q"), info) is None
    assert one.run_pre_filter_extension_remove_pod(state, pod("p"), pod("q"), info) is None
    assert kept.seen == [("add", "q", "a"), ("remove", "q", "a")]
    assert skipped.seen == []


class Crowd:
    """Filter that rejects nodes with more than so many pods, and notes how many it saw."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.seen: list[int] = []

    def __call__(self, plugin: Any, state: CycleState, pod: Pod, node_info: Any) -> Status | None:
        self.seen.append(len(node_info.pods))
        return status(UNSCHEDULABLE, "crowded") if len(node_info.pods) > self.most else None


def crowded(most: int, *nominated: Pod, extensions: Extensions | None = None) -> tuple[Any, list[int]]:
    crowd = Crowd(most)
    plugin = make(FilterPlugin, "Crowd", filter=lambda self, *rest: crowd(self, *rest))
    one = framework(plugin, *([extended("E", extensions)] if extensions else []))
    for other in nominated:
        one.handle.nominator.add_nominated_pod(other, NominatingInfo("a"))
    info = one.all_nodes().node_info(0)
    return one.run_filter_plugins_with_nominated_pods(CycleState(), pod("p", priority=5), info), crowd.seen


def test_nominated_pods_of_at_least_this_priority_are_there_first() -> None:
    extensions = Extensions()
    answer, seen = crowded(
        2,
        pod("equal", priority=5),
        pod("higher", priority=6),
        pod("lower", priority=4),
        pod("p", priority=9),  # itself
        extensions=extensions,
    )
    assert answer is None
    assert seen == [2, 0]  # with them, then without
    assert extensions.seen == [("add", "equal", "a"), ("add", "higher", "a")]


def test_the_second_pass_is_left_out_where_the_first_fails_or_nobody_is_nominated() -> None:
    answer, seen = crowded(0, pod("equal", priority=5))
    assert (said(answer), seen) == ((UNSCHEDULABLE, "crowded", "Crowd"), [1])
    assert crowded(0, pod("lower", priority=4)) == (None, [0])


def test_an_extension_that_fails_for_a_nominated_pod_ends_it() -> None:
    answer, seen = crowded(9, pod("equal", priority=5), extensions=Extensions(status(ERROR, "no")))
    assert said(answer) == (ERROR, 'running AddPod on PreFilter plugin "E": no', "")
    assert seen == []


# ---- PostFilter --------------------------------------------------------------------------------------------


def post(name: str, result: NominatingInfo | None, answer: Status | None) -> Any:
    return make(PostFilterPlugin, name, post_filter=lambda self, *rest: (result, answer))


def post_filter(*plugins: Any) -> tuple[NominatingInfo | None, Status | None]:
    return framework(*plugins).run_post_filter_plugins(CycleState(), pod("p"), {})


NODE, NOOP = NominatingInfo("n"), NominatingInfo(noop=True)
UNREACHED = make(PostFilterPlugin, "Unreached", post_filter=AssertionError("not reached"))


def test_code_3_ends_it() -> None:
    result, answer = post_filter(post("A", NODE, status(UNRESOLVABLE, "never")), UNREACHED)
    assert (result, said(answer)) == (NODE, (UNRESOLVABLE, "never", "A"))


def test_rejections_are_gathered() -> None:
    result, answer = post_filter(
        post("A", NODE, status(UNSCHEDULABLE, "one", "two")),
        post("B", NOOP, status(PENDING, "three")),
        post("C", None, status(UNSCHEDULABLE)),
    )
    assert result == NODE  # the last that does something
    assert said(answer) == (UNSCHEDULABLE, "one, two, three", "A")


def test_a_plugin_may_have_all_post_filters_skipped() -> None:
    state = CycleState()
    state.skip_all_post_filter_plugins = True
    result, answer = framework(UNREACHED).run_post_filter_plugins(state, pod("p"), {})
    assert (result, said(answer)) == (None, (UNSCHEDULABLE, "All PostFilter plugins are skipped", ""))
