"""What the API server answers, request by request."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from moorage.objects import (
    Condition,
    Container,
    Job,
    Node,
    NodeSpec,
    NodeStatus,
    Object,
    ObjectMeta,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PriorityClass,
    ReplicaSet,
    ResourceRequirements,
    parse_selector,
)
from moorage.store import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    InvalidObjectError,
    NotFoundError,
    ObjectClient,
    ObjectStore,
)

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def pod(name: str = "a", namespace: str = "default", spec: PodSpec | None = None, **meta: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, **meta), spec=spec or PodSpec())


def node(name: str, **spec: Any) -> Node:
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(**spec))


def refused(error: type[ApiError], text: str) -> Any:
    class Exactly:
        def __enter__(self) -> None:
            self.raises = pytest.raises(error)
            self.info = self.raises.__enter__()

        def __exit__(self, *args: Any) -> bool:
            done = bool(self.raises.__exit__(*args))
            assert str(self.info.value) == text
            return done

    return Exactly()


def test_a_store_is_an_object_client() -> None:
    client: ObjectClient = ObjectStore()
    assert client.create(pod()) == client.get(Pod, "a", "default")


def test_create_fills_in_what_the_server_gives() -> None:
    store = ObjectStore(lambda: 1_700_000_000.9)
    stored = store.create(pod(labels={"x": "y"}))
    assert stored.metadata.resource_version == "2"
    assert stored.metadata.creation_timestamp == "2023-11-14T22:13:20Z"
    assert stored.metadata.labels == {"x": "y"}
    assert store.get(Pod, "a", "default") is stored
    assert store.create(node("n")).metadata.resource_version == "3"


def test_the_default_clock_stands_still() -> None:
    assert ObjectStore().create(pod()).metadata.creation_timestamp == "1970-01-01T00:00:00Z"


def test_a_uid_and_a_creation_time_are_kept_and_a_resource_version_is_not() -> None:
    brought = pod(uid="u", creation_timestamp="2001-01-01T00:00:00Z", resource_version="77")
    stored = ObjectStore().create(brought)
    assert stored == pod(uid="u", creation_timestamp="2001-01-01T00:00:00Z", resource_version="2")


def test_uids_follow_from_the_seed() -> None:
    def uids(seed: int) -> list[str]:
        store = ObjectStore(seed=seed)
        return [store.create(pod(name)).metadata.uid for name in "abc"]

    assert uids(0) == uids(0)
    assert len({*uids(0), *uids(1)}) == 6
    assert [len(part) for part in uids(0)[0].split("-")] == [8, 4, 4, 4, 12]


def test_same_names_in_two_namespaces_and_two_kinds() -> None:
    store = ObjectStore()
    store.create_many([pod("a", "x"), pod("a", "y"), node("a"), ReplicaSet(metadata=ObjectMeta(name="a"))])
    assert [store.get(Pod, "a", "x").namespace, store.get("Node", "a").kind] == ["x", "Node"]


def test_a_kind_may_be_given_by_name() -> None:
    store = ObjectStore()
    stored = store.create(pod())
    assert store.list("Pod") == ([stored], "2")
    with pytest.raises(ValueError, match=r'^no matches for kind "Pot"$'):
        store.list("Pot")


@pytest.mark.parametrize(
    ("obj", "what"),
    [
        (pod(), "pods"),
        (ReplicaSet(metadata=ObjectMeta(name="a", namespace="default")), "replicasets.apps"),
        (Job(metadata=ObjectMeta(name="a", namespace="default")), "jobs.batch"),
        (PriorityClass(metadata=ObjectMeta(name="a")), "priorityclasses.scheduling.k8s.io"),
    ],
)
def test_refusals_name_the_resource(obj: Object, what: str) -> None:
    store = ObjectStore()
    with refused(NotFoundError, f'{what} "a" not found'):
        store.get(type(obj), "a", obj.namespace)
    with refused(NotFoundError, f'{what} "a" not found'):
        store.update(obj)
    with refused(NotFoundError, f'{what} "a" not found'):
        store.delete(type(obj), "a", obj.namespace)
    stored = store.create(obj)
    with refused(AlreadyExistsError, f'{what} "a" already exists'):
        store.create(obj)
    store.update(replace(stored, metadata=replace(stored.metadata, labels={"new": "1"})))
    with refused(ConflictError, f'Operation cannot be fulfilled on {what} "a": {MODIFIED}'):
        store.update(stored)


def test_names_are_checked() -> None:
    store = ObjectStore()
    with refused(
        InvalidObjectError,
        'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
    ):
        store.create(pod(""))
    with refused(
        InvalidObjectError, 'Node "n" is invalid: metadata.namespace: Forbidden: not allowed on this type'
    ):
        store.create(Node(metadata=ObjectMeta(name="n", namespace="default")))
    assert store.list(Pod) == ([], "1")


def asking(**resources: Any) -> Pod:
    return pod(spec=PodSpec(containers=(Container(resources=ResourceRequirements(**resources)),)))


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (asking(requests={"cpu": "x"}), "spec.containers[0].resources.requests[cpu]"),
        (asking(limits={"cpu": "x"}), "spec.containers[0].resources.limits[cpu]"),
        (pod(spec=PodSpec(overhead={"cpu": "x"})), "spec.overhead[cpu]"),
        (replace(node("a"), status=NodeStatus(allocatable={"cpu": "x"})), "status.allocatable[cpu]"),
    ],
)
def test_a_quantity_that_cannot_be_read(obj: Object, field: str) -> None:
    one = ObjectStore()
    text = re.escape(f'{obj.kind} "a" is invalid: {field}: "x" is not a quantity')
    with pytest.raises(InvalidObjectError, match=text):
        one.create(obj)
    assert one.list(type(obj))[0] == []
    one.create(type(obj)(metadata=obj.metadata))
    with pytest.raises(InvalidObjectError, match=text):
        one.update(obj)
    assert one.list(type(obj))[0] == [one.get(type(obj), "a", obj.metadata.namespace)]


def test_update_keeps_what_belongs_to_the_server() -> None:
    store = ObjectStore()
    first = store.create(pod())
    second = store.update(pod(labels={"l": "1"}))
    assert second.metadata == replace(first.metadata, resource_version="3", labels={"l": "1"})
    assert store.get(Pod, "a", "default") is second


def test_an_update_that_changes_nothing_writes_nothing() -> None:
    store = ObjectStore()
    first = store.create(pod())
    watch = store.watch(Pod, resource_version="2")
    assert store.update(pod()) is store.update(first) is first
    assert (watch.poll(), store.list(Pod)[1]) == ([], "2")


def test_update_with_another_uid() -> None:
    store = ObjectStore()
    store.create(pod(uid="u"))
    text = (
        'Operation cannot be fulfilled on pods "a": StorageError: invalid object, Code: 4, '
        "Key: /registry/pods/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        "UID in precondition: v, UID in object meta: u"
    )
    with refused(ConflictError, text):
        store.update(pod(uid="v"))
    with refused(ConflictError, text):
        store.bind(pod(uid="v"), "n")


def test_delete_returns_the_last_state() -> None:
    store = ObjectStore()
    first = store.create(pod())
    assert store.delete(Pod, "a", "default") == replace(
        first, metadata=replace(first.metadata, resource_version="3")
    )
    assert store.list(Pod) == ([], "3")
    assert store.create(pod()).metadata.uid != first.metadata.uid


def test_a_list_is_in_the_order_of_keys() -> None:
    store = ObjectStore()
    store.create_many([pod("b", "y"), pod("c", "x"), pod("a", "y"), pod("a-b", "x"), pod("z", "x-1")])
    items, version = store.list(Pod)
    assert [obj.key for obj in items] == ["x-1/z", "x/a-b", "x/c", "y/a", "y/b"]
    assert version == "6"
    assert [obj.name for obj in store.list(Pod, "y")[0]] == ["a", "b"]


@pytest.mark.parametrize(
    ("labels", "fields", "names"),
    [
        ("", "", "abcd"),
        ("app=x", "", "ab"),
        ("app!=x", "", "cd"),
        ("app in (x, y),!old", "", "ac"),
        ("", "metadata.name=b", "b"),
        ("", "metadata.name==b", "b"),
        ("", "metadata.name!=b", "acd"),
        ("", "metadata.namespace=other", "d"),
        ("", "spec.nodeName=", "acd"),
        ("", "spec.nodeName=n", "b"),
        ("", "status.phase!=Succeeded,status.phase!=Failed", "acd"),
        ("", "spec.schedulerName=s", "c"),
        ("", "spec.restartPolicy=Always,", "c"),
        ("", "spec.hostNetwork=true", "d"),
        ("", "spec.hostNetwork=false,status.nominatedNodeName=m", "a"),
        ("app=x", "spec.nodeName!=n", "a"),
    ],
)
def test_a_list_has_what_its_selectors_choose(labels: str, fields: str, names: str) -> None:
    store = ObjectStore()
    store.create_many(
        [
            replace(pod("a", labels={"app": "x"}), status=PodStatus(nominated_node_name="m")),
            replace(
                pod("b", labels={"app": "x", "old": ""}, spec=PodSpec(node_name="n")),
                status=PodStatus(phase="Failed"),
            ),
            pod("c", labels={"app": "y"}, spec=PodSpec(scheduler_name="s", restart_policy="Always")),
            pod("d", "other", spec=PodSpec(host_network=True)),
        ]
    )
    selected = store.list(Pod, label_selector=labels, field_selector=fields)[0]
    assert "".join(obj.name for obj in selected) == names
    matcher = parse_selector(labels)
    assert store.list(Pod, label_selector=matcher, field_selector=fields)[0] == selected


def test_nodes_by_field() -> None:
    store = ObjectStore()
    store.create_many([node("a"), node("b", unschedulable=True)])
    assert [n.name for n in store.list(Node, field_selector="spec.unschedulable=true")[0]] == ["b"]


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        (Pod, "spec.foo=1", "field label not supported: spec.foo"),
        (Node, "spec.nodeName=1", "field label not supported: spec.nodeName"),
        (
            ReplicaSet,
            "spec.x=1",
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            Pod,
            "metadata.name=a,oops",
            "invalid selector: 'metadata.name=a,oops'; can't understand 'oops'",
        ),
    ],
)
def test_bad_field_selectors(kind: type[Object], fields: str, text: str) -> None:
    with refused(BadRequestError, text):
        ObjectStore().list(kind, field_selector=fields)
    with refused(BadRequestError, text):
        ObjectStore().watch(kind, field_selector=fields)


def test_a_bad_label_selector_is_a_bad_request() -> None:
    with pytest.raises(ValueError, match=r".") as info:
        parse_selector("a in x")
    with refused(BadRequestError, str(info.value)):
        ObjectStore().list(Pod, label_selector="a in x")


def test_create_many_is_all_or_nothing() -> None:
    store = ObjectStore()
    watch = store.watch(Pod, resource_version="1")
    with refused(AlreadyExistsError, 'pods "a" already exists'):
        store.create_many([pod("a"), pod("b"), pod("a")])
    assert (store.list(Pod), watch.poll()) == (([], "1"), [])
    store.create_many(pod(name) for name in "ab")
    assert [event.object.name for event in watch.poll()] == ["a", "b"]


def test_update_many_is_all_or_nothing() -> None:
    store = ObjectStore()
    store.create_many(pod(name) for name in "ab")
    before, watch = store.list(Pod), store.watch(Pod, resource_version=store.list(Pod)[1])
    changed = [replace(obj, metadata=replace(obj.metadata, labels={"a": "b"})) for obj in before[0]]
    with refused(NotFoundError, 'pods "c" not found'):
        store.update_many([*changed, pod("c")])
    assert (store.list(Pod), watch.poll()) == (before, [])
    store.update_many(changed)
    assert [(event.type, event.old, event.object.metadata.labels) for event in watch.poll()] == [
        ("MODIFIED", obj, {"a": "b"}) for obj in before[0]
    ]
    store.update_many(store.list(Pod)[0])
    assert watch.poll() == []


def test_history_must_hold_something() -> None:
    with pytest.raises(ValueError, match=r"^history must be at least 1$"):
        ObjectStore(history=0)


# ---- binding ----

NOW = "1970-01-01T00:00:05Z"
SCHEDULED = Condition(type="PodScheduled", status="True", last_transition_time=NOW)


def test_binding_sets_the_node_and_the_condition() -> None:
    store = ObjectStore(lambda: 5.0)
    first = store.create(replace(pod(), status=PodStatus(phase="Pending", nominated_node_name="m")))
    store.bind(pod(), "n")
    bound = store.get(Pod, "a", "default")
    assert bound == replace(
        first,
        metadata=replace(first.metadata, resource_version="3"),
        spec=PodSpec(node_name="n"),
        status=PodStatus(phase="Pending", conditions=(SCHEDULED,)),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Condition(type="PodScheduled", status="False", reason="Unschedulable", message="no"), SCHEDULED),
        (
            Condition(type="PodScheduled", status="True", reason="R", last_transition_time="then"),
            Condition(type="PodScheduled", status="True", last_transition_time="then"),
        ),
    ],
)
def test_bind_replaces_the_condition_in_its_place(before: Condition, after: Condition) -> None:
    other, last = Condition(type="Other"), Condition(type="Last")
    store = ObjectStore(lambda: 5.0)
    store.create(replace(pod(), status=PodStatus(conditions=(other, before, last))))
    store.bind(pod(), "n")
    assert store.get(Pod, "a", "default").status.conditions == (other, after, last)


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (pod(spec=PodSpec(node_name="m")), 'pod a is already assigned to node "m"'),
        (pod(deletion_timestamp="t"), "pod a is being deleted, cannot be assigned to a host"),
        (
            pod(spec=PodSpec(scheduling_gates=(PodSchedulingGate(name="g"),))),
            "pod a has non-empty .spec.schedulingGates",
        ),
    ],
)
def test_a_pod_that_cannot_be_bound_is_a_conflict(obj: Pod, why: str) -> None:
    store = ObjectStore()
    stored = store.create(obj)
    with refused(ConflictError, f'Operation cannot be fulfilled on pods/binding "a": {why}'):
        store.bind(obj, "n")
    assert store.list(Pod) == ([stored], "2")


def test_a_binding_without_a_pod_or_a_node_is_refused() -> None:
    store = ObjectStore()
    with refused(NotFoundError, 'pods "a" not found'):
        store.bind(pod(), "n")
    with refused(InvalidObjectError, "target.name: Required value"):
        store.bind(pod(), "")


def test_bind_many_is_all_or_nothing() -> None:
    store = ObjectStore()
    pods = [pod(name) for name in "abc"]
    store.create_many(pods)
    before = store.list(Pod)
    with refused(
        ConflictError,
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"',
    ):
        store.bind_many([*pods, pods[0]], ["n", "m", "n", "m"])
    with pytest.raises(ValueError, match="shorter"):
        store.bind_many(pods, ["n"])
    assert store.list(Pod) == before
    store.bind_many(pods, ["n", "m", "n"])
    assert [obj.spec.node_name for obj in store.list(Pod)[0]] == ["n", "m", "n"]
    assert store.list(Pod)[1] == "7"


def test_a_condition_of_several_objects_is_one_write() -> None:
    """Versions and events are those of one write each; what does not change is not written."""
    store, ready = ObjectStore(), Condition(type="Ready", status="True")
    store.create_many([pod("a"), pod("b"), pod("c")])
    store.set_condition([store.get(Pod, "b", "default")], ready)
    before = store.list(Pod)[1]
    watch = store.watch(Pod, resource_version=before)
    assert store.set_condition([pod("a"), pod("gone"), pod("b"), pod("c")], ready) == [
        True,
        False,
        True,
        True,
    ]
    assert store.set_condition([], ready) == []
    other = Condition(type="Ready", status="False")
    assert store.set_condition(store.list(Pod)[0], other, stays="True") == [True, True, True]
    assert store.list(Pod)[1] == str(int(before) + 2)
    seen = [(event.type, event.object.name, int(event.resource_version)) for event in watch.poll()]
    first = int(before)
    assert seen == [("MODIFIED", "a", first + 1), ("MODIFIED", "c", first + 2)]
    assert store.list(Pod)[1] == str(first + 2)
    assert all(one.status.conditions == (ready,) for one in store.list(Pod)[0])
