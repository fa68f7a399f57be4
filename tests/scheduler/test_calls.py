"""How many functions of the package a scheduler calls: a count of calls is the same on every machine."""

from __future__ import annotations

import gc
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.doors.controllers import disruption_controller
from tests.make import node, pod
from tests.scheduler.groups.gang_kit import gang, members, world

import moorage
from moorage import Scheduler
from moorage.engine.devices import DeviceState
from moorage.kube import Cluster, LabelSelector, ObjectMeta, PodDisruptionBudget, PodDisruptionBudgetSpec

PACKAGE = str(Path(moorage.__file__).parent)


def calls(action: Callable[[], object], within: str = PACKAGE) -> Counter[str]:
    """Calls of Python functions, of the package's if no other folder is given, while an action runs. By
    file."""
    found = Counter[str]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(within):
            found[frame.f_code.co_filename] += 1

    before = sys.getprofile()
    gc.disable()  # finalizers of earlier tests are not calls of the action
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return found


def budget(name: str, labels: dict[str, str]) -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(min_available=1, selector=LabelSelector(match_labels=labels))
    return PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def cluster() -> Cluster:
    nodes = [node(name, cpu=4) for name in "abcde"]
    return Cluster(nodes=nodes, pods=[pod("p", requests={"cpu": 1})])


def test_a_second_scheduler_takes_few_calls() -> None:
    Scheduler(cluster()).run()  # tables that are made once
    made: list[Scheduler] = []
    construction = calls(lambda: made.append(Scheduler(cluster())))
    run = calls(made[0].run)
    assert made[0].client.get("Pod", "p", "default").spec.node_name
    assert construction.total() <= 968, construction.most_common()
    assert run.total() <= 150, run.most_common()
    assert len(run) <= 40, sorted(run)


def test_a_group_without_claims_makes_nothing_about_devices() -> None:
    """The library of CEL takes more calls than the group."""
    scheduler = world([node(name, cpu=4) for name in "abcde"], gang("g", 3), members("g", 3))
    assert inspect.getfile(DeviceState) not in calls(scheduler.run)
    assert len([pod for pod in scheduler.client.list("Pod")[0] if pod.spec.node_name]) == 3


def test_calls_for_a_new_scheduler_do_not_grow_with_its_objects() -> None:
    def objects(n: int) -> Cluster:
        bound = [pod(f"b{number}", "n0") for number in range(n)]
        pods = [*bound, *[pod(f"p{number}") for number in range(n)]]
        return Cluster(nodes=[node(f"n{number}") for number in range(n)], pods=pods)

    few, many = objects(1), objects(60)
    Scheduler(few)  # tables that are made once
    more = calls(lambda: Scheduler(many)) - calls(lambda: Scheduler(few))
    assert more.total() <= 15, more.most_common()  # a binary search of the last event


def test_calls_for_an_examination_do_not_grow_with_the_nodes() -> None:
    """Neither with those that fit, nor with those that do not; numpy's functions count as well."""

    def asked(n: int) -> Counter[str]:
        nodes = [node(f"n{number}", cpu=number % 2) for number in range(n)]
        one, wanted = Scheduler(Cluster(nodes=nodes)), pod("p", requests={"cpu": 1})
        assert len(one.can_schedule_pod(wanted).nodes) == n // 2
        return calls(lambda: one.can_schedule_pod(wanted), "")

    more = asked(60) - asked(2)
    assert not more, more.most_common()


def test_calls_for_budgets_grow_neither_with_pods_alike_nor_with_other_budgets() -> None:
    def ran(n_pods: int, n_budgets: int) -> int:
        budgets = [budget(f"b{number}", {"app": f"a{number}"}) for number in range(n_budgets)]
        pods = [pod(f"p{number}", labels={"app": "a0"}) for number in range(n_pods)]
        one = Scheduler(Cluster(nodes=[node("n")], pods=pods, others=budgets))
        assert one.controllers is not None
        one.controllers.budgets.note(pods[0])
        one.controllers.work()  # makes the index of pods
        return calls(one.run)[str(Path(disruption_controller.__file__))]

    assert ran(1, 1) == ran(50, 1) == ran(50, 40) > 3
