"""Verbs take pods as dicts and texts, and the store takes any object, with the checks that files get."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.make import written

import moorage as mo
from moorage.errors import InputError
from moorage.kube import ObjectMeta, PodSpec, PriorityClass, object_to_dict
from moorage.store import AlreadyExistsError

GOLD = written("scheduling.k8s.io/v1/PriorityClass", "gold", value=7)
SIZE = {"cpu": "4", "pods": "9"}
NODE = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": SIZE, "capacity": SIZE}}


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "c", "resources": {"limits": {"cpu": cpu}}}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


@pytest.fixture
def scheduler() -> mo.Scheduler:
    return mo.Scheduler(mo.load(NODE, GOLD))


def test_a_dict_is_asked_about_like_a_pod(scheduler: mo.Scheduler) -> None:
    assert scheduler.can_schedule_pod(pod("p", priorityClassName="gold"))
    assert not scheduler.can_schedule_pod(pod("p", cpu="5"))  # limits are requests by default
    assert scheduler.examine(pod("p")).feasible == ["n"]
    assert scheduler.ask.explain(pod("p", cpu="5")).changes
    assert scheduler.schedule_one(pod("p")).node == "n"


def test_dicts_are_scheduled_like_pods(scheduler: mo.Scheduler) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: c}\nspec: {containers: [{name: c, image: i}]}"
    mixed = [pod("a"), mo.read_object(pod("b")), text]
    assert scheduler.schedule_pods(mixed).placements == {f"default/{name}": "n" for name in "abc"}
    assert scheduler.schedule_pods((pod("d"),), dry_run=True).placements == {"default/d": "n"}
    assert len(scheduler.schedule_by_template(pod("t"), 9).rows) == 2
    with scheduler.preempt_pods([pod("x", cpu="3", priorityClassName="gold")]) as handle:
        assert [one.name for one in handle.pods] == ["x"]
        assert handle.rows.tolist() == [0]


def test_questions_of_planning_take_dicts_and_texts(scheduler: mo.Scheduler) -> None:
    text = json.dumps(pod("t", cpu="3") | {"apiVersion": "v1"})
    assert scheduler.ask.capacity(pod("p", cpu="2")).count == 2
    assert scheduler.ask.capacity(text).count == 1
    mixed = scheduler.ask.capacity([(pod("p"), 2), pod("q", priorityClassName="gold")])
    assert (mixed.rounds, [each.count for each in mixed.templates]) == (1, [2, 1])
    template = NODE | {"metadata": {"name": "large"}}
    assert scheduler.ask.nodes_needed((pod("p"), 5), like=template).counts == {"large": 1}
    assert scheduler.ask.nodes_needed([pod("p"), (text, 2)], like=["n", template]).nodes == 1
    assert scheduler.ask.nodes_needed(pod("p"), like="n").nodes == 0


def test_nodes_like_a_dict_are_added(scheduler: mo.Scheduler) -> None:
    template = NODE | {"metadata": {"name": "large", "labels": {"pool": "x"}}}
    created = scheduler.change.add_nodes(2, like=template).created
    assert len([name for name in created if name.startswith("Node large")]) == 2
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: small}\nstatus: {allocatable: {cpu: 1, pods: 9}}"
    assert scheduler.change.add_nodes(1, like=text).created[0].startswith("Node small")
    with pytest.raises(InputError, match=r'"n2"|n2'):
        scheduler.change.add_nodes(1, like="n2")


def test_a_group_is_scheduled_from_a_dict() -> None:
    on = {"GenericWorkload": True}
    group = written(
        "scheduling.k8s.io/v1beta1/PodGroup",
        {"name": "g", "namespace": "default"},
        {"schedulingPolicy": {"gang": {"minCount": 2}}},
    )
    scheduler = mo.Scheduler(mo.load(NODE, group), feature_gates=on, kubernetes_version="1.37")
    members = [pod(name, schedulingGroup={"podGroupName": "g"}) for name in "ab"]
    assert scheduler.schedule_workload(group, members).placements == {"default/a": "n", "default/b": "n"}
    with pytest.raises(TypeError, match="must be a PodGroup or CompositePodGroup, not Pod"):
        scheduler.schedule_workload(pod("p"))


@pytest.mark.parametrize("name", ["web", "shop/web", "deploy/web", "deployments.apps/shop/web"])
def test_an_object_has_each_of_its_names(name: str) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("p")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    one = mo.Scheduler(mo.load(NODE, web | {"spec": spec}))
    assert one.ask.capacity(name).count == one.ask.capacity([(name, 1)]).count > 0
    assert one.ask.explain(name).pod.namespace == "shop"
    assert one.change.label(name, "a=b").changed == ("Deployment shop/web",)
    assert one.change.scale(name, 2).changed == ("Deployment shop/web",)
    (key, *_) = one.pods.pending
    assert one.examine(key).feasible == one.examine(f"pod/{key}").feasible == ["n"]
    assert one.change.delete(name).deleted == ("Deployment shop/web",)


@pytest.mark.parametrize("name", ["n", "node/n"])
def test_a_node_has_each_of_its_names(name: str, scheduler: mo.Scheduler) -> None:
    assert scheduler.change.label(name, "a=b").changed == ("Node n",)
    assert scheduler.change.cordon([name]).changed == scheduler.change.uncordon(name).changed == ("Node n",)
    assert scheduler.change.add_nodes(1, name).created == ("Node n-1",)
    assert [room.name for room in scheduler.ask.node_room([name])] == ["n"]
    assert scheduler.ask.drain_plan(name).nodes == ("n",)


CALLS: dict[str, Callable[[mo.Scheduler, Any], object]] = {
    "examine": lambda one, value: one.examine(value),
    "can_schedule_pod": lambda one, value: one.can_schedule_pod(value),
    "explain": lambda one, value: one.ask.explain(value),
    "schedule_one": lambda one, value: one.schedule_one(value),
    "schedule_pods": lambda one, value: one.schedule_pods([pod("q"), value]),
    "preempt_pods": lambda one, value: one.preempt_pods([pod("q"), value]),
    "schedule_by_template": lambda one, value: one.schedule_by_template(value, 1),
    "schedule_workload": lambda one, value: one.schedule_workload(value),
    "capacity": lambda one, value: one.ask.capacity(value),
    "nodes_needed": lambda one, value: one.ask.nodes_needed((value, 3), like="n"),
    "nodes_needed, like": lambda one, value: one.ask.nodes_needed(pod("q"), like=value),
    "add_nodes": lambda one, value: one.change.add_nodes(1, like=value),
    "bound": lambda one, value: one.ask.bound([value]),
    "apply": lambda one, value: one.change.apply(value),
    "create": lambda one, value: one.client.create(value),
}


@pytest.mark.parametrize("verb", CALLS)
def test_a_wrong_field_is_refused_and_nothing_changes(verb: str, scheduler: mo.Scheduler) -> None:
    with pytest.raises(
        InputError, match=r'^input: Pod p: unknown field "spec.nodename"; nearest: nodeName, '
    ):
        CALLS[verb](scheduler, pod("p", nodename="n"))
    assert scheduler.cache.node_info("n").pods == []
    assert scheduler.client.list(mo.Pod)[0] == []


OF_PODS = sorted(CALLS.keys() - {"nodes_needed, like", "add_nodes"})
FAULTS = {
    "priority": (
        pod("p", priority=5),
        r"the integer value of priority \(5\) must not be provided in pod spec",
    ),
    "image": (pod("p", containers=[{"name": "c"}]), r"spec.containers\[0\].image: Required value"),
    "text": (b"kind: Pod\nmetadata: {name: p}", "apiVersion not set; write v1"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verb", ["load", *OF_PODS])
def test_what_a_server_refuses_of_a_new_pod_is_refused(
    verb: str, fault: str, scheduler: mo.Scheduler
) -> None:
    value, text = FAULTS[fault]
    with pytest.raises(InputError, match=text):
        CALLS[verb](scheduler, value) if verb in CALLS else mo.load(NODE, value)
    assert scheduler.client.list(mo.Pod)[0] == []


def test_a_pod_of_moorage_is_taken_as_it_is(scheduler: mo.Scheduler) -> None:
    own = mo.Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u"), spec=PodSpec(priority=5))
    assert scheduler.schedule_pods([own]).placements == {"default/p": "n"}


# ---- the store ---------------------------------------------------------------------------------------------


def test_a_store_completes_what_is_no_object() -> None:
    store = mo.ObjectStore()
    assert store.create(GOLD) == store.get(PriorityClass, "gold")
    stored = store.create(pod("p", priorityClassName="gold"))
    assert isinstance(stored, mo.Pod)
    assert (stored.key, stored.spec.priority) == ("default/p", 7)
    with pytest.raises(AlreadyExistsError):
        store.create(pod("p"))


def test_a_store_gives_a_new_object_a_uid_of_its_own() -> None:
    store = mo.ObjectStore()
    first = store.create(pod("p"))
    store.delete(mo.Pod, "p", "default")
    assert store.create(pod("p")).metadata.uid != first.metadata.uid
    named = store.create({"kind": "Pod", "metadata": {"generateName": "web-"}, "spec": pod("p")["spec"]})
    assert named.name.startswith("web-")
    assert store.create(pod("q") | {"metadata": {"name": "q", "uid": "u"}}).metadata.uid == "u"


def test_a_manifest_is_applied_and_an_object_replaces(scheduler: mo.Scheduler) -> None:
    labelled = NODE | {"metadata": {"name": "n", "labels": {"pool": "a"}}}
    assert scheduler.change.apply(labelled).changed == ("Node n",)
    assert scheduler.change.apply([pod("p"), pod("q")]).created[1:] == ("Pod default/p", "Pod default/q")
    kept = scheduler.client.get(mo.Node, "n")
    assert (kept.metadata.labels, object_to_dict(kept)["status"]) == ({"pool": "a"}, NODE["status"])
