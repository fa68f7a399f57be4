"""Victims leave, and the nominations of those that must stand back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import PodInPreBind, clear_nominated_node_name, evict_victims, make_room
from tests.make import pod
from tests.preemption.world import cycle, full, handle, preemptor, victim
from tests.scheduler.make import events, scheduler_with

from moorage import Scheduler
from moorage.engine.framework import NominatingInfo
from moorage.engine.preemption import Evaluator
from moorage.kube import Condition, Pod
from moorage.store import ApiError

NOTE = "Preempted by pod p on node a"


def prepare(one: Scheduler, *victims: Pod) -> None:
    make_room(handle(one), "a", preemptor(), victims, "DefaultPreemption")


def stored(one: Scheduler) -> list[str]:
    return [each.name for each in one.client.list(Pod)[0]]


class Watching:
    """A client that notes the condition with which pods are deleted."""

    def __init__(self, client: Any, refuses: str = "") -> None:
        self.client, self.refuses = client, refuses
        self.calls: list[tuple[str, str]] = []
        self.last: dict[str, tuple[Condition, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def patch(self, kind: Any, name: str, *patch: Any, **how: Any) -> Pod:
        self.calls.append(("patch", name))
        patched: Pod = self.client.patch(kind, name, *patch, **how)
        self.last[name] = patched.status.conditions
        return patched

    def delete(self, kind: Any, name: str, namespace: str = "") -> Pod:
        self.calls.append(("delete", name))
        if name == self.refuses:
            raise ApiError("refused")
        return self.client.delete(kind, name, namespace)  # type: ignore[no-any-return]


def watched(one: Scheduler, refuses: str = "") -> Watching:
    client = handle(one).client = Watching(one.client, refuses)  # type: ignore[assignment]
    return client  # type: ignore[return-value]


def test_victims_get_a_condition_and_are_deleted_in_their_order() -> None:
    one = full(victim("v"), victim("w"), victim("stays"))
    client = watched(one)
    prepare(one, victim("w"), victim("v"))
    assert client.calls == [("patch", "w"), ("delete", "w"), ("patch", "v"), ("delete", "v")]
    message = "default-scheduler: preempting to accommodate a higher priority pod"
    (condition,) = client.last["v"]
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        *("DisruptionTarget", "True", "PreemptionByScheduler"),
        message,
    )
    assert stored(one) == ["stays"]
    assert events(one) == [(name, "Normal", "Preempted", "Preempting", NOTE) for name in "wv"]


def test_another_condition_of_that_type_is_replaced() -> None:
    held = Condition(type="DisruptionTarget", status="True", reason="Other", last_transition_time="then")
    ready = Condition(type="Ready", status="True")
    known = replace(victim("v"), status=replace(victim("v").status, conditions=(held, ready)))
    one = full(known)
    client = watched(one)
    prepare(one, known)
    assert [(c.type, c.reason, c.last_transition_time) for c in client.last["v"]] == [
        ("DisruptionTarget", "PreemptionByScheduler", "then"),
        ("Ready", "", None),
    ]


def test_the_first_refusal_ends_it() -> None:
    one = full(*[victim(name) for name in "uvw"])
    watched(one, refuses="v")
    with pytest.raises(ApiError, match=r"^refused$"):
        prepare(one, *[victim(name) for name in "uvw"])
    assert stored(one) == ["v", "w"], "the one before is gone, the one after is not touched"
    assert [event[0] for event in events(one)] == ["u"]


def test_a_refusal_fails_the_preemption_and_leaves_the_nomination() -> None:
    one = full(victim("v", cpu=4))
    watched(one, refuses="v")
    its, state, statuses = cycle(one, preemptor(4))
    nominating, failed = Evaluator(its, "DefaultPreemption").preempt(state, preemptor(4), statuses)
    assert nominating is not None
    assert nominating.nominated_node_name == "a"
    assert failed is not None
    assert (str(failed.code), failed.message()) == ("UnschedulableAndUnresolvable", "refused")


def test_somebody_else_was_faster() -> None:
    one = full(victim("v"), victim("w"))
    one.client.delete(Pod, "v", "default")
    prepare(one, victim("v"), victim("w"))
    assert [event[0] for event in events(one)] == ["w"]
    assert one.cache.state.has_pod(victim("v")), "until that is reported"


def test_another_pod_of_the_name_stays() -> None:
    one = full(victim("v"))
    one.client.delete(Pod, "v", "default")
    other = replace(victim("v"), metadata=replace(victim("v").metadata, uid="other"))
    one.client.create(other)
    prepare(one, victim("v"))
    assert stored(one) == ["v"]
    assert events(one) == []


def test_a_pod_in_pre_bind_is_cancelled() -> None:
    one = scheduler_with(pods=[pod("v")])
    binding = handle(one).pods_in_pre_bind["v"] = PodInPreBind()
    evict_victims(handle(one), "a", preemptor(), [pod("v")], "DefaultPreemption")
    assert binding.cause == "preempted by DefaultPreemption"
    assert (stored(one), [event[4] for event in events(one)]) == (
        ["v"],
        [f"{NOTE} (in kube-scheduler memory)."],
    )


def test_a_pod_that_is_past_pre_bind_is_deleted() -> None:
    one = scheduler_with(pods=[pod("v")])
    binding = handle(one).pods_in_pre_bind["v"] = PodInPreBind()
    assert binding.mark_prebound()
    evict_victims(handle(one), "a", preemptor(), [pod("v")], "DefaultPreemption")
    assert (stored(one), [event[4] for event in events(one)]) == ([], [NOTE])


def test_nominations_of_lower_priority_to_the_node_end() -> None:
    waiting = [
        pod("lower", priority=9, nominated="a"),
        pod("same", priority=10, nominated="a"),
        pod("elsewhere", priority=0, nominated="b"),
    ]
    one = full(*waiting)
    prepare(one)
    nominator = handle(one).nominator
    assert [each.name for each in nominator.nominated_pods_for_node("a")] == ["same"]
    assert [each.name for each in nominator.nominated_pods_for_node("b")] == ["elsewhere"]
    names = {each.name: each.status.nominated_node_name for each in one.client.list(Pod)[0]}
    assert names == {"lower": "", "same": "a", "elsewhere": "b"}


def test_nominations_end_before_the_victims_and_failing_at_that_is_not_fatal(caplog: Any) -> None:
    one = full(pod("lower", nominated="a"), victim("v"))
    client = watched(one)
    prepare(one, victim("v"))
    assert client.calls[0] == ("patch", "lower")

    class Refusing(Watching):
        def patch(self, kind: Any, name: str, *patch: Any, **how: Any) -> Pod:
            if name == "lower":
                raise ApiError("refused")
            return super().patch(kind, name, *patch, **how)

    two = full(pod("lower", nominated="a"), victim("v"))
    handle(two).client = Refusing(two.client)  # type: ignore[assignment]
    prepare(two, victim("v"))
    assert stored(two) == ["lower"]
    assert "write has failed: what=pod_status_patch object=default/lower error=refused" in caplog.text


def test_a_nomination_that_only_the_nominator_knows() -> None:
    one = full(pod("n"))
    handle(one).nominator.add_nominated_pod(one.pods.pending["default/n"], NominatingInfo("a"))
    clear_nominated_node_name(handle(one), pod("n"))
    assert not handle(one).nominator
    handle(one).nominator.put(pod("gone"), "a")
    clear_nominated_node_name(handle(one), pod("gone"))
    assert not handle(one).nominator
