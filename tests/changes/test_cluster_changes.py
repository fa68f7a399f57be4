"""Changes of a cluster: what kubectl would write, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import (
    daemons,
    machine,
    nodes,
    pods,
    replicas,
    scheduler,
    template,
)
from tests.make import make, written
from tests.objects.make import owned, pod, workload

import moorage as mo
from moorage import Scheduler, expanded
from moorage.errors import InputError
from moorage.kube import (
    CSINode,
    Deployment,
    Namespace,
    Node,
    NodeSpec,
    Object,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    Taint,
    build_cluster,
)
from moorage.store import ObjectStore


def world(**settings: Any) -> Scheduler:
    return scheduler(
        machine("a", zone="z1", pool="x"),
        machine("b", zone="z1"),
        machine("c", zone="z2"),
        replicas("Deployment", "web", 4),
        daemons("log"),
        **settings,
    )


def node(one: Scheduler, name: str) -> Node:
    found: Node = one.client.get(Node, name)
    return found


# ---- apply, delete, scale, label -------------------------------------------------------------------------


def test_apply_creates_and_replaces() -> None:
    one = world()
    change = one.change.apply([pod("p", metadata={"namespace": "new"}), replicas("Deployment", "web", 2)])
    assert change.created == ("Namespace new", "Pod new/p")
    assert change.changed == ("Deployment default/web",)
    assert one.client.get(Namespace, "new").metadata.labels == {"kubernetes.io/metadata.name": "new"}
    assert one.client.get(Pod, "p", "new").spec.scheduler_name == "default-scheduler"
    assert len(pods(one, "web")) == 2


def test_each_apply_of_a_generated_name_makes_a_pod_of_its_own() -> None:
    one = world()
    before = len(one.client.list(Pod)[0])
    text = written("v1/Pod", {"generateName": "w-"}, {"containers": [{"name": "c", "image": "i"}]})
    made = [
        name
        for what in (text, [text, text], text)
        for name in one.change.apply(what).created
        if "Pod" in name
    ]
    assert len(set(made)) == len(one.client.list(Pod)[0]) - before == 4


def test_a_kind_that_is_not_simulated_is_refused_by_name() -> None:
    spec = {"replicas": 2, "workloadRef": {"kind": "Deployment", "name": "web"}}
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": spec}
    with pytest.raises(InputError, match="Rollout shop/a: is not simulated"):
        world().change.apply(rollout | {"metadata": {"name": "a", "namespace": "shop"}})


def test_a_new_pod_gets_the_claims_of_its_ephemeral_volumes() -> None:
    storage = make("StorageClass", "disk", provisioner="example.com/disk")
    one = scheduler(machine("a"), storage)
    claim = {"storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
    claim["accessModes"] = ["ReadWriteOnce"]
    volumes = [{"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim}}} for name in "vw"]
    given = make("PersistentVolumeClaim", "p-w", claim, metadata={"labels": {"is": "given"}})
    with one.transaction():
        one.change.apply([pod("p", {"volumes": volumes}), given])
        (first,) = [each for each in one.client.list(PersistentVolumeClaim)[0] if each.name == "p-v"]
        assert first.metadata.is_controlled_by(one.client.get(Pod, "p", "default").metadata.uid)
        assert one.client.get(PersistentVolumeClaim, "p-w", "default").metadata.labels == {"is": "given"}
    assert one.client.list(PersistentVolumeClaim)[0] == []
    one.change.apply(pod("p", {"volumes": volumes}))
    assert one.run().placements == {"default/p": "a"}


def test_objects_of_a_loaded_cluster_can_be_applied() -> None:
    """They refer to each other by UIDs that were made up."""
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "x"}}}}]
    owners = replicas("Deployment", "web", 2), replicas("ReplicaSet", "db", 2)
    given = expanded(build_cluster([*owners, pod("p", {"volumes": volumes})]))
    one, uids = scheduler(machine("a")), set[str]()
    for _ in range(2):
        one.change.apply([*given.others, *given.pods])
        one.change.apply([each for each in given.others if isinstance(each, PersistentVolumeClaim)])
        assert sorted(pods(one)) == sorted(each.name for each in given.pods)
        (claim,) = one.client.list(PersistentVolumeClaim)[0]
        assert claim.metadata.is_controlled_by(one.client.get(Pod, "p", "default").metadata.uid)
        assert claim.metadata.uid not in uids
        uids.add(claim.metadata.uid)
        one.change.delete("deploy/web", "rs/db", "pod/p")
        assert not pods(one)


def test_what_is_made_again_after_its_deletion_is_another_object() -> None:
    one = scheduler(machine("n"), pod("p"))
    one.change.add_nodes(1, like="n")

    def uids() -> set[str]:
        return {one.client.get(Pod, "p", "default").metadata.uid, node(one, "n-1").metadata.uid}

    before = uids()
    one.change.delete("pod/p", "node/n-1")
    one.change.apply(pod("p"))
    one.change.add_nodes(1, like="n")
    assert before.isdisjoint(uids())


def test_a_bound_pod_keeps_its_node_and_its_status() -> None:
    one = scheduler(machine("n"), pod("p"))
    before = one.client.get(Pod, "p", "default")
    one.change.apply(pod("p", metadata={"labels": {"new": "x"}}))
    after = one.client.get(Pod, "p", "default")
    assert (after.spec.node_name, after.status) == ("n", before.status)
    assert after.metadata.uid == before.metadata.uid
    assert after.metadata.labels == {"new": "x"}


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (
            make("Pod", "Q", {"containers": [{"name": "c"}]}),
            'Pod Q: metadata.name: Invalid value: "Q"',
        ),
        (
            pod("q", {"priorityClassName": "none"}),
            'pods "q" is forbidden: no PriorityClass with name none was found',
        ),
        (workload("Job", "j", {"parallelism": 2**31 - 1}), "spec.parallelism"),
    ],
)
def test_of_a_bad_change_nothing_is_written(bad: Object, error: str) -> None:
    one = world()
    before = one.client.list(Pod), one.client.list(Deployment)
    with pytest.raises(InputError, match=error):
        one.change.apply([pod("p"), replicas("Deployment", "web", 1), bad])
    assert (one.client.list(Pod), one.client.list(Deployment)) == before


def test_permanent_namespaces_stay() -> None:
    one = world()
    before = pods(one)
    with pytest.raises(
        InputError, match=r'^namespaces "default" is forbidden: this namespace may not be dele'
    ):
        one.change.delete("node/a", "ns/default")
    assert (pods(one), one.client.get(Node, "a").name) == (before, "a")


def test_deleting_objects_takes_their_pods_along() -> None:
    one = world()
    change = one.change.delete("deploy/web", "node/c")
    assert change.deleted == ("Deployment default/web", "Node c")
    assert pods(one, "web") == {}
    assert nodes(one) == ["a", "b"]
    gone = set(pods(one, "log"))
    assert len(one.change.delete(kind="po", selector="app=log").deleted) == len(gone) == 2
    assert gone.isdisjoint(pods(one, "log"))


def test_labels_are_set_and_removed() -> None:
    one = world()
    assert one.change.label("node/a", "pool-", "tier=1").changed == ("Node a",)
    labels = node(one, "a").metadata.labels
    assert ("pool" in labels, labels["tier"]) == (False, "1")


# ---- nodes -----------------------------------------------------------------------------------------------


def test_new_nodes_are_like_another() -> None:
    one = world()
    one.change.taint("a", "k=v:NoSchedule", "node.kubernetes.io/disk-pressure:NoSchedule")
    one.change.cordon("a")
    one.client.create(CSINode(metadata=replace(node(one, "a").metadata, uid="", resource_version="")))
    change = one.change.add_nodes(2, "a", zone="z9")
    assert change.created == ("Node a-1", "CSINode a-1", "Node a-2", "CSINode a-2")
    new, old = node(one, "a-2"), node(one, "a")
    topology = {"kubernetes.io/hostname": "a-2", "topology.kubernetes.io/zone": "z9"}
    assert new.metadata.labels == old.metadata.labels | topology
    assert new.spec.taints == (Taint(key="k", value="v", effect="NoSchedule"),)
    assert not new.spec.unschedulable
    assert new.status.allocatable == old.status.allocatable
    assert new.metadata.uid != old.metadata.uid
    assert one.change.add_nodes(1, "a").created[0] == "Node a-3"


def test_new_nodes_of_a_template_get_daemons() -> None:
    one = world()
    like = build_cluster([machine("big", cpu=64)]).nodes[0]
    assert one.change.add_nodes(2, like).created == ("Node big-1", "Node big-2")
    one.run()
    assert sorted(pods(one, "log").values()) == ["a", "b", "big-1", "big-2", "c"]


def test_nodes_with_finalizers_of_their_provisioner_can_be_removed() -> None:
    one = world()
    held = one.client.get(Node, "a")
    meta = replace(held.metadata, finalizers=("karpenter.sh/termination",))
    one.client.update(replace(held, metadata=meta))
    assert one.change.remove_nodes("a").deleted[0] == "Node a"
    assert [node.name for node in one.client.list(Node)[0]] == ["b", "c"]


def test_removed_nodes_take_their_pods() -> None:
    one = world()
    on = [name for name, at in pods(one).items() if at == "a"]
    change = one.change.remove_nodes("pool=x")
    assert change.deleted[0] == "Node a"
    assert {name.removeprefix("Pod default/") for name in change.deleted[1:]} == set(on)
    one.run()
    assert len(pods(one, "web")) == 4
    assert "a" not in pods(one).values()


def test_nodes_by_zone() -> None:
    one = world()
    assert one.change.cordon("zone in (z1)").changed == ("Node a", "Node b")
    assert one.change.uncordon(["b", "c"]).changed == ("Node b",)
    assert [name for name in "abc" if node(one, name).spec.unschedulable] == ["a"]


def test_the_taint_of_a_cordoned_node_goes_with_the_cordon() -> None:
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    since = replace(cordon, time_added="2026-01-01T00:00:00Z")
    one = scheduler(machine("a"), replace(machine("b"), spec=NodeSpec(unschedulable=True, taints=(since,))))
    one.change.taint("a", "k=v:NoSchedule")
    one.change.cordon("a")
    other = Taint(key="k", value="v", effect="NoSchedule")
    assert node(one, "a").spec.taints == (other, cordon)
    one.change.uncordon(["a", "b"])
    assert node(one, "a").spec.taints == (other,)
    assert node(one, "b").spec.taints == ()


def test_a_finished_daemon_leaves() -> None:
    daemon = pod("d", {"nodeName": "a"}, metadata=owned("DaemonSet", "log"), status={"phase": "Succeeded"})
    assert scheduler(machine("a"), daemon).change.drain("a").deleted == ("Pod default/d",)


@pytest.mark.parametrize(
    "leave", [lambda one: one.change.drain("a"), lambda one: one.change.remove_nodes("a")]
)
def test_finished_pods_leave_with_their_node(leave: Callable[[Scheduler], mo.Change]) -> None:
    done = pod("done", {"nodeName": "a"}, status={"phase": "Failed"})
    one = scheduler(machine("a"), machine("b"), done)
    with one.transaction():
        assert "Pod default/done" in leave(one).deleted
        assert not pods(one)
    branch = one.fork()
    for each in (one, branch):
        assert "Pod default/done" in leave(each).deleted
        assert not pods(each)
    later = pod("later", {"nodeName": "b"})
    one.change.apply(later)
    one.client.patch(Pod, "later", "default", {"status": {"phase": "Succeeded"}}, subresource="status")
    assert one.change.drain("b").deleted == ("Pod default/later",)
    assert one.change.drain("b").deleted == ()


@pytest.mark.parametrize(
    ("changes", "taints"),
    [
        (["k=v:NoSchedule"], [("k", "v", "NoSchedule")]),
        (["k:NoExecute", "k=w:NoSchedule"], [("k", "", "NoExecute"), ("k", "w", "NoSchedule")]),
        (["k=v:NoSchedule", "k=w:NoSchedule"], [("k", "w", "NoSchedule")]),
        (["k=v:NoSchedule", "k:NoExecute", "k:NoSchedule-"], [("k", "", "NoExecute")]),
        (["k=v:NoSchedule", "k:NoExecute", "k-"], []),
        (["k=v:NoSchedule", "k=v:NoSchedule-"], []),
    ],
)
def test_taints_are_set_and_removed(changes: list[str], taints: list[tuple[str, str, str]]) -> None:
    one = world()
    one.change.taint("a", *changes)
    assert [(each.key, each.value, each.effect) for each in node(one, "a").spec.taints] == taints


# ---- drain -----------------------------------------------------------------------------------------------


def test_drain_evicts_what_comes_back() -> None:
    one = world()
    one.change.apply(pod("lonely", {"nodeName": "a"}))
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    one.change.apply(pod("static", {"nodeName": "a"}, metadata=mirror))
    web = {name for name, at in pods(one, "web").items() if at == "a"}
    daemon = next(name for name, at in pods(one, "log").items() if at == "a")
    change = one.change.drain("a")
    assert change.changed == ("Node a",)
    assert set(change.deleted) == {f"Pod default/{name}" for name in web}
    assert change.kept == {
        f"Pod default/{daemon}": "pod of a DaemonSet",
        "Pod default/lonely": "no controller would replace it",
        "Pod default/static": "mirror pod",
    }
    assert list(change.unfinished) == ["Pod default/lonely"]
    one.run()
    assert len(pods(one, "web")) == 4
    assert "a" not in pods(one, "web").values()
    assert one.change.drain("a", force=True).deleted == ("Pod default/lonely",)


def test_drain_respects_budgets_until_pods_are_placed() -> None:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    one = scheduler(machine("a"), replicas("Deployment", "web", 3))
    one.change.apply([make("PodDisruptionBudget", "pdb", spec), machine("b")])
    first = one.change.drain("a")
    assert (len(first.deleted), len(first.unfinished)) == (1, 2)
    text = "The disruption budget pdb needs 2 healthy pods and has 3 currently"
    assert all(text in why for why in first.unfinished.values())
    for _ in range(2):
        one.run()
        assert len(one.change.drain("a").deleted) == 1
    one.run()
    assert list(pods(one).values()) == ["b"] * 3


def test_drain_without_regard_to_budgets() -> None:
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    one = scheduler(machine("a"), replicas("Deployment", "web", 3), make("PodDisruptionBudget", "pdb", spec))
    assert len(one.change.drain("a").unfinished) == 3
    assert len(one.change.drain("a", respect_budgets=False).deleted) == 3
    assert one.client.get(PodDisruptionBudget, "pdb", "default").status.current_healthy == 0


def test_a_drain_may_keep_pods_with_local_data() -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    spec = {"replicas": 1, "template": template("web", volumes=volumes)}
    one = scheduler(machine("a"), make("ReplicaSet", "web", spec))
    kept = one.change.drain("a", delete_local_data=False).unfinished
    assert list(kept.values()) == ["has local data (emptyDir)"]
    assert len(one.change.drain("a").deleted) == 1


# ---- errors, transactions, foreign stores ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda one: one.change.cordon(["a", "nope"]), 'there is no Node "nope"'),
        (lambda one: one.change.remove_nodes("pool in"), 'selector "pool in": '),
        (lambda one: one.change.taint("a", "k=v:NoSchedule", "other-"), 'taint "other" not found'),
        (lambda one: one.change.label("node/x/a", "k=v"), "a Node has no namespace"),
        (lambda one: one.change.label("node/a", "k=!"), 'metadata.labels: Invalid value: "!": a valid label'),
        (lambda one: one.change.delete("deploy/web", "deploy/nope"), 'there is no Deployment "default/nope"'),
        (lambda one: one.change.delete(selector="a=b"), "a selector or a namespace needs a kind"),
    ],
)
def test_bad_input_changes_nothing(change: Callable[[Scheduler], object], error: str) -> None:
    one = world()
    before = one.fork()
    version = one.client.list(Pod)[1]
    with pytest.raises(InputError) as caught:
        change(one)
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)
    assert one.client.list(Pod)[1] == version
    assert not before.ask.diff(one)


CHANGES: list[Callable[[Scheduler], object]] = [
    lambda one: one.change.drain("a"),
    lambda one: one.change.fail_zone("z1"),
    lambda one: one.change.add_nodes(2, "a"),
    lambda one: one.change.scale("deploy/web", 9),
    lambda one: one.change.apply(replicas("Deployment", "web", 4, "2")),
    lambda one: one.change.delete("deploy/web"),
    lambda one: one.change.taint("a", "k:NoExecute"),
    lambda one: one.change.remove_nodes("b"),
    lambda one: one.change.label("node/a", "pool-"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_undone_and_made_on_forks(change: Callable[[Scheduler], object]) -> None:
    one, twin = world(), world()
    fork = one.fork()
    with one.transaction():
        change(one)
        first = one.run()
    change(fork)
    second = fork.run()
    assert first.placements == second.placements
    assert not one.ask.diff(twin)
    change(one)
    change(twin)
    assert one.run().placements == twin.run().placements == second.placements
    assert one.client.list(Pod) == twin.client.list(Pod) == fork.client.list(Pod)


def test_pods_that_a_stateful_set_has_yet_to_create() -> None:
    one = mo.Scheduler(build_cluster([machine("a"), replicas("StatefulSet", "db", 3)]))
    assert [each.name for each in one.ask.awaited_pods()] == ["db-1", "db-2"]
    assert mo.Scheduler(ObjectStore()).ask.awaited_pods() == []


def test_controllers_proceed_while_claims_can_be_bound() -> None:
    disk = {"metadata": {"name": "disk"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    disk["spec"] |= {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/disk"}}
    volume = make("PersistentVolume", "v", spec)
    one = mo.Scheduler(build_cluster([machine("a"), replicas("StatefulSet", "web", 1)]))
    one.client.create(replicas("StatefulSet", "db", 1, volumeClaimTemplates=[disk]))
    one.sync()
    assert not one.context.let_controllers_proceed(), "there is no volume for its claim"
    one.client.create(volume)
    assert one.context.let_controllers_proceed(), "the claim is bound"
    assert not one.context.let_controllers_proceed(), "nothing is left to do"


def test_over_a_store_of_others() -> None:
    store = ObjectStore()
    store.create_many([*build_cluster([machine("a"), replicas("ReplicaSet", "web", 1)]).nodes])
    one = mo.Scheduler(store)
    one.change.apply(pod("p"))
    assert one.run().placements == {"default/p": "a"}
    one.change.drain("a", force=True)
    assert pods(one) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worker-21", 'there is no Node "worker-21"; nearest: worker-2, worker-1, worker-20'),
        ("wroker-2", 'there is no Node "wroker-2"; nearest: worker-2, worker-20, worker-1'),
        (
            "worker-2X",
            'no Node has the label or the name "worker-2X"; nearest: worker-2, worker-20, worker-1',
        ),
        ("zzz", 'there is no Node "zzz"; there are worker-1, worker-2, worker-20, worker-300'),
    ],
)
def test_the_nearest_names_are_told(text: str, message: str) -> None:
    made = Scheduler(build_cluster([machine(f"worker-{at}") for at in (1, 2, 20, 300)]))
    with pytest.raises(InputError) as caught:
        made.change.drain(text)
    assert caught.value.message == message
