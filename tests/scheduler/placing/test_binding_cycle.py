"""From a chosen node to a bound pod, with plugins: order, failures and waiting of kube-scheduler v1.36."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import schedule_one
from tests.framework.make import PENDING, SKIPPED, UNRESOLVABLE, UNSCHEDULABLE, make, status
from tests.make import node, pod
from tests.scheduler.make import events, scheduler_with
from tests.scheduler.steps import KEY, Steps, is_free

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, NominatingInfo
from moorage.engine.scheduler import Profile
from moorage.kube import Pod

ONE_NODE = "0/1 nodes are available: 1 no."


def run(*plugins: Any, **answers: Any) -> tuple[Scheduler, Steps, Any]:
    steps = Steps(**answers)
    one = scheduler_with(steps, *plugins, pods=[pod("p")])
    return one, steps, one.run()


def condition(one: Scheduler) -> list[tuple[str, str, str]]:
    found = one.client.get(Pod, "p", "default").status.conditions
    return [(c.status, c.reason, c.message) for c in found]


def test_the_whole_way() -> None:
    one, steps, result = run()
    order = ["reserve", "permit", "pre_flight", "pre_bind", "post_bind"]
    assert steps.log == [f"{what} p a" for what in order]
    assert result.placements == {KEY: "a"}
    assert one.client.get(Pod, "p", "default").spec.node_name == "a"
    assert not one.cache.is_assumed_pod(pod("p"))  # confirmed by the report of its binding
    assert one.cache.get_pod(pod("p")).spec.node_name == "a"
    note = "Successfully assigned default/p to a"
    assert events(one) == [("p", "Normal", "Scheduled", "Binding", note)]
    assert one.pods.pending == {}


@pytest.mark.parametrize("code", [UNSCHEDULABLE, UNRESOLVABLE, PENDING])
@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_rejection_after_the_choice_speaks_for_one_node(point: str, code: Code) -> None:
    one, steps, result = run(**{point: status(code, "no")})
    assert result.placements == {}
    failure = result.unschedulable[KEY]
    assert (failure.message, failure.reasons) == (ONE_NODE, {"no": 1})
    assert failure.diagnosis.chosen.plugin == "Steps"
    assert failure.diagnosis.chosen.code == code
    assert steps.log[-1] == "unreserve p a"
    assert is_free(one)
    assert events(one) == [("p", "Warning", "FailedScheduling", "Scheduling", ONE_NODE)]
    assert condition(one) == [("False", "Unschedulable", ONE_NODE)]


def test_reasons_are_counted_and_sorted() -> None:
    _, _, result = run(reserve=status(UNSCHEDULABLE, "y", "x", "y"))
    assert result.unschedulable[KEY].message == "0/1 nodes are available: 1 x, 2 y."


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("reserve", 'running Reserve plugin "Steps": broken'),
        ("permit", 'running Permit plugin "Steps": broken'),
        ("pre_flight", 'running PreBindPreFlight "Steps": broken'),
        ("pre_bind", 'running PreBind plugin "Steps": broken'),
    ],
)
def test_errors_keep_their_own_text(point: str, text: str) -> None:
    one, steps, result = run(**{point: status(Code.ERROR, "broken")})
    assert result.unschedulable[KEY].message == text
    assert result.unschedulable[KEY].reasons == {}
    assert steps.log[-1] == "unreserve p a"
    assert is_free(one)
    assert events(one) == [("p", "Warning", "FailedScheduling", "Scheduling", text)]
    assert condition(one) == [("False", "SchedulerError", text)]


def test_a_rejection_at_pre_bind() -> None:
    one, steps, result = run(pre_bind=status(UNSCHEDULABLE, "no"))
    assert result.unschedulable[KEY].message == ONE_NODE
    assert steps.log[-2:] == ["pre_bind p a", "unreserve p a"]
    assert is_free(one)


def test_pre_flight_that_skips_passes_pre_bind_over() -> None:
    _, steps, result = run(pre_flight=status(SKIPPED))
    assert result.placements == {KEY: "a"}
    assert "pre_bind p a" not in steps.log


def test_an_assumption_that_fails_undoes_nothing() -> None:
    steps = Steps()
    one = scheduler_with(steps)
    one.cache.assume_pod(pod("p", on="b"))
    decision = schedule_one(one.context, pod("p"))
    assert decision.node is None
    assert "assume" in decision.error
    assert steps.log == []
    assert one.cache.get_pod(pod("p")).spec.node_name == "b"


def test_room_that_was_taken_back_is_there_for_the_next_pod() -> None:
    steps = Steps(permit=status(UNSCHEDULABLE, "no"))
    pods = [pod("p", requests={"cpu": 3}), pod("q", requests={"cpu": 3})]
    one = scheduler_with(steps, pods=pods, nodes=[node("a")])
    one.run()
    assert steps.log == [
        "reserve p a",
        "permit p a",
        "unreserve p a",
        "reserve q a",
        "permit q a",
        "unreserve q a",
    ]


def test_snapshot_is_that_of_the_begin_of_the_cycle() -> None:
    seen: list[list[str]] = []

    def reserve(self: Any, state: Any, pod: Pod, node_name: str) -> None:
        infos = self.handle.snapshot().node_info_list
        seen.append([one.name for info in infos for one in info.pods])

    plugin = make(mo.ReservePlugin, "Looks", reserve=reserve)
    scheduler_with(plugin, pods=[pod("p"), pod("q")]).run()
    assert seen == [[], ["p"]]


# ---- Bind --------------------------------------------------------------------------------------------------


def with_binders(*binders: Any, **settings: Any) -> Scheduler:
    plugins = [p for p in default_profile().plugins if p.name != "DefaultBinder"]
    cluster = mo.Cluster(nodes=[node("a")], pods=[pod("p")])
    return Scheduler(cluster, profile=Profile((*plugins, *binders)), **settings)


def test_a_binder_of_ones_own() -> None:
    bound: list[tuple[str, str]] = []
    binder = make(mo.BindPlugin, "Own", bind=lambda s, st, pod, name: bound.append((pod.name, name)))
    one = with_binders(binder, ttl=5.0, clock=lambda: 0.0)
    assert one.run().placements == {KEY: "a"}
    assert bound == [("p", "a")]
    assert one.client.get(Pod, "p", "default").spec.node_name == ""  # it told nobody
    assert one.cache.is_assumed_pod(pod("p"))
    assert one.cache.cleanup_assumed_pods(5.0) == []
    assert [gone.name for gone in one.cache.cleanup_assumed_pods(5.1)] == ["p"]  # from its binding


def test_skip_leaves_it_to_the_default_binder() -> None:
    binder = make(mo.BindPlugin, "Own", bind=status(SKIPPED))
    default = next(p for p in default_profile().plugins if p.name == "DefaultBinder")
    one = with_binders(binder, default)
    one.run()
    assert one.client.get(Pod, "p", "default").spec.node_name == "a"


def test_nobody_binds_is_a_failure_without_an_event() -> None:
    one = with_binders(make(mo.BindPlugin, "Own", bind=status(SKIPPED)))
    result = one.run()
    assert result.placements == {}
    assert result.unschedulable[KEY].message == "Skip"
    assert is_free(one)
    assert events(one) == []
    assert condition(one) == []


def test_a_store_that_refuses_the_binding() -> None:
    """Another client has bound the pod."""
    steps = Steps()
    one = scheduler_with(steps)
    one.client.create(pod("p", "b"))
    decision = schedule_one(one.context, pod("p"))
    refusal = 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "b"'
    assert decision.error == f'running Bind plugin "DefaultBinder": {refusal}'
    assert steps.log[-1] == "unreserve p a"
    assert one.cache.get_pod(pod("p")).spec.node_name == "b"


# ---- a pod that is cancelled in PreBind --------------------------------------------------------------------


def test_a_pod_can_be_cancelled_in_pre_bind() -> None:
    answers: list[bool] = []

    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> None:
        found = self.handle.get_pod_in_pre_bind("p")
        answers.extend([found.cancel_pod("preempted by X"), found.cancel_pod("again")])

    one = scheduler_with(make(mo.PreBindPlugin, "Cancels", pre_bind=pre_bind), pods=[pod("p")])
    assert one.run().unschedulable[KEY].message == "preempted by X"
    assert answers == [True, True]
    assert is_free(one)
    assert one.handle.get_pod_in_pre_bind("p") is None


def test_after_pre_bind_it_is_too_late() -> None:
    kept: list[Any] = []

    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> None:
        kept.append(self.handle.get_pod_in_pre_bind("p"))

    one = scheduler_with(make(mo.PreBindPlugin, "Keeps", pre_bind=pre_bind), pods=[pod("p")])
    assert one.run().placements == {KEY: "a"}
    assert not kept[0].cancel_pod("late")


# ---- nominations -------------------------------------------------------------------------------------------


def test_an_assumed_pod_is_nominated_no_more() -> None:
    one = scheduler_with(Steps(), pods=[pod("p")])
    one.handle.nominator.add_nominated_pod(one.pods.pending[KEY], NominatingInfo("b"))
    one.run()
    assert one.handle.nominator.nominated_pods_for_node("b") == []


def test_a_failed_pod_keeps_its_nomination_where_post_filter_says_nothing() -> None:
    plugin = make(mo.FilterPlugin, "No", filter=status(UNSCHEDULABLE, "no"))
    one = scheduler_with(plugin, pods=[pod("p", preemption_policy="Never")])
    stored = one.client.get(Pod, "p", "default")
    one.client.update(replace(stored, status=replace(stored.status, nominated_node_name="b")))
    one.run()
    assert [p.name for p in one.handle.nominator.nominated_pods_for_node("b")] == ["p"]
    assert one.client.get(Pod, "p", "default").status.nominated_node_name == "b"


def test_long_notes_are_cut_and_the_condition_is_not() -> None:
    text = "x" * 2000
    one, _, _ = run(reserve=status(UNSCHEDULABLE, text))
    message = f"0/1 nodes are available: 1 {text}."
    assert events(one)[0][4] == message[:1020] + " ..."
    assert condition(one) == [("False", "Unschedulable", message)]


def test_a_pod_that_is_being_deleted_is_passed_over_with_an_event() -> None:
    one = scheduler_with(Steps())
    going = pod("p")
    meta = replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    one.client.create(replace(going, metadata=meta))
    assert one.run().skipped == {KEY: "terminating"}
    note = "skip schedule deleting pod: default/p"
    assert events(one) == [("p", "Warning", "FailedScheduling", "Scheduling", note)]


def test_without_nodes_no_plugin_is_asked() -> None:
    steps = Steps()
    cluster = mo.Cluster(pods=[pod("p")])
    one = Scheduler(cluster, profile=Profile((*default_profile().plugins, steps)))
    text = "no nodes available to schedule pods"
    assert one.run().unschedulable[KEY].message == text
    assert condition(one) == [("False", "Unschedulable", text)]
    assert steps.log == []
