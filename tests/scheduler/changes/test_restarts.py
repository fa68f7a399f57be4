"""Restarts roll workloads out, one after the other; suspended Jobs run when they are let."""

from __future__ import annotations

import pytest
from tests.controllers.workloads.make import daemons, job, machine, pods, replicas, scheduler

from moorage.errors import InputError
from moorage.objects.model.workload import Deployment
from moorage.scheduler.changes.restarts import restarted


def test_a_restart_replaces_the_pods_if_there_is_room_for_the_surge() -> None:
    one = scheduler(machine("a", 3), replicas("Deployment", "web", 2))
    before = set(pods(one, "web"))
    assert one.restart("deploy/web").changed == ("Deployment default/web",)
    assert not one.run().unschedulable
    assert len(pods(one, "web")) == 2
    assert not before & set(pods(one, "web"))
    full = scheduler(machine("a", 2), replicas("Deployment", "web", 2))
    full.restart("deploy/web")
    assert len(full.run().unschedulable) == 1


def test_workloads_are_restarted_one_after_the_other() -> None:
    web, api = replicas("Deployment", "web", 2), replicas("Deployment", "api", 2)
    one = scheduler(machine("a", 6), web, api, daemons("log"))
    before = set(pods(one))
    found = one.restart_all().changed
    assert found == ("DaemonSet default/log", "Deployment default/api", "Deployment default/web")
    assert not one.run().unschedulable  # there is room for one surge, and not for two
    assert not before & set(pods(one))
    assert len(pods(one)) == 5
    both = scheduler(machine("a", 4), web, api)
    both.restart_all()
    assert len(both.run().unschedulable) == 2


def test_a_workload_can_be_restarted_again() -> None:
    one = scheduler(machine("a"), replicas("Deployment", "web", 1))
    deployment = one.client.get(Deployment, "web", "default")
    once = restarted(deployment)
    assert restarted(once).spec.template != once.spec.template != deployment.spec.template


@pytest.mark.parametrize("reference", ["job/one", "deploy/none", "web"])
def test_what_cannot_be_restarted_is_refused(reference: str) -> None:
    with pytest.raises(InputError):
        scheduler(machine("a"), job("one", 1)).restart(reference)


def test_suspended_jobs_run_when_they_are_let() -> None:
    one = scheduler(machine("a"), job("one", 2, suspend=True), job("two", 1))
    assert pods(one, "one") == {}
    assert one.unsuspend().changed == ("Job default/one",)
    one.run()
    assert sorted(pods(one, "one").values()) == ["a", "a"]
    assert one.unsuspend().changed == ()
