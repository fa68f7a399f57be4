"""Plans that empty nodes: their moves can be made one after the other, and proofs hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage import Scheduler
from moorage.answers import EmptyingPlan
from moorage.errors import InputError
from moorage.kube import Node, ObjectMeta, Pod
from moorage.store import ObjectStore
from tests.calls import calls_of
from tests.doors.kube import Admission, ephemeral_claims
from tests.make import Json, make, node, owned, pod, scheduler, storage_class, volume

GPU = "nvidia.com/gpu"
ON_A = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}


def web(name: str, on: str, cpu: Any = 1, **rest: Any) -> Pod:
    return pod(name, on, {"cpu": cpu}, owner="web", **rest)


def budget(allowed: int, name: str = "keep", status: Json | None = None, **spec: Any) -> Any:
    selector = {"selector": {"matchLabels": {"app": "web"}}}
    counts = {"disruptionsAllowed": allowed} | (status or {})
    return make("PodDisruptionBudget", f"default/{name}", selector | spec, status=counts)


def names_on(one: Scheduler, name: str) -> list[str]:
    return sorted(each.name for each in one.client.list(Pod)[0] if each.spec.node_name == name)


def follow(one: Scheduler, plan: EmptyingPlan, cordoned: Iterable[str]) -> None:
    """Make the moves by hand; each pod is schedulable on its target at its turn."""
    for name in cordoned:
        found = one.client.get(Node, name)
        one.client.update(replace(found, spec=replace(found.spec, unschedulable=True)))
    for move in plan.moves:
        namespace, _, name = move.pod.partition("/")
        old = one.client.delete(Pod, name, namespace)
        assert old.spec.node_name == move.source
        new = replace(
            old,
            metadata=ObjectMeta(
                name=name,
                namespace=namespace,
                labels=old.metadata.labels,
                owner_references=old.metadata.owner_references,
            ),
            spec=replace(old.spec, node_name=""),
        )
        one.client.create(new)
        one.sync()
        assert move.target in one.can_schedule_pod(new).nodes
        one.client.delete(Pod, name, namespace)
        one.client.create(replace(new, spec=replace(new.spec, node_name=move.target)))
        one.sync()


# ---- drain_plan --------------------------------------------------------------------------------------------


def test_named_nodes_are_emptied_in_order() -> None:
    nodes = [node("a"), node("b"), node("c", cpu="8")]
    one = scheduler(nodes, [web("w0", "a"), web("w1", "a", 2), web("w2", "b")])
    before = one.fork()
    plan = one.ask.drain_plan(["a", "b"])
    assert (plan.status, plan.nodes, bool(plan)) == ("found", ("b", "a"), True)
    assert [(move.pod, move.source, move.target) for move in plan.moves] == [
        ("default/w2", "b", "c"),
        ("default/w0", "a", "c"),
        ("default/w1", "a", "c"),
    ]
    assert not before.ask.diff(one)
    follow(one, plan, ["a", "b"])
    assert (names_on(one, "a"), names_on(one, "b")) == ([], [])


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.booleans()), max_size=7),
    st.integers(1, 3),
)
def test_a_plan_can_be_followed(sizes: list[int], pods: list[tuple[int, int, bool]], count: int) -> None:
    nodes = [node(f"n{at}", cpu=str(size)) for at, size in enumerate(sizes)]
    bound = [
        web(f"w{at}", f"n{on % len(nodes)}", cpu, labels={"app": "web" if keeps else "other"})
        for at, (on, cpu, keeps) in enumerate(pods)
    ]
    one = scheduler(nodes, bound, [budget(1)])
    before = one.fork()
    count = min(count, len(nodes))
    plan = one.ask.drain_plan(count)
    assert not before.ask.diff(one)
    assert (len(plan.nodes) == count) == (plan.status == "found")
    follow(before, plan, [])
    assert all(not names_on(before, name) for name in plan.nodes)
    if plan.status == "impossible":
        free = sorted(sizes)[: len(sizes) - count] if count < len(sizes) else []
        assert sum(cpu for _, cpu, _ in pods) > sum(free) or len(pods) > 10 * len(free)


def test_pods_of_daemon_sets_and_static_pods_stay() -> None:
    daemon = pod("d", "a", metadata=owned("DaemonSet", "d"))
    static = pod("s", "a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    plan = scheduler(node("a"), node("b"), daemon, static).ask.drain_plan(["a"])
    assert (plan.status, plan.nodes, plan.moves) == ("found", ("a",), ())


AFFINITY = "1 node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("bound", "others", "reason"),
    [
        (pod("p", "a"), [], "no controller would replace it"),
        (
            web("p", "a", labels={"app": "web"}),
            [budget(0)],
            "Cannot evict pod as it would violate the pod's disruption budget. "
            "The disruption budget keep needs 0 healthy pods and has 0 currently",
        ),
        (
            web("p", "a", labels={"app": "web"}),
            [budget(1), budget(1, "too")],
            "This pod has more than one PodDisruptionBudget, "
            "which the eviction subresource does not support.",
        ),
        (web("p", "a", scheduler_name="x"), [], "not scheduled: other scheduler"),
        (web("p", "a", scheduling_gates=[{"name": "g"}]), [], "not scheduled: gated"),
        (
            web("p", "a", node_selector={"kubernetes.io/hostname": "a"}),
            [],
            f"0/2 nodes are available: {AFFINITY}, 1 node(s) were unschedulable.",
        ),
    ],
)
def test_a_pod_that_cannot_leave_is_a_proof(bound: Pod, others: list[Any], reason: str) -> None:
    nodes = [node("a", labels={"kubernetes.io/hostname": "a"}), node("b")]
    plan = scheduler(nodes, bound, others).ask.drain_plan("kubernetes.io/hostname=a")
    assert (plan.status, plan.nodes) == ("impossible", ())
    (blocker,) = plan.blockers
    assert (blocker.pod, blocker.node, blocker.reason, blocker.lasts) == ("default/p", "a", reason, True)
    assert plan.proof == f"default/p cannot leave a: {reason}"


def test_bare_pods_stay_on_a_node_that_does_not_report() -> None:
    lost = node("a", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
    assert scheduler(lost, node("b"), web("p", "a")).ask.drain_plan(["a"]).status == "found"
    plan = scheduler(lost, node("b"), pod("p", on="a")).ask.drain_plan(["a"], force=True)
    assert plan.proof.startswith("default/p cannot leave a: its node does not report")


@pytest.mark.parametrize(
    ("policy", "healthy", "phase", "status"),
    [
        (None, 1, "Running", "found"),
        (None, 0, "Running", "impossible"),
        ("IfHealthyBudget", 0, "Running", "impossible"),
        ("AlwaysAllow", 0, "Running", "found"),
        (None, 0, "Pending", "found"),
    ],
)
def test_a_pod_that_is_not_ready(policy: str | None, healthy: int, phase: str, status: str) -> None:
    state = {"phase": phase, "conditions": [{"type": "Ready", "status": "False"}]}
    sick = web("p", "a", labels={"app": "web"}, status=state)
    counts = {"desiredHealthy": 1, "currentHealthy": healthy}
    keep = budget(0, status=counts, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    one = scheduler(node("a"), node("b"), sick, keep)
    assert one.ask.drain_plan(["a"]).status == status
    assert bool(one.change.drain("a").deleted) is (status == "found")


def test_a_drain_looks_up_once_who_is_not_ready() -> None:
    state = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    counts = []
    for number in (2, 9):
        sick = [web(f"p{at}", "a", 0, labels={"app": "web"}, status=state) for at in range(number)]
        keep = budget(0, status={"desiredHealthy": 1, "currentHealthy": 0})
        one = scheduler(node("a"), node("b"), *sick, keep)
        plan, calls = calls_of(ObjectStore.list, one.ask.drain_plan, ["a"])
        assert len(plan.blockers) == number
        counts.append([call["kind"] for call in calls].count(Pod))
    assert counts[1] - counts[0] == 9 - 2, "also when each is moved alone"


def test_drains_of_all_nodes_read_the_policies_once() -> None:
    counts = []
    for number in (3, 9):
        pods = [web(f"p{at}", f"n{at}", labels={"app": "web"}) for at in range(number)]
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        sets = make("ReplicaSet", "default/web", {"replicas": number, "template": template})
        hook = make("ValidatingWebhookConfiguration", "hook")
        one = scheduler(*(node(f"n{at}") for at in range(number)), *pods, sets, hook)
        _, calls = calls_of(Admission.__init__, one.ask.drain_plan, None)
        counts.append(len(calls))
    assert counts[0] == counts[1] == 1


@pytest.mark.parametrize(("name", "status"), [("csi", "found"), ("local", "not found")])
def test_a_pod_gets_a_new_ephemeral_volume_where_it_moves(name: str, status: str) -> None:
    """The volume of the pod is on node a alone, and one of the classes has no driver that makes others."""
    claim = {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}
    claim["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
    moved = web("w", "a", volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}])
    (unbound,) = ephemeral_claims([moved])
    meta = replace(unbound.metadata, annotations={"pv.kubernetes.io/bind-completed": "yes"})
    bound = replace(unbound, metadata=meta, spec=replace(unbound.spec, volume_name="v"))
    bound = replace(bound, status=replace(bound.status, phase="Bound"))
    on_a = volume(
        "v",
        name,
        local={"path": "/v"},
        claimRef={"namespace": "default", "name": "w-data", "uid": unbound.metadata.uid},
        nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [ON_A]}]}},
        status={"phase": "Bound"},
    )
    one = scheduler(
        node("a"), node("b"), moved, bound, on_a, storage_class("csi", "x"), storage_class("local")
    )
    before = one.fork()
    plan = one.ask.drain_plan(["a"])
    assert (plan.status, [move.target for move in plan.moves]) == (status, ["b"] if plan else [])
    assert not before.ask.diff(one)


def test_a_pod_that_is_being_deleted_need_not_move() -> None:
    leaving = web("w0", "a", 3, metadata=owned("ReplicaSet", "web", deletionTimestamp="2026-01-01T00:00:00Z"))
    pods = [leaving, web("w1", "b", 3)]
    one = scheduler([node("a"), node("b")], pods)
    for plan in (one.ask.drain_plan(["a"]), one.ask.drain_plan(1)):
        assert (plan.status, plan.nodes, plan.moves) == ("found", ("a",), ())


def test_an_overcommitted_node_is_no_proof() -> None:
    pods = [web("w0", "a", 3), web("w1", "a", 3)]
    plan = scheduler([node("a"), node("b")], pods).ask.drain_plan(1)
    assert (plan.status, plan.nodes, plan.moves) == ("found", ("b",), ())


def test_too_few_resources_are_a_proof() -> None:
    pods = [web("w0", "a", 3), web("w1", "b", 3), web("w2", "c", 3)]
    plan = scheduler([node("a"), node("b"), node("c")], pods).ask.drain_plan(["a"])
    assert (plan.status, plan.proof) == (
        "impossible",
        "cpu: 3 requested by pods that must move, 2 free on the other nodes",
    )
    plan = scheduler([node("a"), node("b"), node("c")], pods).ask.drain_plan(1)
    assert plan.proof == (
        "cpu: 9 requested by pods that must be on a node, "
        "8 allocatable (or requested, where that is more) on the 2 largest nodes"
    )


def test_a_proof_counts_what_an_overcommitted_node_keeps() -> None:
    pods = [web("w0", "a", 3), web("w1", "a", 3), web("w2", "b", 3), web("w3", "c", 3)]
    one = scheduler([node("a"), node("b"), node("c")], pods)
    for plan in (one.ask.drain_plan(1), one.ask.defragment(nodes=1)):
        assert "cpu: 12 requested by pods that must be on a node, 10 allocatable (or " in plan.proof


def test_what_greed_does_not_find_is_not_found() -> None:
    """The pod asks for as much as is free on two nodes together, which is no proof."""
    pods = [web("w0", "a", 3), web("w1", "b", "2500m"), web("w2", "c", "2500m")]
    plan = scheduler([node("a"), node("b"), node("c")], pods).ask.drain_plan(["a"])
    assert (plan.status, plan.proof) == ("not found", "")
    assert plan.blockers[0].lasts is False
    assert plan.headline().startswith("not found: 0 nodes, 0 moves; default/w0 cannot leave a: 0/3 nodes")


def test_unmanaged_pods_are_moved_by_force() -> None:
    one = scheduler([node("a"), node("b")], [pod("p", on="a")])
    assert one.ask.drain_plan(["a"], force=True).status == "found"


def test_nodes_of_the_plan_are_no_targets() -> None:
    one = scheduler([node("a"), node("b"), node("c", cpu="1")], [web("w0", "a"), web("w1", "b")])
    plan = one.ask.drain_plan(["a", "b"])
    assert (plan.status, plan.nodes, len(plan.blockers)) == ("impossible", ("a",), 1)
    tolerant = web("t", "a", "500m", tolerations=[{"operator": "Exists"}])
    one = scheduler([node("a"), node("b", cpu="1")], [tolerant, web("w", "b", "1")])
    plan = one.ask.drain_plan(["a"])
    note = "1 pod tolerates unschedulable nodes, and is placed on a drained one: default/t."
    assert (plan.status, plan.notes) == ("found", (note,))  # it is drained, though not empty
    assert one.ask.drain_plan(1).nodes == ("b",)  # which is empty then


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("a in (", "unable to parse requirement"),
        ([], "drain_plan: give at least one node"),
        (["a", ""], "the name or selector of nodes is empty"),
        (["a", "pool=x"], 'no Node has the labels "pool=x"'),
        (2, "must be from 1 to 1, the number of schedulable nodes, not 2"),
        (True, "nodes must be a string or a whole number or a sequence of str or None, not bool"),
        (["a", 1], "a sequence of str or None, not list of str, int"),
    ],
)
def test_nodes_that_cannot_be_drained_are_refused(nodes: Any, message: str) -> None:
    with pytest.raises((InputError, TypeError)) as error:
        scheduler([node("a")], []).ask.drain_plan(nodes)
    assert message in str(error.value)


def test_names_and_selectors_together_are_drained() -> None:
    pools = zip("abcd", "xyzx", strict=True)
    one = scheduler([node(name, labels={"pool": pool}) for name, pool in pools], [])
    assert {*one.ask.drain_plan(["b", "pool=x", "pool=y"]).nodes} == {"a", "b", "d"}


# ---- defragment --------------------------------------------------------------------------------------------


def test_whole_nodes_are_freed() -> None:
    one = scheduler([node("a"), node("b"), node("c")], [web("w0", "a"), web("w1", "b"), web("w2", "b")])
    plan = one.ask.defragment(nodes=2)
    assert (plan.status, plan.nodes, len(plan.moves)) == ("found", ("c", "a"), 1)
    assert one.ask.defragment(nodes=2, max_moves=0).status == "not found"
    assert one.ask.defragment(nodes=1, max_moves=0).nodes == ("c",)


def gpu(name: str, on: str, count: int) -> Pod:
    return pod(name, on=on, requests={"cpu": 1, GPU: count}, owner="train")


def gpu_nodes(*names: str) -> list[Node]:
    return [node(name, cpu="32", **{GPU: "4"}) for name in names]


def test_devices_are_freed_by_few_moves() -> None:
    pods = [gpu("p0", "a", 1), gpu("p1", "a", 2), gpu("p2", "b", 1), web("w", "b")]
    one = scheduler(gpu_nodes("a", "b"), pods)
    before = one.fork()
    plan = one.ask.defragment(gpus=4)
    assert (plan.status, plan.nodes) == ("found", ("b",))
    assert [(move.pod, move.target) for move in plan.moves] == [("default/p2", "a")]
    assert not before.ask.diff(one)
    assert one.ask.defragment(gpus=3).moves == ()
    assert one.ask.defragment(gpus=4, max_moves=0).status == "not found"


def test_small_pods_leave_where_large_ones_cannot() -> None:
    """The nodes of volcano-sh/volcano#3948."""
    nodes = [node(name, **{GPU: "8"}) for name in "abc"]
    pods = [
        gpu(f"{on}{n}", on, n)
        for on, sizes in (("a", (4, 2, 1)), ("b", (4, 2)), ("c", (4, 2, 1)))
        for n in sizes
    ]
    plan = scheduler(nodes, pods).ask.defragment(gpus=4)
    assert (plan.status, plan.nodes) == ("found", ("a",))
    assert [(move.pod, move.target) for move in plan.moves] == [("default/a2", "b"), ("default/a1", "c")]


def test_pods_make_room_for_one_that_moves() -> None:
    nodes = [node("a", **{GPU: "4"}), node("b", **{GPU: "3"}), node("c", **{GPU: "3"})]
    pods = [gpu("a3", "a", 3), gpu("b1", "b", 1), gpu("c2", "c", 2)]
    one = scheduler(nodes, pods)
    plan = one.ask.defragment(gpus=4)
    assert (plan.status, plan.nodes) == ("found", ("a",))
    moves = [(move.pod, move.source, move.target) for move in plan.moves]
    assert moves == [("default/b1", "b", "c"), ("default/a3", "a", "b")]
    follow(one.fork(), plan, plan.nodes)
    assert one.ask.defragment(gpus=4, max_moves=1).status == "not found"
    assert scheduler(nodes, [*pods[:2], gpu("c3", "c", 3)]).ask.defragment(gpus=4).status == "impossible"


def test_whole_nodes_are_freed_by_moves_between_others() -> None:
    nodes = [node(name) for name in "abc"]
    pods = [web("a3", "a", 3), web("b1", "b", 1), pod("bare", on="b", requests={"cpu": 1})]
    pods.append(pod("large", on="c", requests={"cpu": 3}))
    one = scheduler(nodes, pods)
    plan = one.ask.defragment(nodes=1)
    assert (plan.status, plan.nodes) == ("found", ("a",))
    assert [(move.pod, move.target) for move in plan.moves] == [("default/b1", "c"), ("default/a3", "b")]
    assert one.ask.drain_plan(1).status == "not found"  # a drain moves no pods of other nodes


def test_making_room_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(f"n{at}", **{GPU: "8"}) for at in range(6)]
    pods = [gpu(f"p{at}-{n}", f"n{at}", n) for at in range(6) for n in (4, 3)]
    assert scheduler(nodes, pods).ask.defragment(gpus=6).status == "not found"
    monkeypatch.setattr("moorage.answers.pod_moves.MOST_TRIES", 0)
    stuck = [gpu("a3", "n0", 3), gpu("b1", "n1", 1), gpu("c2", "n2", 2)]
    small = [node("n0", **{GPU: "4"}), node("n1", **{GPU: "3"}), node("n2", **{GPU: "3"})]
    assert scheduler(small, stuck).ask.defragment(gpus=4).status == "not found"


def test_proofs_about_devices() -> None:
    one = scheduler(gpu_nodes("a", "b"), [gpu("p0", "a", 3), gpu("p1", "b", 3)])
    assert (
        one.ask.defragment(gpus=5).proof
        == f"{GPU}: 5 wanted on one node, no schedulable node has more than 4"
    )
    assert one.ask.defragment(gpus=3).proof == f"{GPU}: 3 wanted on one node, 2 free on all nodes together"
    assert one.ask.defragment(gpus=1, resource="example.com/x").status == "impossible"


def test_devices_that_cannot_be_freed() -> None:
    one = scheduler(gpu_nodes("a", "b"), [gpu("p0", "a", 2), gpu("p1", "b", 2)], [])
    assert one.ask.defragment(gpus=4).status == "found"
    stuck = [pod("p0", on="a", requests={GPU: 2}), pod("p1", on="b", requests={GPU: 2})]
    assert scheduler(gpu_nodes("a", "b"), stuck).ask.defragment(gpus=4).status == "not found"
    assert scheduler(gpu_nodes("a", "b"), stuck).ask.defragment(gpus=4, force=True).status == "found"


@pytest.mark.parametrize(
    ("aim", "message"),
    [
        ({}, "either nodes or gpus"),
        ({"nodes": 1, "gpus": 1}, "either nodes or gpus"),
        ({"gpus": 0}, "gpus must be a positive whole number, not 0"),
        ({"nodes": 0}, "schedulable nodes, not 0"),
        ({"nodes": 1, "max_moves": -1}, "max_moves must be a whole number of at least 0, not -1"),
    ],
)
def test_an_aim_that_cannot_be_met_is_refused(aim: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scheduler([node("a")], []).ask.defragment(**aim)
