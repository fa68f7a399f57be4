"""Shapes and classes: what pods of one template share, and the effective requests of a pod."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.make import pinned
from tests.doors.engine import ClusterState, PodGates, Shape, spec_key
from tests.make import container, node, pod, port

from moorage.kube import (
    Affinity,
    Condition,
    ContainerStatus,
    ImageVolumeSource,
    LabelSelector,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGroup,
    PodStatus,
    ResourceRequirements,
    Toleration,
    Volume,
)

GPU = "example.com/gpu"
C, M = {"cpu": "100m"}, {"memory": "10Mi"}


def classes(*pods: Pod) -> tuple[list[int], list[int]]:
    """Classes and shapes of pods in one fresh state."""
    one = ClusterState()
    ids = [one.classes.intern(held) for held in pods]
    return ids, [one.classes.shape_of(held).id for held in ids]


def test_pods_of_one_replica_set_share_a_class() -> None:
    assert classes(pod("p-1", owner="rs"), pod("p-2", owner="rs")) == ([0, 0], [0, 0])


def test_pods_store_one_object_of_their_class() -> None:
    """It belongs to one state; another state reads the pods anew."""
    one, other = ClusterState(), ClusterState()
    first, second, another = pod("p", owner="rs"), pod("q", owner="rs"), pod("r", requests={"cpu": 3})
    assert one.classes.intern(first) == one.classes.intern(second)
    assert first.interned is second.interned is not None
    assert [other.classes.intern(each) for each in (another, first)] == [0, 1]
    assert [one.classes.intern(each) for each in (first, another)] == [0, 1]


def test_recent_pods_are_told_apart_by_all_that_their_class_depends_on() -> None:
    like, one = pod("p", labels={"app": "a"}), ClusterState()
    labelled = replace(like, metadata=replace(like.metadata, labels={"app": "b"}))
    elsewhere = replace(like, metadata=replace(like.metadata, namespace="other"))
    again = replace(like, metadata=replace(like.metadata, name="q", uid="q"))
    kinds = [one.classes.intern(each) for each in (like, labelled, elsewhere, again)]
    assert kinds == [0, 1, 2, 0]


def test_daemon_set_pods_share_a_class_though_each_is_pinned() -> None:
    one = ClusterState()
    first, second = (pod(f"p-{name}", owner="ds", affinity=pinned(name)) for name in ("n1", "n2"))
    assert one.classes.intern(first) == one.classes.intern(second) == 0
    assert one.classes.shape_of(0).is_pinned
    symbols = [one.symbols.names[one.classes.pinned_symbol(0, held)] for held in (first, second)]
    assert symbols == ["n1", "n2"]
    assert one.classes.pinned_symbol(one.classes.intern(pod("p")), pod("p")) == 0


def test_the_order_of_labels_does_not_matter() -> None:
    one = ClusterState()
    ids = [
        one.classes.intern(pod("p", labels=labels)) for labels in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    ]
    assert ids == [0, 0]
    assert one.classes.labels_of(0) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    "spec",
    [
        {"requests": {"cpu": 2}},
        {"requests": {"cpu": 1, GPU: 1}},
        {"tolerations": (Toleration(operator="Exists"),)},
        {"ports": [port(80)]},
        {"node_selector": {"a": "b"}},
        {"node_selector": {}},
        {"affinity": pinned("n1")},
        {"priority": 5},
        {"scheduler_name": "other"},
        {"preemption_policy": "Never"},
        {"overhead": {"cpu": "1m"}},
        {"containers": (container(image="i", requests={"cpu": 1}),)},
    ],
    ids=str,
)
def test_what_a_decision_depends_on_is_the_shape(spec: dict[str, Any]) -> None:
    assert classes(pod("p", requests={"cpu": 1}), pod("q", **({"requests": {"cpu": 1}} | spec)))[1] == [0, 1]


def terms(to: str) -> Affinity:
    term = PodAffinityTerm(topology_key=to, label_selector=LabelSelector(match_labels={"a": "b"}))
    return Affinity(pod_affinity=PodAffinity(required=(term,)))


NUMBERED = "id", "carried"
VARIED = {
    "requests": {"cpu": 1, GPU: 2, "example.com/nic": 1},
    "tolerations": (Toleration(key="k", operator="Exists"),),
    "ports": [port(80)],
    "node_selector": {"a": "b"},
    "priority": 5,
}


def all_of(shape: Shape) -> dict[str, Any]:
    """What can be read of a shape, apart from its number, those of its terms and that in its key."""
    read = {name: getattr(shape, name) for name in dir(shape) if name[0] != "_" and name not in NUMBERED}
    return read | {"terms": [[term.key for term in of] for of in shape.terms], "key": shape.key[:2]}


@pytest.mark.parametrize("spec", [VARIED, {"affinity": pinned("n1")}, {"affinity": terms("zone")}], ids=str)
def test_a_spec_that_is_known_of_another_namespace_is_read_as_if_it_were_new(spec: dict[str, Any]) -> None:
    plain = pod("p", **spec)
    there = replace(plain, metadata=replace(plain.metadata, namespace="elsewhere"))
    after, alone = ClusterState(), ClusterState()
    numbers = [after.classes.intern(one) for one in (plain, there, replace(plain), replace(there))]
    assert numbers == [0, 1, 0, 1]
    alone.classes.intern(there)
    found = [one.classes.shape_of(at) for one, at in ((after, 1), (alone, 0))]
    assert all_of(found[0]) == all_of(found[1])
    read = [
        [one.classes.terms[at].key for at in sorted(shape.carried)]
        for one, shape in zip((after, alone), found, strict=True)
    ]
    assert read[0] == read[1]


ASKED = {"cpu": "1500m", "memory": "3Gi", GPU: 1}
HUGE = {"cpu": str(1 << 60), "memory": "3Gi", "ephemeral-storage": "5Gi"}


@pytest.mark.parametrize("before", [VARIED["requests"], HUGE], ids=["plain", "huge"])
@pytest.mark.parametrize(
    "spec",
    [
        {},
        VARIED,
        {"affinity": pinned("n1")},
        {"affinity": terms("zone")},
        {"overhead": {"cpu": "250m"}},
        {"init_containers": (container("i", ASKED),)},
        {"init_containers": (container("i", VARIED["requests"]),)},
        {"resources": ResourceRequirements(requests={"cpu": "2"})},
    ],
    ids=str,
)
def test_a_spec_that_is_known_with_other_requests_is_read_as_if_it_were_new(
    spec: dict[str, Any], before: dict[str, Any]
) -> None:
    known, asked = (pod("p", **spec | {"requests": requests}) for requests in (before, ASKED))
    there = replace(asked, metadata=replace(asked.metadata, namespace="elsewhere"))
    for new in (asked, there):
        after, alone = ClusterState(), ClusterState()
        assert [after.classes.intern(one) for one in (known, new, replace(new))] == [0, 1, 1]
        alone.classes.intern(new)
        found = [one.classes.shape_of(at) for one, at in ((after, 1), (alone, 0))]
        assert all_of(found[0]) == all_of(found[1])
        assert found[0].key[2] == found[1].key[2]


def test_only_the_requests_may_differ() -> None:
    """The key of a spec has equal resources elsewhere, or others around them."""
    one = ClusterState()
    pods = [
        pod("p", requests=C, init_containers=(container("i", C | M),), priority=1),
        pod("p", requests=C | M, init_containers=(container("i", C | M),), priority=1),
        pod("p", requests=C | M, init_containers=(container("i", C | M),), priority=2),
        pod("p", containers=(container("c", C), container("d", M)), priority=2),
        pod("p", containers=(container("c", M), container("d", M)), priority=2),
    ]
    for held in pods:
        alone = ClusterState()
        shapes = [of.classes.shape_of(of.classes.intern(held)) for of in (one, alone)]
        assert all_of(shapes[0]) == all_of(shapes[1])


@pytest.mark.parametrize("known", [False, True])
def test_a_demand_may_provide_resources_that_are_requested(known: bool) -> None:
    """The class of the demand is as that of a pod that does not request them."""
    requests = VARIED["requests"]
    pods = [
        pod("p", **VARIED | {"requests": {key: n for key, n in requests.items() if key not in leaves}})
        for leaves in ((), (GPU,), (GPU, "example.com/nic"))
    ]
    one, alone = ClusterState(), ClusterState()
    full = one.classes.intern(pods[0])
    assert one.classes.shape_of(full).others == (GPU, "example.com/nic")
    if known:
        one.classes.intern(pods[1])
    left = [
        one.classes.with_volumes(full, "demand", frozenset(names))
        for names in ((GPU,), (GPU, "example.com/nic"))
    ]
    assert one.classes.with_volumes(full, "demand", frozenset((GPU,))) == left[0]
    assert one.classes.with_volumes(full, "demand") not in left
    for at, plain in zip(left, pods[1:], strict=True):
        expected = alone.classes.shape_of(alone.classes.intern(plain))
        assert all_of(one.classes.shape_of(at)) == all_of(expected)
        assert one.classes.shape_of(at).needs == expected.needs


def test_of_volumes_only_images_are_part_of_the_shape() -> None:
    def of(name: str, **source: Any) -> Pod:
        return pod(name, volumes=(Volume(name="v", **source),))

    claims = [{"persistent_volume_claim": PersistentVolumeClaimVolumeSource(claim_name=n)} for n in "ab"]
    images = [{"image": ImageVolumeSource(reference=n)} for n in "abb"]
    pods = [of(f"p{at}", **source) for at, source in enumerate((*claims, {}, *images))]
    assert classes(pod("p"), *pods)[1] == [0, 0, 0, 0, 1, 2, 2]


# ---- effective requests ----------------------------------------------------------------------------------


def test_what_a_pod_requests_as_a_whole() -> None:
    """Then containers have no defaults. Storage comes before other resources."""
    one, whole = ClusterState(), ResourceRequirements(requests={"cpu": 1})
    asking, first = container("c", C | M | {GPU: 1, "ephemeral-storage": "1M"}), container("i", {"cpu": 3})
    rest = {"init_containers": (first,), "resources": whole, "overhead": {"cpu": "50m"}}
    one.add_pod(pod("p", on="a", containers=(asking,), **rest))
    assert [column.tolist() for column in one.table.nonzero.values()] == [[1050], [10 << 20]]
    assert one.classes.shape_of(0).others == ("ephemeral-storage", GPU)


def resizing(spec: str, held: str, allocated: str, reason: str = "", status_of: str = "c") -> Pod:
    """A pod whose container asks for `spec` cpu while its status says otherwise."""
    conditions = (Condition(type="PodResizePending", reason=reason),) if reason else ()
    resources = ResourceRequirements(requests={"cpu": held}) if held else None
    status = ContainerStatus(
        name=status_of, resources=resources, allocated_resources={"cpu": allocated} if allocated else {}
    )
    plain = pod("p", on="a", requests={"cpu": spec})
    return replace(plain, status=PodStatus(container_statuses=(status,), conditions=conditions))


NOTHING_ELSE = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("held", "cpu"),
    [
        (resizing("1", "2", "3"), 3000),
        (resizing("1", "", "3"), 3000),
        (resizing("4", "3", "2", "Infeasible"), 3000),
        (resizing("4", "", "2", "Infeasible"), 2000),
        (resizing("4", "", "", "Infeasible"), 0),
        (resizing("4", "3", "2", "Infeasible", status_of="other"), 0),
        (pod("p", "a", {"cpu": "4"}, status=NOTHING_ELSE), 0),
    ],
)
def test_by_sums_an_infeasible_resize_counts_by_what_the_status_says(held: Pod, cpu: int) -> None:
    """Nothing, if it says nothing; then what containers without requests count as counts for scores."""
    one = ClusterState(gates=PodGates(resizes_by_sums=True))
    one.set_node(node("a"))
    one.classes.intern(replace(held, status=PodStatus()))
    one.add_pod(held)
    row = one.table.find_row("a")
    assert row is not None
    assert one.table.requested["cpu"][row] == cpu
    assert one.table.nonzero["cpu"][row] == (cpu or 100)


def test_a_resize_of_the_whole_pod_counts_for_what_its_spec_requests() -> None:
    """Containers still say how much of the other resources the pod takes."""
    held = pod(
        "p", containers=(container("c", C),), resources=ResourceRequirements(requests={"memory": "6Mi"})
    )
    larger = ResourceRequirements(requests={"cpu": "2", "memory": "7Mi"})
    infeasible = (Condition(type="PodResizePending", reason="Infeasible"),)
    for status, memory in (
        (PodStatus(resources=larger, allocated_resources={"cpu": "3"}), 7 << 20),
        (PodStatus(resources=ResourceRequirements(requests={"cpu": "2"}), conditions=infeasible), 0),
    ):
        classes = ClusterState().classes
        assert classes.shape_of(classes.intern(replace(held, status=status))).requests == (100, memory)


def read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spec that is read after this raises."""
    monkeypatch.setattr("moorage._core.state.pod_class.spec_key", None)


def test_pods_of_one_template_are_read_once_though_their_statuses_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a dump: each has times and addresses of its own, and what its containers were given."""
    one, read = ClusterState(), []

    def like(name: str, **changes: Any) -> Pod:
        time = Condition(type="Ready", status="True", last_transition_time=name)
        status = ContainerStatus(
            name="c", resources=ResourceRequirements(requests={"cpu": "1"}), allocated_resources={"cpu": "1"}
        )
        return replace(
            template,
            metadata=replace(template.metadata, name=name, uid=name, **changes),
            spec=replace(template.spec, node_name=name),
            status=PodStatus(container_statuses=(status,), conditions=(time,)),
        )

    template = replace(pod("t", requests={"cpu": 1}), spec=pod("t", requests={"cpu": 1}).spec)
    for name in ("n1", "n2", "n3"):
        read.append(one.classes.intern(like(name)))
    read += [one.classes.intern(like(name, labels={"index": name})) for name in ("n1", "n2")]
    assert read == [0, 0, 0, 1, 2]
    assert len(one.classes.shapes) == 1
    read_no_more(monkeypatch)
    again = like("n4", labels={"index": "n1"})
    assert one.classes.intern(again) == 1


def test_a_template_is_read_once_for_pods_with_claims_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one, template = ClusterState(), pod("t", requests={"cpu": 1})

    def claiming(name: str, image: str = "") -> Pod:
        source = PersistentVolumeClaimVolumeSource(claim_name=name)
        volume = Volume(
            name="data",
            persistent_volume_claim=source,
            image=ImageVolumeSource(reference=image) if image else None,
        )
        meta = replace(template.metadata, name=name, uid=name)
        return replace(template, metadata=meta, spec=replace(template.spec, volumes=(volume,)))

    imaged, first = one.classes.intern(claiming("b", "image")), one.classes.intern(claiming("a"))
    assert first != imaged
    again = claiming("c")
    read_no_more(monkeypatch)
    assert one.classes.intern(again) == first


def test_tolerations_that_compare_count_where_their_gate_is_on() -> None:
    both = (Toleration(key="k", operator="Gt", value="3"), Toleration(key="k", operator="Exists"))
    for on in (False, True):
        one = ClusterState(gates=PodGates(comparison_operators=on))
        shape = one.classes.shape_of(one.classes.intern(pod("p", tolerations=both)))
        assert [toleration.operator for toleration in shape.tolerations] == ["Gt"] * on + ["Exists"]


def test_too_many_resources_are_refused() -> None:
    one = ClusterState()
    names = {f"example.com/{number}": 1 for number in range(49)}
    with pytest.raises(ValueError, match="at most 48 resources besides cpu and memory"):
        one.add_pod(pod("p", on="a", requests=names))
    assert (len(one.ledger), one.table.names) == (0, [])


def test_pods_of_different_groups_are_read_once() -> None:
    """A group has a spec of its own for its pods, which differs in the name of the group alone."""
    plain = pod("p", requests={"cpu": 1})
    keys = {
        spec_key(replace(plain, spec=replace(plain.spec, scheduling_group=group, node_name=name)))
        for group in (None, PodSchedulingGroup("a"), PodSchedulingGroup("b"))
        for name in ("", "n")
    }
    assert len(keys) == 1
