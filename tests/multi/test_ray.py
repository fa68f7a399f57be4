"""Several schedulers and their binder as actors of a Ray cluster of several nodes on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.core.make import node
from tests.multi.kit import asking
from tests.multi.test_pool import inits, ints
from tests.scheduler.groups.gang_kit import GATES, gang, members
from tests.sim.sweep.test_ray import cluster as cluster
from tests.volume.make import claim, storage_class, uses

from moorage.cli import main
from moorage.errors import MoorageError
from moorage.multi import RayActors, RayBinder
from moorage.multi.optimistic import simulate_optimistically
from moorage.objects import Cluster, PersistentVolumeClaim
from moorage.sim.synthetic import synthetic

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]  # of Ray itself


def conflicts() -> Cluster:
    return synthetic(nodes=20, zones=2, pods=300)


def victims() -> Cluster:
    low = [asking(f"low{at}", "2", on="ab"[at % 2]) for at in range(4)]
    high = [asking(f"high{at}", "2", 5) for at in range(6)]
    return Cluster(nodes=[node(name) for name in "ab"], pods=[*low, *high])


def claims() -> Cluster:
    late = storage_class("late", mode="WaitForFirstConsumer")
    wanted = [claim(f"c{at}", of_class="late", modes=("ReadWriteOnce",)) for at in range(6)]
    pods = [asking(f"p{at}", "2", volumes=(uses(claim=f"c{at}"),)) for at in range(6)]
    return Cluster(nodes=[node("a"), node("b")], pods=pods, others=[late, *wanted])


def gangs() -> Cluster:
    sizes = {"a": 2, "b": 4, "c": 4}
    pods = [one for name, size in sizes.items() for one in members(name, size, cpu=2)]
    groups = [gang(name, size) for name, size in sizes.items()]
    return Cluster(nodes=[node(f"n{at}") for at in range(5)], pods=pods, others=[*groups])


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (conflicts, {"seed": 3, "tie_break": "random"}),
        (victims, {}),
        (claims, {}),
        (gangs, {"feature_gates": GATES}),
    ],
)
def test_the_result_is_that_of_threads(
    cluster: Any, make: Callable[[], Cluster], settings: dict[str, Any]
) -> None:
    threads, ray = (
        simulate_optimistically(make(), 3, chunk=4, partition="hash", executor=how, settings=settings)
        for how in ("threads", "ray")
    )
    assert threads.result.to_dict() == ray.result.to_dict()
    assert threads.result.placements == ray.result.placements
    assert threads.result.evicted == ray.result.evicted
    assert list(threads.result.unschedulable) == list(ray.result.unschedulable)
    assert [one.conflicts for one in threads.schedulers] == [one.conflicts for one in ray.schedulers]
    assert (threads.rounds, threads.alone) == (ray.rounds, ray.alone)
    assert not threads.scheduler.diff(ray.scheduler)
    bound = [
        [one.spec.volume_name for one in out.scheduler.client.list(PersistentVolumeClaim)[0]]
        for out in (threads, ray)
    ]
    assert bound[0] == bound[1]


def test_the_command_prints_the_same(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--synthetic", "nodes=20,pods=300", "--schedulers", "2", "-o", "json"]
    printed = []
    for executor in ("threads", "ray"):
        assert main([*arguments, "--executor", executor]) == 0
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1]


def test_an_actor_that_died_is_named(cluster: Any) -> None:
    import ray

    with RayActors(inits()) as pool:
        ray.kill(pool._actors[1])
        with pytest.raises(MoorageError, match="scheduler 1 has died"):
            pool.propose([ints(0), ints(1)])
    with RayBinder(Cluster(), {}, {}) as binder:
        ray.kill(binder._actor)
        with pytest.raises(MoorageError, match="the binder has died"):
            binder.resume()


def test_an_error_of_an_actor_is_the_caller_s(cluster: Any) -> None:
    wrong = inits()[0].__class__((), Cluster(), 0, None, {"tie_break": "last"})
    with pytest.raises(ValueError, match=r"^tie_break must be one of first, random, go-heap, not 'last'"):
        RayActors([wrong])
