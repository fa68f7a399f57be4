"""Nominations, waiting pods and pods in PreBind hold their locks while they touch what these guard."""

from __future__ import annotations

from moorage.engine.framework import NominatingInfo, PodNominator, WaitingPod
from moorage.kube import Pod
from tests.doors.engine import PodInPreBind, WaitingPods
from tests.locks import check_locked, is_held
from tests.make import pod


def test_nominations_hold_their_lock_in_every_operation() -> None:
    one, p, q = PodNominator(), pod("p"), pod("q")
    saved = one.save()
    calls = {
        "add_nominated_pod": lambda: one.add_nominated_pod(p, NominatingInfo("n")),
        "nominate_current": lambda: one.nominate_current(p, NominatingInfo("n")),
        "put": lambda: one.put(q, "n"),
        "update_nominated_pod": lambda: one.update_nominated_pod(p, p),
        "nominated_pods_for_node": lambda: one.nominated_pods_for_node("n"),
        "nominated_node": lambda: one.nominated_node(p),
        "nominated_before": lambda: one.nominated_before(p),
        "nominated_nodes": lambda: one.nominated_nodes(),
        "nominated_keys": lambda: one.nominated_keys([p, q]),
        "is_alone": lambda: one.is_alone(p, "n"),
        "is_changed_by": lambda: one.is_changed_by(p, None),
        "delete_nominated_pod_if_exists": lambda: one.delete_nominated_pod_if_exists(p),
        "save": one.save,
        "undo": lambda: one.undo(saved),
        "rebuild": lambda: one.rebuild(),
    }
    check_locked(one, one.lock, ["by_node", "nodes"], calls, exempt=["release"])


def test_an_earlier_nomination_ends_and_the_new_one_begins_in_one_step() -> None:
    held: list[bool] = []

    def is_current(pod: Pod) -> bool:
        held.append(is_held(one.lock))
        return True

    one = PodNominator(is_current)
    one.add_nominated_pod(pod("p"), NominatingInfo("n"))
    assert held == [True]


def test_a_waiting_pod() -> None:
    one = WaitingPod(pod("p"), {"a": 1.0, "b": 2.0}, 0.0)
    saved = one.save()
    calls = {
        "get_pending_plugins": one.get_pending_plugins,
        "deadline": one.deadline,
        "expire": lambda: one.expire(0.5),
        "when_decided": lambda: one.when_decided(lambda: None),
        "allow": lambda: one.allow("a"),
        "reject": lambda: one.reject("b", "no"),
        "preempt": lambda: one.preempt("b", "no"),
        "wait": one.wait,
        "save": one.save,
        "undo": lambda: one.undo(saved),
        "copy_from": lambda: one.copy_from(WaitingPod(pod("q"), {"a": 1.0}, 0.0)),
    }
    guarded = ["_signal", "_deadlines", "_pending", "_listeners"]
    check_locked(one, one._changed, guarded, calls, exempt=["signal"])


def test_the_waiting_pods() -> None:
    one, waiting = WaitingPods(), WaitingPod(pod("p"), {"a": 1.0}, 0.0)
    saved = one.save()
    calls = {
        "add": lambda: one.add(waiting),
        "get": lambda: one.get("p"),
        "iterate": lambda: one.iterate(lambda _: None),
        "remove": lambda: one.remove("p"),
        "save": one.save,
        "undo": lambda: one.undo(saved),
        "copy_from": lambda: one.copy_from(WaitingPods()),
    }
    check_locked(one, one._lock, ["_pods"], calls)


def test_a_pod_in_pre_bind() -> None:
    one = PodInPreBind()
    calls = {"cancel_pod": lambda: one.cancel_pod("no"), "mark_prebound": one.mark_prebound}
    check_locked(one, one._lock, ["_finished", "_cause"], calls, exempt=["cause"])
