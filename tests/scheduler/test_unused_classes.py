"""Classes of pods that no pod has any more are forgotten, and no decision depends on it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.doors.engine import scheduler_state as module
from tests.make import node

from moorage import Scheduler
from moorage.kube import Pod, PodDisruptionBudget, decode_object
from moorage.store import ObjectStore

ZONES = ("a", "b", "c")
ROUNDS = 12
PODS = 10


def job_pod(number: int, rng: random.Random) -> Pod:
    """A pod with labels and an owner of its own; some spread, attract, avoid, preempt or fit nowhere."""
    own = {"job-name": f"job-{number}"}
    labels = {"app": f"a{number % 3}", **own}
    spec: dict[str, Any] = {"priority": rng.choice((0, 0, 5))}
    kind, cpu = rng.randrange(6), rng.choice(("500m", "1", "9"))
    if kind == 0:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": rng.choice((own, {"app": labels["app"]}))},
            }
        ]
    elif kind in (1, 2):
        selector = rng.choice((own, {"app": labels["app"]}))
        term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": selector}}
        side = "podAffinity" if kind == 1 else "podAntiAffinity"
        spec["affinity"] = {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif kind == 3:
        spec["nodeSelector"] = {"none": str(number)}
    requests = {"cpu": cpu, "memory": "1Gi"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "uid": str(number), "controller": True}
    made = decode_object(
        {
            "kind": "Pod",
            "metadata": {
                "name": f"p{number}",
                "namespace": "default",
                "labels": labels,
                "ownerReferences": [{"name": f"job-{number}", **owner}],
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **spec},
        }
    )
    assert isinstance(made, Pod)
    return made


def budget() -> PodDisruptionBudget:
    made = decode_object(
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "budget", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "a1"}}},
            "status": {"disruptionsAllowed": 1},
        }
    )
    assert isinstance(made, PodDisruptionBudget)
    return made


def history(seed: int, anew: bool) -> tuple[list[Any], Scheduler]:
    """What pods that come and go meet, round by round."""
    rng, store = random.Random(seed), ObjectStore()
    store.create(budget())
    for at in range(6):
        store.create(node(f"n{at}", ZONES[at % 3], {"none": str(at)}))
    one, told = Scheduler(store), list[Any]()
    for round_ in range(ROUNDS):
        for number in range(round_ * PODS, (round_ + 1) * PODS):
            store.create(job_pod(number, rng))
        if anew:
            assert one.cache.state.number_classes_anew()
        result = one.run()
        told.append((dict(result.placements), dict.fromkeys(result.evicted)))
        told.append({key: str(failure) for key, failure in result.unschedulable.items()})
        there = [pod.metadata.name for pod in store.list(Pod)[0]]
        for name in rng.sample(there, len(there) // 3):
            store.delete(Pod, name, "default")
        store.create(node(f"more{round_}", ZONES[round_ % 3], {"none": str(round_ * PODS + 3)}, cpu="2"))
    return told, one


@pytest.mark.parametrize("seed", range(4))
def test_decisions_are_those_of_old_numbers(seed: int) -> None:
    assert history(seed, True)[0] == history(seed, False)[0]


def test_classes_are_those_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW_CLASSES", 1)
    _, one = history(0, False)
    one.sync()
    one.run()
    assert len(one.cache.state.classes) <= len(one.client.list(Pod)[0])


def test_numbers_stay_in_a_transaction_and_beside_a_fork() -> None:
    _, one = history(0, False)
    state = one.cache.state
    known, generation = len(state.classes), state.classes.generation
    with one.cache.transaction():
        assert not state.number_classes_anew()
    fork = state.fork()
    assert not state.number_classes_anew()
    assert (len(fork.classes), fork.classes.generation) == (known, generation)
    del fork
    assert state.number_classes_anew()
    assert (len(state.classes) < known, state.classes.generation != generation) == (True, True)
