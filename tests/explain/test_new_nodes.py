"""New nodes that are offered, added by the command's change: what DaemonSets put there takes room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conftest import NIGHTLY
from tests.explain.explain_world import World, random_pod, random_requests, random_world
from tests.make import ZONE, container, node, pod, written

import moorage as mo
from moorage.answers.explain import Explanation, HelpfulChange
from moorage.kube import (
    DaemonSet,
    DaemonSetSpec,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Toleration,
)

SEEDS = range(600 if NIGHTLY else 15)


def daemon_set(name: str, spec: PodSpec) -> DaemonSet:
    labels = {"daemon": name}
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=spec)
    selector = LabelSelector(match_labels=labels)
    return DaemonSet(
        metadata=ObjectMeta(name=name, namespace="default", uid=name),
        spec=DaemonSetSpec(selector=selector, template=template),
    )


def asking(cpu: str, **spec: Any) -> PodSpec:
    return pod("d", containers=(container("c", {"cpu": cpu}),), **spec).spec


def random_daemons(random: Random) -> list[DaemonSet]:
    made = []
    for at in range(random.randint(1, 3)):
        spec = pod("d", containers=(container("c", random_requests(random)),)).spec
        if random.random() < 0.5:
            spec = replace(spec, tolerations=(Toleration(operator="Exists"),))
        if random.random() < 0.3:
            spec = replace(spec, node_selector={random.choice(("disk", "rack")): random.choice("xy")})
        made.append(daemon_set(f"d{at}", spec))
    return made


def fits_with_one_more(
    world: World, pending: Pod, like: str, labels: Mapping[str, str] = {}
) -> Sequence[str]:
    """The nodes that the pod fits after the command's change and the pods that come with the node."""
    scheduler = world.scheduler()
    before = set(scheduler.pods.pending)
    scheduler.change.add_nodes(1, like, labels=labels)
    came = [one for key, one in scheduler.pods.pending.items() if key not in before]
    scheduler.schedule_pods([replace(p, spec=replace(p.spec, preemption_policy="Never")) for p in came])
    return scheduler.examine(pending).feasible


def offered(explanation: Explanation) -> list[HelpfulChange]:
    return [one for one in explanation.changes if one.kind == "add-node"]


def places() -> Iterator[dict[str, str]]:
    """What a user would try: each zone, and each value of another label that nodes have."""
    yield {}
    yield from ({ZONE: zone} for zone in ("z1", "z2", "z3"))
    yield from ({key: value} for key in ("disk", "rack", "gen") for value in "xy357")


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_offered_node_added_by_the_command_has_the_promised_effect(seed: int) -> None:
    random = Random(seed)
    bare, pending = random_world(random), random_pod(random)
    world = World(bare.nodes, bare.bound, random_daemons(random))
    explanation = world.scheduler().ask.explain(pending)
    nodes = offered(explanation)
    for one in nodes:
        fits = fits_with_one_more(world, pending, one.values["like"], one.values.get("label", {}))
        assert len(fits) == one.feasible_nodes > 0
    if not (explanation.feasible or nodes):
        for each in world.nodes:
            assert not any(fits_with_one_more(world, pending, each.name, labels) for labels in places())


def test_a_label_that_brings_daemons_leaves_what_room_they_leave() -> None:
    one = node("a", cpu="4", memory="8Gi")
    chosen = {"disk": "x"}
    asks = pod("p", requests={"cpu": "3500m"}, node_selector=chosen)
    labels = [
        each.text for each in World([one]).scheduler().ask.explain(asks).changes if each.kind == "add-label"
    ]
    assert labels == ["label node a with disk=x"]
    daemons = [daemon_set("d", asking("600m", node_selector=chosen))]
    found = World([one], (), daemons).scheduler().ask.explain(asks).changes
    assert "add-label" not in {each.kind for each in found}


@pytest.mark.parametrize("hard", ["5", "9"])
def test_a_node_is_added_for_a_pod_that_a_caller_gives(hard: str) -> None:
    """The node is added, and the pod made, as a user would: a quota may refuse the pod."""
    meta, cpus = {"name": "q", "namespace": "default"}, {"hard": {"requests.cpu": hard}}
    quota = written("v1/ResourceQuota", meta, cpus, status=cpus | {"used": {"requests.cpu": "3"}})
    sized = {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "9"}}
    asks = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]}
    full = written("v1/Pod", {"name": "p", "namespace": "default"}, {"nodeName": "n"} | asks)
    listed = [written("v1/Node", "n", status=sized), full]
    one = mo.Scheduler(mo.load({"apiVersion": "v1", "kind": "List", "items": listed}, quota))
    seen = one.ask.explain(written("v1/Pod", {"name": "given", "namespace": "default"}, asks))
    offered = [change.text for change in seen.changes if change.kind == "add-node"]
    assert offered == ["add a node like n (4 cpu, 16Gi memory)"] * (hard == "9")
    assert len(one.client.list("Pod")[0]) == 1
