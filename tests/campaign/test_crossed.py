"""Bred scenarios in two schedulers: what differs is found."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from moorage import Scheduler
from moorage.kube import Pod
from tests.campaign import crossed


def scenario() -> dict[str, Any]:
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}},
    }
    requests = {"resources": {"requests": {"cpu": "1"}}}
    pods = [
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [requests]}}
        for name in "pq"
    ]
    steps = [{"op": "schedule", "pod": {"kind": "Pod", "apiVersion": "v1"} | pod} for pod in pods]
    return {"name": "s", "objects": [node], "steps": [*steps, {"op": "removeNode", "name": "n"}]}


@pytest.mark.parametrize("seed", range(8))
def test_equal_decisions_differ_in_nothing(seed: int) -> None:
    assert crossed.difference(scenario(), seed) is None


def test_objects_that_both_refuse_differ_in_nothing() -> None:
    twice = scenario()
    twice["objects"] *= 2
    assert crossed.difference(twice, 1) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_disturbance_that_stays_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def disturb(scheduler: Scheduler, random: Random) -> None:
        for pod in scheduler.client.list(Pod)[0][:1]:
            scheduler.client.delete(Pod, pod.name, pod.namespace)

    monkeypatch.setattr(crossed, "disturb", disturb)
    assert crossed.difference(scenario(), seed) is not None


def test_a_fork_that_decides_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossed, "disturb", lambda scheduler, random: ({}, {}, {}))
    assert crossed.difference(scenario(), 1) is not None
