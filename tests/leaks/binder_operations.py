"""The same of a BinderCache and of gangs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from msgspec.structs import replace

from moorage import Scheduler
from moorage.compat.binder_cache import BinderCache, CacheHandler, CachePodInfo, SchedulingStatus
from moorage.kube import (
    GangSchedulingPolicy,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from tests.doors.engine import place_group
from tests.leaks.world import node, plain
from tests.multi.binder_cache.binder_kit import (
    WANTS,
    best_effort,
    cnr,
    group,
    member,
    nm_node,
    pdb,
    pod,
    reservation,
)

Operation = Callable[[], object]
NODES = ("n0", "n1", "n2")


def cache_of(clock: Callable[[], float] = lambda: 0.0, gate: bool = False) -> BinderCache:
    """Three nodes and a pod."""
    cache = BinderCache(CacheHandler(clock=clock, resource_reservation=gate))
    for name in NODES:
        cache.add_node(node(name))
    cache.add_pod(pod("there", "n0"))
    return cache


def binder_assumes_and_forgets() -> Operation:
    cache, infos = cache_of(), [CachePodInfo(one) for one in (pod("p", "n0"), best_effort("q", "n0"))]

    def run() -> None:
        for info in infos:
            cache.assume_pod(info)
            cache.finish_binding(info.pod)
        for info in infos:
            cache.forget_pod(info)

    return run


def binder_hears_of_what_it_assumed() -> Operation:
    cache, pending, one = cache_of(), pod("p"), pod("p", "n0")

    def run() -> None:
        cache.assume_pod(CachePodInfo(one))
        reported = replace(one)
        cache.update_pod(pending, reported)
        cache.delete_pod(reported)

    return run


def binder_expires() -> Operation:
    times = count(0, 1000)
    now = [0.0]
    cache, info, preemptor = cache_of(lambda: now[0]), CachePodInfo(pod("p", "n0")), pod("preemptor")

    def run() -> None:
        now[0] = float(next(times))
        cache.clean(now[0])
        cache.assume_pod(info)
        cache.mark_pod_to_delete(pod("there", "n0"), preemptor)

    return run


def binder_marks() -> Operation:
    cache, victim, preemptor = cache_of(), pod("there", "n0"), pod("preemptor")

    def run() -> None:
        cache.mark_pod_to_delete(victim, preemptor)
        cache.remove_delete_pod_marker(victim, preemptor)

    return run


def binder_takes_a_transaction_back() -> Operation:
    cache, there = cache_of(), pod("there", "n0")

    def run() -> None:
        with cache.transaction():
            cache.mark_pod_to_delete(there, pod("preemptor"))
            cache.assume_pod(CachePodInfo(member("m", "n1")))
            cache.set_unit_scheduling_status("PodGroupUnit/default/g", SchedulingStatus.SCHEDULED)
            cache.delete_pod(there)

    return run


def binder_hears_of_everything_else() -> Operation:
    cache = cache_of()
    one, other = nm_node("m", {"cpu": 4}, {"cpu": 2}), cnr("m", cpu=3)
    budget, unit = pdb("b"), group("Running")

    def run() -> None:
        cache.add_nm_node(one)
        cache.add_cnr(other)
        cache.add_pdb(budget)
        cache.add_pod_group(unit)
        cache.get_node_info("m")
        cache.delete_pod_group(unit)
        cache.delete_pdb(budget)
        cache.delete_cnr(other)
        cache.delete_nm_node(one)

    return run


def binder_lists_again() -> Operation:
    cache, nodes = cache_of(), [node(name) for name in NODES]
    some = [[pod("there", "n0")], [pod("other", "n1"), pod("there", "n2")]]

    def run() -> None:
        for pods in some:
            cache.relist(nodes, pods)

    return run


def binder_reserves() -> Operation:
    cache, one = cache_of(gate=True), pod("a", "n0", WANTS)

    def run() -> None:
        cache.add_pod(one)
        cache.delete_pod(one)
        cache.add_reservation(reservation(one))
        cache.delete_reservation(reservation(one))

    return run


def _gang(pods: list[Pod]) -> tuple[Scheduler, Operation]:
    scheduler = Scheduler(kubernetes_version="1.37", feature_gates={"GenericWorkload": True})
    for name in NODES:
        scheduler.cache.add_node(node(name))
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(len(pods)))
    meta = ObjectMeta(name="g", namespace="default")
    unit = PodGroup(metadata=meta, spec=PodGroupSpec(scheduling_policy=policy))
    return scheduler, lambda: place_group(
        scheduler.context, scheduler.context.rotation.engines[0], unit, pods
    )


def gang_is_placed() -> Operation:
    pods = [plain(f"p{at}") for at in range(3)]
    scheduler, place = _gang(pods)
    cache = scheduler.cache

    def run() -> None:
        place()
        cache.forget_pods([cache.get_pod(one) for one in pods])

    return run


def gang_fails_at_its_last_member() -> Operation:
    return _gang([plain("p0"), plain("p1"), plain("p2", "1000")])[1]


OPERATIONS: tuple[Callable[[], Operation], ...] = (
    binder_assumes_and_forgets,
    binder_hears_of_what_it_assumed,
    binder_expires,
    binder_marks,
    binder_takes_a_transaction_back,
    binder_hears_of_everything_else,
    binder_lists_again,
    binder_reserves,
    gang_is_placed,
    gang_fails_at_its_last_member,
)
