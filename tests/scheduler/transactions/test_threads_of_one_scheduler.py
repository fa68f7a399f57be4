"""Two threads on one scheduler: each pair of operations ends, and usage is that of the pods."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.cluster import ResourceRequest
from tests.framework.make import make as make_plugin
from tests.locks import guard
from tests.make import ZONE, make, pod, written
from tests.scheduler.make import profile_with
from tests.scheduler.transactions.interrupts import check_usage
from tests.scheduler.transactions.test_transactions import outcome, world

from moorage import Scheduler
from moorage.engine.framework import Plugin, PreEnqueuePlugin
from moorage.errors import InputError, MoorageError
from moorage.kube import Node, Pod

LIMIT = 120.0  # seconds; reached only by threads that wait for one another


def try_out(one: Scheduler) -> None:
    with one.transaction():
        one.run()


def write(one: Scheduler) -> None:
    a = one.client.get(Node, "a")
    version = {"version": str(one.client.list(Node)[1])}
    one.client.update(replace(a, metadata=replace(a.metadata, labels=version, resource_version="")))
    one.sync()


SMALL = pod("small", requests={"cpu": "1m"})
WEB = "deployment/web"
NUMBERS = count()


def template(**labels: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "web:1"}]}
    return {"metadata": {"labels": labels}, "spec": spec}


def objects() -> list[dict[str, Any]]:
    """Workloads of each kind that a verb is about."""
    job = {"template": template() | {"spec": template()["spec"] | {"restartPolicy": "Never"}}}
    web = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(app="web")}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": web},
        written("batch/v1/Job", "job", job | {"suspend": True}),
        written("batch/v1/CronJob", "cron", {"schedule": "0 0 * * *", "jobTemplate": {"spec": job}}),
        written(
            "autoscaling/v2/HorizontalPodAutoscaler",
            "web",
            {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3},
        ),
        written(
            "policy/v1/PodDisruptionBudget",
            "web",
            {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        ),
    ]


def many_kinds() -> Scheduler:
    """The world of `world`, in two zones, with the workloads of `objects`."""
    one = world()
    for name, zone in ("a", "x"), ("b", "x"), ("c", "y"):
        one.change.label(f"node/{name}", f"{ZONE}={zone}")
    for value in objects():
        one.change.apply(value)
    return one


def new_pods() -> list[Pod]:
    """A pod of which no other thread knows."""
    return [pod(f"new{next(NUMBERS)}", requests={"cpu": "1m"})]


def without_queues(question: str) -> Callable[[Scheduler], None]:
    """Ask about queues, of which there are none."""

    def ask(one: Scheduler) -> None:
        with pytest.raises(InputError):
            getattr(one.ask, question)()

    return ask


VERBS: dict[str, Callable[[Scheduler], object]] = {
    "add_nodes": lambda one: one.change.add_nodes(1, like="c"),
    "advance": lambda one: one.advance(),
    "apply": lambda one: one.change.apply(objects()),
    "autoscale_to": lambda one: one.change.autoscale_to("max"),
    "awaited_pods": lambda one: one.ask.awaited_pods(),
    "bind": lambda one: one.bind(one.schedule_pods(new_pods())),
    "bound": lambda one: one.ask.bound([SMALL]),
    "can_schedule_pod": lambda one: one.can_schedule_pod(SMALL),
    "capacity": lambda one: one.ask.capacity(SMALL, max=2),
    "consolidate": lambda one: one.ask.consolidate(),
    "cordon": lambda one: one.change.cordon("c"),
    "defragment": lambda one: one.ask.defragment(1),
    "delete": lambda one: one.change.delete("pod/p0"),
    "device_use": lambda one: one.ask.device_use(),
    "diff": lambda one: one.ask.diff(one.fork()),
    "drain": lambda one: one.change.drain("b", force=True),
    "drain_plan": lambda one: one.ask.drain_plan("a"),
    "evict": lambda one: one.change.evict(one.client.list(Pod)[0][:1]),
    "examine": lambda one: one.examine(SMALL),
    "explain": lambda one: one.ask.explain("default/big"),
    "explain_node": lambda one: one.ask.explain_node("a"),
    "queues": lambda one: one.ask.queues(),
    "fail_zone": lambda one: one.change.fail_zone("y"),
    "fork": lambda one: one.fork(),
    "label": lambda one: one.change.label("node/a", "disk=ssd"),
    "measure": lambda one: one.measure(),
    "namespace_use": lambda one: one.ask.namespace_use(),
    "node_room": lambda one: one.ask.node_room(),
    "nodes_needed": lambda one: one.ask.nodes_needed(SMALL, like="a", max=2),
    "quota_plan": without_queues("quota_plan"),
    "needed_queues": without_queues("needed_queues"),
    "save": lambda one: one.save(os.devnull),
    "preempt_pods": lambda one: one.preempt_pods([SMALL]).undo(),
    "provision": lambda one: one.ask.provision([SMALL]),
    "refusals": lambda one: one.ask.refusals(),
    "refused_pods": lambda one: one.ask.refused_pods(),
    "release": lambda one: one.release(one.schedule_pods(new_pods())),
    "remove_nodes": lambda one: one.change.remove_nodes("c"),
    "restart": lambda one: one.change.restart(WEB),
    "restart_all": lambda one: one.change.restart_all(),
    "rollouts": lambda one: one.ask.rollouts(),
    "run": lambda one: one.run(),
    "run_cron_jobs": lambda one: one.change.run_cron_jobs(),
    "scale": lambda one: one.change.scale(WEB, next(NUMBERS) % 4),
    "scale_up": lambda one: one.ask.scale_up(),
    "schedule_by_template": lambda one: one.release(one.schedule_by_template(SMALL, 2, next(NUMBERS) * 2)),
    "schedule_one": lambda one: one.schedule_one(new_pods()[0]),
    "schedule_pods": lambda one: one.schedule_pods(new_pods(), dry_run=True),
    "schedule_workload": lambda one: one.schedule_workload(make("PodGroup", "group", {}), new_pods()),
    "set_requests": lambda one: one.change.set_requests([ResourceRequest(WEB, "main", {"cpu": "2m"})]),
    "survive": lambda one: one.ask.survive("node"),
    "suspended": lambda one: one.ask.suspended(),
    "sync": lambda one: one.sync(),
    "taint": lambda one: one.change.taint("a", "dedicated=web:NoExecute"),
    "transaction": try_out,
    "uncordon": lambda one: one.change.uncordon("c"),
    "unsuspend": lambda one: one.change.unsuspend(),
    "upgrade_nodes": lambda one: one.change.upgrade_nodes("b"),
    "workload_use": lambda one: one.ask.workload_use(),
    "a write of the client": write,
    "a snapshot of the cache": lambda one: one.cache.snapshot(),
}


@pytest.fixture(autouse=True)
def _hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(one: Scheduler, works: Sequence[Sequence[str]]) -> list[BaseException]:
    """Have each thread call its verbs, one after the other; return what they raised."""
    ends, errors = Barrier(len(works) + 1), list[BaseException]()

    def work(verbs: Sequence[str]) -> None:
        ends.wait(LIMIT)
        for verb in verbs:
            try:
                VERBS[verb](one)
            except BaseException as error:
                errors.append(error)
        ends.wait(LIMIT)

    for verbs in works:
        Thread(target=work, args=(verbs,), daemon=True).start()
    ends.wait(LIMIT)
    ends.wait(LIMIT)
    return errors


def methods_of(kind: type) -> list[str]:
    return [name for name in dir(kind) if callable(getattr(kind, name)) and name[0] != "_"]


def test_every_public_verb_is_in_the_table() -> None:
    one = world()
    holders = (one, one.ask, one.change)
    verbs = {name for each in holders for name in methods_of(type(each))}
    assert verbs <= VERBS.keys()


@pytest.mark.share(8)
@pytest.mark.parametrize("seed", range(96))
def test_verbs_of_two_or_three_threads_end(seed: int) -> None:
    """What they refuse is refused in words; then usage is that of the pods, and a fork decides alike."""
    draw, one = Random(seed), many_kinds()
    works = [draw.choices(sorted(VERBS), k=12) for _ in range(draw.choice((2, 3)))]
    errors = in_threads(one, works)
    assert [error for error in errors if not isinstance(error, MoorageError)] == []
    one.sync()
    check_usage(one)
    assert outcome(one.fork()) == outcome(one)


@pytest.mark.share(2)
@pytest.mark.parametrize("verb", ["release", "bind", "remove_nodes", "drain", "evict"])
@pytest.mark.parametrize("other", ["fork", "transaction"])
def test_what_writes_beside_what_copies_ends(verb: str, other: str) -> None:
    for _ in range(3):
        in_threads(many_kinds(), [[verb] * 12, [other] * 12])


def test_a_plugin_that_the_queue_asks_may_take_the_lock_of_the_cache() -> None:
    """While it is asked, no other thread can have that lock, and wait for the queue's."""
    asks = list[Callable[[], object]]()

    def ask(plugin: Plugin, asked: Pod) -> None:
        for take in asks:
            other = Thread(target=take)
            other.start()
            other.join()

    one, took = (
        world(profile=profile_with(make_plugin(PreEnqueuePlugin, "Gate", pre_enqueue=ask))),
        list[bool](),
    )
    asks.append(lambda: took.append(one.cache.lock.acquire(False)))
    one.queue.add([SMALL])
    assert took == [False]


@pytest.mark.parametrize(
    "act",
    [lambda one: one.preempt_pods([SMALL]).undo(), lambda one: one.schedule_pods([SMALL])],
)
def test_a_pod_that_another_thread_tries_out_can_be_placed(act: Callable[[Scheduler], object]) -> None:
    """The call waits for the end of the trial, rather than find the pod in the cache."""
    one, errors, begun = world(), list[BaseException](), Event()

    def place() -> None:
        begun.set()
        try:
            act(one)
        except BaseException as error:
            errors.append(error)

    trial, other = one.preempt_pods([SMALL]), Thread(target=place)
    other.start()
    begun.wait(LIMIT)
    other.join(0.1)  # time enough to be refused
    assert other.is_alive()
    trial.undo()
    other.join(LIMIT)
    assert not errors


def test_no_thread_places_between_the_check_of_replicas_and_their_placing() -> None:
    one = world()
    touched = guard(one.context, one.context.cache.lock, "engine_of_route")
    assert len(one.schedule_by_template(SMALL, 2).placements) == 2
    assert touched
