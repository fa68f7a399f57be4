"""PreemptHandle of v1.19 and v1.20: the nominator, the plugins about a node as it might be, extenders."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cache.threads import running
from tests.doors.compat import preempt_handle
from tests.doors.engine import schedule_one
from tests.framework.make import ERROR, UNRESOLVABLE, UNSCHEDULABLE, WAIT, make, said, status
from tests.make import node, pod, port
from tests.preemption.world import full, handle, preemptor, victim
from tests.scheduler.make import scheduler_with

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.compat import PluginsRunner, PreemptHandle
from moorage.engine.framework import Code, CycleState, FrameworkHandle, Status
from moorage.engine.scheduler import Profile
from moorage.errors import MoorageError
from moorage.kube import Pod, Taint

NODES = [node("a"), node("b", cpu=8)]


def of(one: Scheduler) -> PreemptHandle:
    return PreemptHandle(handle(one))


def state_of(one: Scheduler, asked: Pod) -> CycleState:
    framework = one.engines["default-scheduler"].framework
    state = framework.new_state(asked)
    framework.run_pre_filter_plugins(state, asked)
    return state


def info(one: Scheduler, name: str) -> Any:
    return one.cache.node_info(name)


def names(its: Any, node_name: str) -> list[str]:
    return [one.name for one in its.nominated_pods_for_node(node_name)]


# ---- the handle --------------------------------------------------------------------------------------------


def test_a_handle_whose_plugins_are_still_made_says_so() -> None:
    bare = PreemptHandle(FrameworkHandle(full().cache, full().client))
    with pytest.raises(MoorageError, match=r"^the framework of this handle is not complete$"):
        bare.run_filter_plugins(CycleState(), preemptor(), info(full(), "a"))


def test_extenders_are_those_of_the_handle_in_order() -> None:
    one = full()
    assert list(of(one).extenders()) == []
    handle(one).extenders = two = [object(), object()]  # type: ignore[assignment, list-item]
    assert list(of(one).extenders()) == two


# ---- PodNominator ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "on_a", "on_b"),
    [
        ("add p/a b, add q/b -", "", "p q"),  # the given node, or that of the status
        ("add p a, add q a, add p b", "q", "p"),  # a pod is nominated to one node
        ("add p a, add p -", "", ""),  # without any node an earlier nomination ends
        ("add p a, delete p", "", ""),
        ("add p a, delete p, delete p", "", ""),
        ("add p a, add q a, update p p", "q p", ""),  # no status tells of it: it stays, at the end
        ("add p a, update p p/b", "", "p"),  # else the new status decides
        ("add p a, update p/a p/b", "", "p"),
        ("add p a, update p/a p", "", ""),
        ("add p a, update p/a p/a", "p", ""),
        ("add p a, update p/b p", "", ""),
        ("update p p", "", ""),
        ("update p p/a", "p", ""),
    ],
)
def test_nominations(steps: str, on_a: str, on_b: str) -> None:
    """``p/a`` is a pod whose status says node a. Nobody asks whether the pod is there."""
    its = of(full())
    for step in steps.split(", "):
        verb, name, *rest = step.split()
        one, other = (pod(each[0], nominated=each[2:]) for each in (name, *rest, "-")[:2])
        if verb == "add":
            its.add_nominated_pod(one, rest[0].strip("-"))
        elif verb == "update":
            its.update_nominated_pod(one, other)
        else:
            its.delete_nominated_pod_if_exists(one)
    assert (names(its, "a"), names(its, "b")) == (on_a.split(), on_b.split())


def test_the_pod_of_an_update_is_the_nominated_one() -> None:
    its, new = of(full()), pod("p", labels={"new": ""})
    its.add_nominated_pod(pod("p"), "a")
    its.update_nominated_pod(pod("p"), new)
    assert its.nominated_pods_for_node("a")[0] is new
    assert its.nominated_pods_for_node("none") == []


def test_it_is_the_nominator_of_the_scheduler() -> None:
    one = full(pod("n", requests={"cpu": 3}, priority=9))
    of(one).add_nominated_pod(one.pods.pending["default/n"], "a")
    assert names(one.handle.nominator, "a") == ["n"]
    assert one.examine(pod("q", requests={"cpu": 2})).feasible == []
    of(one).delete_nominated_pod_if_exists(pod("n"))
    assert one.examine(pod("q", requests={"cpu": 2})).feasible == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        lambda its: its.add_nominated_pod(pod("p"), "b"),
        lambda its: its.update_nominated_pod(pod("p"), pod("p", nominated="b")),
    ],
)
@pytest.mark.parametrize("step", ["delete_nominated_pod_if_exists", "put"])
def test_one_nomination_takes_the_place_of_another_under_one_lock(
    change: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its steps nobody can nominate the pod too, which would leave a nomination that none deletes."""
    one = full()
    nominator, free = handle(one).nominator, []
    its, made = of(one), getattr(nominator, step)
    its.add_nominated_pod(pod("p"), "a")

    def try_lock() -> None:
        free.append(nominator.lock.acquire(blocking=False))
        if free[-1]:
            nominator.lock.release()

    def told(*arguments: Any) -> None:
        with running(try_lock):
            pass
        made(*arguments)

    monkeypatch.setattr(nominator, step, told)
    change(its)
    assert set(free) == {False}
    assert (names(its, "a"), names(its, "b")) == ([], ["p"])


def test_the_list_of_a_node_is_a_copy() -> None:
    its = of(full())
    its.add_nominated_pod(pod("p"), "a")
    its.nominated_pods_for_node("a").clear()
    assert names(its, "a") == ["p"]


def test_when_a_pod_has_preempted_it_is_nominated_and_when_it_goes_no_more() -> None:
    one = full(victim("v", cpu=4), preemptor())
    schedule_one(one.context, one.pods.pending["default/p"])
    its = of(one)
    assert names(its, "a") == ["p"]
    one.client.delete("Pod", "p", "default")
    one.sync()
    assert names(its, "a") == []


# ---- PluginsRunner: Filter ---------------------------------------------------------------------------------


def test_only_the_plugin_that_rejects_is_in_the_map() -> None:
    one = full(victim("v", cpu=4), nodes=NODES)
    asked = preemptor()
    rejected = of(one).run_filter_plugins(state_of(one, asked), asked, info(one, "a"))
    assert {name: said(it) for name, it in rejected.items()} == {
        "NodeResourcesFit": (UNSCHEDULABLE, "Insufficient cpu", "NodeResourcesFit")
    }
    assert of(one).run_filter_plugins(state_of(one, asked), asked, info(one, "b")) == {}


def two_reasons(**settings: Any) -> Any:
    nodes = [node("a", taints=[Taint(key="t", effect="NoSchedule")])]
    return full(victim("v", cpu=4, ports=[port(80)]), nodes=nodes, **settings)


def test_it_ends_with_the_first_rejection_unless_all_filters_run() -> None:
    one, asked = two_reasons(), preemptor(ports=[port(80)])
    state = state_of(one, asked)
    first = PreemptHandle(handle(one)).run_filter_plugins(state, asked, info(one, "a"))
    every = PreemptHandle(handle(one), run_all_filters=True).run_filter_plugins(state, asked, info(one, "a"))
    assert list(first) == ["TaintToleration"]
    assert list(every) == ["TaintToleration", "NodePorts", "NodeResourcesFit"]
    merged = every.merge()
    assert merged is not None
    assert merged.code == UNRESOLVABLE
    assert merged.reasons == (
        "node(s) had untolerated taint(s)",
        "node(s) didn't have free ports for the requested pod ports",
        "Insufficient cpu",
    )


def test_a_state_of_ones_own_serves_as_that_of_the_cycle() -> None:
    """As framework.NewCycleState() of v1.20."""
    one, asked = two_reasons(), preemptor(ports=[port(80)])
    its, there, other = of(one), info(one, "a").clone(), pod("q", on="a")
    mine = [CycleState() for _ in range(4)]
    assert its.framework.run_pre_filter_plugins(mine[0], asked).rejection is None
    expected = its.run_filter_plugins(state_of(one, asked), asked, there)
    assert [its.run_filter_plugins(state, asked, there) for state in mine[:2]] == [expected] * 2
    nodes = [info(one, "a").node]
    assert its.run_pre_score_plugins(mine[2], asked, nodes) is None
    assert its.run_score_plugins(mine[2], asked, nodes)[1] is None
    assert its.run_pre_filter_extension_add_pod(mine[0], asked, other, there) is None
    assert its.run_filter_plugins_with_nominated_pods(mine[3], asked, there) is not None


def test_filters_that_pre_filter_skips_are_not_asked() -> None:
    one, asked = two_reasons(), preemptor(ports=[port(80)])
    state = state_of(one, asked)
    state.skip_filter_plugins = state.skip_filter_plugins | {"TaintToleration", "NodePorts"}
    rejected = PreemptHandle(handle(one)).run_filter_plugins(state, asked, info(one, "a"))
    assert list(rejected) == ["NodeResourcesFit"]


@pytest.mark.parametrize("answer", [status(ERROR, "boom"), status(WAIT, "boom"), ValueError("boom")])
def test_any_other_answer_is_an_error_in_place_of_all(answer: Any) -> None:
    plugin = make(mo.FilterPlugin, "Wrong", filter=answer)
    one = two_reasons(profile=Profile((*default_profile().plugins, plugin)))
    its = PluginsRunner(handle(one), run_all_filters=True)
    rejected = its.run_filter_plugins(state_of(one, preemptor()), preemptor(), info(one, "a"))
    raised = isinstance(answer, ValueError)
    text = 'plugin "Wrong" raised ValueError: boom' if raised else "boom"
    assert {name: said(it) for name, it in rejected.items()} == {
        "Wrong": (ERROR, f'running "Wrong" filter plugin for pod "p": {text}', "Wrong")
    }


def test_rejections_of_several_plugins_merge_to_the_gravest_code() -> None:
    assert preempt_handle.PluginToStatus().merge() is None
    soft, hard, broken = status(UNSCHEDULABLE, "s"), status(UNRESOLVABLE, "h"), status(ERROR, "e")
    other = status(Code.PENDING, "p")
    for parts, code in [
        ([soft], UNSCHEDULABLE),
        ([hard, soft], UNRESOLVABLE),
        ([soft, broken, hard], ERROR),
        ([soft, other], UNSCHEDULABLE),
        ([other], Code.PENDING),
    ]:
        merged = preempt_handle.PluginToStatus({str(at): one for at, one in enumerate(parts)}).merge()
        assert merged is not None
        assert merged.code == code
        assert merged.texts == tuple(one.texts[0] for one in parts)
        assert (merged.err is None) == (code != ERROR)


def test_a_node_is_judged_as_it_is_told_to_be() -> None:
    one, asked = full(victim("v", cpu=4)), preemptor()
    state, clone = state_of(one, asked), info(one, "a").clone()
    clone.remove_pod(victim("v"))
    assert of(one).run_pre_filter_extension_remove_pod(state, asked, victim("v"), clone) is None
    assert of(one).run_filter_plugins(state, asked, clone) == {}
    clone.add_pod(victim("w", cpu=3))
    assert of(one).run_pre_filter_extension_add_pod(state, asked, victim("w", cpu=3), clone) is None
    assert list(of(one).run_filter_plugins(state, asked, clone)) == ["NodeResourcesFit"]
    assert [each.name for each in info(one, "a").pods] == ["v"]


# ---- PluginsRunner: the extensions of PreFilter ------------------------------------------------------------


class Extensions:
    def __init__(self, answer: Status | None = None) -> None:
        self.heard: list[tuple[str, str, str, str]] = []
        self.answer = answer

    def add_pod(self, state: Any, pod: Pod, other: Pod, node_info: Any) -> Status | None:
        self.heard.append(("add", pod.name, other.name, node_info.name))
        return self.answer

    def remove_pod(self, state: Any, pod: Pod, other: Pod, node_info: Any) -> Status | None:
        self.heard.append(("remove", pod.name, other.name, node_info.name))
        return self.answer


def with_extensions(*extensions: Extensions | None) -> Scheduler:
    plugins = [
        make(mo.PreFilterPlugin, f"P{at}", pre_filter=None, pre_filter_extensions=each)
        for at, each in enumerate(extensions)
    ]
    return scheduler_with(*plugins)


def test_each_plugin_with_extensions_hears_of_pods_that_come_and_go() -> None:
    first, third = Extensions(), Extensions()
    one, asked = with_extensions(first, None, third), preemptor()
    state, node_info = state_of(one, asked), info(one, "a")
    assert of(one).run_pre_filter_extension_add_pod(state, asked, pod("x"), node_info) is None
    assert of(one).run_pre_filter_extension_remove_pod(state, asked, pod("y"), node_info) is None
    assert first.heard == third.heard == [("add", "p", "x", "a"), ("remove", "p", "y", "a")]


def test_what_is_no_success_there_is_an_error() -> None:
    failing, unreached = Extensions(status(UNSCHEDULABLE, "no")), Extensions()
    one, asked = with_extensions(failing, unreached), preemptor()
    about = state_of(one, asked), asked, pod("x"), info(one, "a")
    added = of(one).run_pre_filter_extension_add_pod(*about)
    removed = of(one).run_pre_filter_extension_remove_pod(*about)
    assert said(added) == (ERROR, 'running AddPod on PreFilter plugin "P0": no', "")
    assert said(removed) == (ERROR, 'running RemovePod on PreFilter plugin "P0": no', "")
    assert unreached.heard == []


# ---- PluginsRunner: Score ----------------------------------------------------------------------------------


def scoring(name: str, scores: dict[str, int], **more: Any) -> Any:
    return make(mo.ScorePlugin, name, score=lambda self, state, pod, info: scores[info.name], **more)


def test_scores_are_weighted_and_in_the_order_of_the_nodes() -> None:
    one = scheduler_with(
        scoring("S", {"a": 10, "b": 20}),
        nodes=NODES,
        profile={"weight_overrides": {"S": 3}},
    )
    asked = preemptor()
    state, nodes = state_of(one, asked), [NODES[1], NODES[0]]
    assert of(one).run_pre_score_plugins(state, asked, nodes) is None
    scores, failed = of(one).run_score_plugins(state, asked, nodes)
    assert failed is None
    assert scores["S"] == [preempt_handle.NodeScore("b", 60), preempt_handle.NodeScore("a", 30)]


def test_scores_of_native_plugins_are_those_of_the_search() -> None:
    taint = Taint(key="t", effect="PreferNoSchedule")
    nodes = [node("a", taints=[taint]), node("b", cpu=8), node("c", cpu=2)]
    one, asked = full(victim("v"), nodes=nodes), preemptor()
    state, seen = state_of(one, asked), one.examine(asked)
    its = of(one)
    assert its.run_pre_score_plugins(state, asked, nodes) is None
    scores, failed = its.run_score_plugins(state, asked, nodes)
    assert failed is None
    weights = one.profile.weights
    assert {name: [one.score for one in its] for name, its in scores.items()} == {
        name: (seen.normalized[name] * weights[name]).tolist() for name in scores
    }
    assert "TaintToleration" in scores
    totals = [sum(its[at].score for its in scores.values()) for at in range(3)]
    assert totals == seen.total.tolist(), "the caller adds them up"


def test_scores_that_fail() -> None:
    one = scheduler_with(scoring("S", {"a": 101, "b": 0}), nodes=NODES)
    asked = preemptor()
    scores, failed = of(one).run_score_plugins(state_of(one, asked), asked, NODES)
    text = "applying score defaultWeights on Score plugins"
    assert (scores, said(failed)) == (
        None,
        (ERROR, f'{text}: plugin "S" returns an invalid score 101, it should in the range of [0, 100] '
         "after normalizing", ""),
    )  # fmt: skip


def test_pre_score_that_fails() -> None:
    one = scheduler_with(make(mo.PreScorePlugin, "P", pre_score=status(UNSCHEDULABLE, "no")), nodes=NODES)
    failed = of(one).run_pre_score_plugins(state_of(one, preemptor()), preemptor(), NODES)
    assert said(failed) == (ERROR, 'running PreScore plugin "P": no', "")


def test_no_score_plugins_give_no_scores() -> None:
    plugins = [p for p in default_profile().plugins if "score" not in p.extension_points]
    one = full(profile=Profile(tuple(plugins)))
    assert of(one).run_score_plugins(state_of(one, preemptor()), preemptor(), []) == ({}, None)


def test_a_node_that_is_not_there() -> None:
    one = full()
    with pytest.raises(MoorageError, match=r"^node z is not in the cache$"):
        of(one).run_score_plugins(state_of(one, preemptor()), preemptor(), [node("z")])
