"""Workers and the binder as actors of a stand-in for Ray: with Ray itself, `test_ray.py` has them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.multi import test_ray as with_ray
from tests.multi.ray_stand_in import Ray
from tests.multi.test_pool import inits, ints
from tests.scheduler.groups.gang_kit import GATES
from tests.sim.sweep.test_sweep import run

from moorage import Scheduler
from moorage.errors import InputError, MoorageError
from moorage.multi import Placement, RayActors, RayBinder
from moorage.multi.ray_actors import RayConnection
from moorage.objects import Cluster, Pod


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    made = Ray(is_connected=True)
    monkeypatch.setitem(sys.modules, "ray", made)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (with_ray.conflicts, {"seed": 3, "tie_break": "random"}),
        (with_ray.victims, {}),
        (with_ray.claims, {}),
        (with_ray.gangs, {"feature_gates": GATES}),
    ],
)
def test_the_result_is_that_of_threads(
    ray: Ray, make: Callable[[], Cluster], settings: dict[str, Any]
) -> None:
    with_ray.test_the_result_is_that_of_threads(ray, make, settings)
    assert ray.options == [{"num_cpus": 0, "scheduling_strategy": "SPREAD"}] * len(ray.options)
    assert ray.is_connected


def test_the_command_prints_the_same(ray: Ray, capsys: pytest.CaptureFixture[str]) -> None:
    with_ray.test_the_command_prints_the_same(ray, capsys)


def test_an_actor_that_died_is_named(ray: Ray) -> None:
    with RayActors(inits()) as pool:
        ray.kill(pool._actors[1])
        with pytest.raises(MoorageError, match=r"^scheduler 1 has died$"):
            pool.propose([ints(0), ints(1)])
    with RayBinder(Cluster(), {}, {}) as binder:
        ray.kill(binder._actor)
        with pytest.raises(MoorageError, match=r"^the binder has died$"):
            binder.resume()


def test_an_error_of_an_actor_is_the_caller_s(ray: Ray) -> None:
    with_ray.test_an_error_of_an_actor_is_the_caller_s(ray)


def test_a_cluster_that_was_started_is_ended(ray: Ray) -> None:
    ray.is_connected = False
    with RayActors(inits()):
        assert ray.is_connected
    assert not ray.is_connected
    wrong = inits()[0].__class__((), Cluster(), 0, None, {"tie_break": "last"})
    with pytest.raises(ValueError, match=r"^tie_break must be one of first, random, go-heap, not 'last'"):
        RayActors([wrong])
    assert not ray.is_connected


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"^ray is missing \(extra ray\)"):
        RayConnection()


def test_the_binder_waits_for_victims_and_writes_what_changed(ray: Ray) -> None:
    there = with_ray.victims()
    scheduler = Scheduler(there)
    pods = {pod.metadata.name: pod for pod in scheduler.client.list(Pod)[0]}
    low, high = pods["low0"], pods["high0"]
    where = low.spec.node_name
    with RayBinder(there, {}, {}) as binder:
        assert binder.current(low) is low
        found = binder.bind([Placement(high, where, (low,), 0, "default-scheduler")])
        assert [one.placement.pod.metadata.name for one in found] == ["high0"]
        later = binder.resume() if found[0].waiting else found
        assert [one.status for one in later] == [None]
        binder.write_to(scheduler.client)
    after = {pod.metadata.name: pod for pod in scheduler.client.list(Pod)[0]}
    assert "low0" not in after
    assert after["high0"].spec.node_name == where


def test_a_sweep_is_that_of_one_process(ray: Ray) -> None:
    assert run("ray").to_dict() == run().to_dict()
