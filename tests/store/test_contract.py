"""What each `ObjectClient` does: the store in memory, and the client over the wire.

`tests/live/test_contract.py` asks the same of a real API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace
from tests import make
from tests.doors.live import Session
from tests.store.api.wire_server import LIMIT, WireServer

from moorage.kube import (
    Condition,
    Node,
    Object,
    Pod,
    PodDisruptionBudget,
    PodStatus,
    PriorityClass,
    parse_selector,
)
from moorage.live.client import ApiClient, Connection
from moorage.store import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    InvalidObjectError,
    NotFoundError,
    ObjectClient,
    ObjectStore,
    Replacement,
    Watcher,
    patch_pod_status,
)

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
OTHER_NAME = "the name of the object (b) does not match the name on the URL (a)"
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
UNKNOWN_FIELD = '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
OTHER = "kube-public"
"""A namespace that every cluster has."""


class Pages(Connection):
    """A connection that lists page by page, of two objects each, never as a stream."""

    def __init__(self, connection: Connection) -> None:
        vars(self).update(vars(connection))

    def stream(self, path: str, params: Mapping[str, str]) -> Any:
        if "sendInitialEvents" in params:
            raise BadRequestError("lists are read in pages")
        return super().stream(path, params)

    def request(self, method: Any, path: str, params: Any = None, *rest: Any, **named: Any) -> bytes:
        if params and "limit" in params:
            params = {**params, "limit": "2"}
        return super().request(method, path, params, *rest, **named)


@pytest.fixture(params=["memory", "streams", "pages"])
def client(request: pytest.FixtureRequest) -> Iterator[ObjectClient]:
    store = ObjectStore(lambda: 1000.0)
    if request.param == "memory":
        yield store
        return
    server = WireServer(store)
    connection = Connection(Session(server.url))
    with ApiClient(Pages(connection) if request.param == "pages" else connection) as client:
        yield client
    server.close()


CONTAINERS = [{"name": "c", "image": "i"}]


def pod(name: str = "a", namespace: str = "default", meta: Any = None, **spec: Any) -> Pod:
    metadata = {"uid": ""} | (meta or {})
    return make.pod(f"{namespace}/{name}", metadata=metadata, containers=CONTAINERS, **spec)


def budget(name: str = "a", namespace: str = "default") -> PodDisruptionBudget:
    made: PodDisruptionBudget = make.make("PodDisruptionBudget", f"{namespace}/{name}")
    return made


def with_meta(obj: Any, **changes: Any) -> Any:
    return replace(obj, metadata=replace(obj.metadata, **changes))


@contextmanager
def refused(error: type[ApiError], text: str) -> Iterator[None]:
    with pytest.raises(error) as info:
        yield
    assert str(info.value) == text


def stored(client: ObjectClient) -> Pod:
    return client.get(Pod, "a", "default")


def version(client: ObjectClient) -> str:
    """Of the one pod: it grows with each write."""
    return stored(client).metadata.resource_version


def patch(client: ObjectClient, change: Any, **options: Any) -> Pod:
    return client.patch(Pod, "a", "default", change, **options)


def is_gone(client: ObjectClient) -> bool:
    return client.list(Pod, "default")[0] == []


def news(watcher: Watcher[Any], count: int) -> list[tuple[str, str]]:
    """The next news of a watcher; objects that it has listed as LISTED."""
    seen: list[tuple[str, str]] = []
    while len(seen) < count:
        assert watcher.wait(LIMIT)
        polled = watcher.poll()
        if isinstance(polled, Replacement):
            seen += [("LISTED", " ".join(obj.name for obj in polled))]
        else:
            seen += [(event.type, event.object.name) for event in polled]
    return seen


# ---- objects ----


def test_what_is_created_is_read_again(client: ObjectClient) -> None:
    created = client.create(pod(meta={"labels": {"x": "y"}, "resource_version": "77"}))
    meta = created.metadata
    assert meta.labels == {"x": "y"}
    assert [len(part) for part in meta.uid.split("-")] == [8, 4, 4, 4, 12]
    assert meta.creation_timestamp.endswith("Z")  # type: ignore[union-attr]
    assert meta.resource_version.isdigit()
    assert created == stored(client) == client.get("Pod", "a", "default")
    node = client.create(make.make("Node", "n"))
    assert node == client.get(Node, "n") == client.list(Node)[0][0]
    client.delete(Pod, "a", "default")
    assert client.create(pod()).metadata.uid != meta.uid


@pytest.mark.parametrize("base", ["a-", "x" * 70])
def test_names_are_generated(client: ObjectClient, base: str) -> None:
    names = [client.create(pod("", meta={"generate_name": base})).name for _ in range(2)]
    assert len({*names}) == 2
    for name in names:
        assert name[:-5] == base[:58]
        assert {*name[-5:]} <= {*"bcdfghjklmnpqrstvwxz2456789"}
    assert [obj.name for obj in client.list(Pod, "default")[0]] == sorted(names)
    assert client.create(pod("a", meta={"generate_name": "b-"})).name == "a"


@pytest.mark.parametrize(
    ("obj", "what", "kind"),
    [
        (pod(), "pods", "Pod"),
        (make.make("Node", "a"), "nodes", "Node"),
        (
            budget(),
            "poddisruptionbudgets.policy",
            "PodDisruptionBudget.policy",
        ),
        (
            make.make("PriorityClass", "a"),
            "priorityclasses.scheduling.k8s.io",
            "PriorityClass.scheduling.k8s.io",
        ),
    ],
)
def test_refusals_name_the_resource(client: ObjectClient, obj: Object, what: str, kind: str) -> None:
    struct, namespace = type(obj), obj.namespace
    for call in (
        lambda: client.get(struct, "a", namespace),
        lambda: client.update(obj),
        lambda: client.patch(struct, "a", namespace, {}),
        lambda: client.delete(struct, "a", namespace),
    ):
        with refused(NotFoundError, f'{what} "a" not found'):
            call()
    first = client.create(obj)
    with refused(AlreadyExistsError, f'{what} "a" already exists'):
        client.create(obj)
    second = client.update(with_meta(first, labels={"new": "1"}))
    conflict, old = "Operation cannot be fulfilled on", first.metadata.resource_version
    new, uid = second.metadata.resource_version, first.metadata.uid
    with refused(ConflictError, f'{conflict} {what} "a": {MODIFIED}'):
        client.update(with_meta(first, labels={"new": "2"}))
    with refused(ConflictError, f'{conflict} {what} "a": {MODIFIED}'):
        client.patch(struct, "a", namespace, {"metadata": {"resourceVersion": old, "labels": None}})
    with refused(
        ConflictError,
        f'{conflict} {kind} "a": the ResourceVersion in the precondition ({old}) does not match the '
        f"ResourceVersion in record ({new}). The object might have been modified",
    ):
        client.delete(struct, "a", namespace, uid=uid, resource_version=old)
    with refused(
        ConflictError,
        f'{conflict} {kind} "a": the UID in the precondition (v) does not match the UID in record ({uid}). '
        "The object might have been deleted and then recreated",
    ):
        client.delete(struct, "a", namespace, uid="v", resource_version=new)
    assert client.get(struct, "a", namespace) == second
    client.delete(struct, "a", namespace, uid=uid, resource_version=new)
    assert client.list(struct, namespace, field_selector="metadata.name=a")[0] == []


def test_a_write_to_an_object_of_another_uid_is_a_conflict(client: ObjectClient) -> None:
    uid = client.create(pod()).metadata.uid
    text = (
        'Operation cannot be fulfilled on pods "a": StorageError: invalid object, Code: 4, '
        "Key: /registry/pods/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: v, UID in object meta: {uid}"
    )
    other: Any = {"metadata": {"uid": "v", "labels": {"a": "b"}}}
    for call in (
        lambda: client.update(pod(meta={"uid": "v"})),
        lambda: client.bind(pod(meta={"uid": "v"}), "n"),
    ):
        with refused(ConflictError, text):
            call()
    text = 'Pod "a" is invalid: metadata.uid: Invalid value: "v": field is immutable'
    for subresource in ("", "status"):
        with refused(InvalidObjectError, text):
            patch(client, {**other, "status": {"phase": "Failed"}}, subresource=subresource)
    with pytest.raises(ConflictError):
        patch_pod_status(client, pod(meta={"uid": "v"}), PodStatus(nominated_node_name="n"))


def test_an_object_without_a_name_is_refused(client: ObjectClient) -> None:
    text = 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'
    with refused(InvalidObjectError, text):
        client.create(pod(""))


def test_a_namespace_where_the_kind_has_none(client: ObjectClient) -> None:
    node = client.create(make.make("Node", "default/a"))
    assert node.namespace == ""


def test_a_kind_that_is_not_known(client: ObjectClient) -> None:
    with pytest.raises(ValueError, match=r'^no matches for kind "Pot"$'):
        client.list("Pot")


# ---- updates ----


def test_an_update_keeps_what_belongs_to_the_server(client: ObjectClient) -> None:
    first = client.create(pod())
    second = client.update(with_meta(replace(first), uid="", resource_version="", labels={"l": "1"}))
    assert int(second.metadata.resource_version) > int(first.metadata.resource_version)
    expected = replace(first.metadata, labels={"l": "1"}, resource_version=second.metadata.resource_version)
    assert second.metadata == expected
    assert stored(client) == second


def test_an_update_that_changes_nothing_writes_nothing(client: ObjectClient) -> None:
    first = client.create(pod())
    before = version(client)
    assert client.update(first) == client.update(with_meta(first, resource_version="")) == first
    for type_ in ("merge", "strategic"):
        assert patch(client, {}, type=type_) == first
        assert patch(client, {"kind": "Pod", "status": {"phase": "Failed"}}, type=type_) == first
    assert patch(client, [], type="json") == first
    assert version(client) == before


def test_an_update_has_the_status(client: ObjectClient) -> None:
    first = client.create(pod())
    status = replace(first.status, nominated_node_name="n")
    client.update(replace(with_meta(first, labels={"a": "b"}), status=status))
    assert (stored(client).metadata.labels, stored(client).status) == ({"a": "b"}, status)


def test_a_deletion_time_belongs_to_the_server(client: ObjectClient) -> None:
    first, time = client.create(pod()), "2001-01-01T00:00:00Z"
    for field, value, text in [
        ("deletion_timestamp", time, f'metadata.deletionTimestamp: Invalid value: "{time}": '),
        ("deletion_grace_period_seconds", 5, "metadata.deletionGracePeriodSeconds: Invalid value: 5: "),
    ]:
        with refused(InvalidObjectError, f'Pod "a" is invalid: {text}field is immutable'):
            client.update(with_meta(first, **{field: value}))
    assert stored(client) == first


# ---- lists ----


def test_a_list_is_in_the_order_of_keys(client: ObjectClient) -> None:
    for name, namespace in [
        ("b", OTHER),
        ("c", "default"),
        ("a", OTHER),
        ("a-b", "default"),
        ("a", "default"),
    ]:
        client.create(pod(name, namespace))
    objects, at = client.list(Pod)
    keys = ["default/a", "default/a-b", "default/c", f"{OTHER}/a", f"{OTHER}/b"]
    assert [obj.key for obj in objects] == keys
    assert int(at) >= max(int(obj.metadata.resource_version) for obj in objects)
    assert client.list(Pod, OTHER)[0] == objects[3:]
    assert client.list(Pod, "kube-system")[0] == []
    client.delete(Pod, "a", "default")
    assert int(client.list(Pod)[1]) > int(at)


def test_a_list_has_what_its_selectors_choose(client: ObjectClient) -> None:
    never: dict[str, Any] = {"restart_policy": "Never"}
    client.create(pod("a", meta={"labels": {"app": "x"}}, **never))
    client.create(pod("b", meta={"labels": {"app": "x", "old": ""}}, node_name="n", **never))
    client.create(pod("c", meta={"labels": {"app": "y"}}, scheduler_name="s", restart_policy="Always"))
    client.create(pod("d", OTHER, host_network=True, **never))
    for name, status in (("a", {"nominatedNodeName": "m"}), ("b", {"phase": "Failed"})):
        client.patch(Pod, name, "default", {"status": status}, subresource="status")
    for labels, fields, names in [
        ("", "", "abcd"),
        ("app=x", "", "ab"),
        ("app!=x", "", "cd"),
        ("app in (x, y),!old", "", "ac"),
        ("", "metadata.name=b", "b"),
        ("", "metadata.name==b", "b"),
        ("", "metadata.name!=b", "acd"),
        ("", f"metadata.namespace={OTHER}", "d"),
        ("", "spec.nodeName=", "acd"),
        ("", "spec.nodeName=n", "b"),
        ("", "status.phase!=Succeeded,status.phase!=Failed", "acd"),
        ("", "spec.schedulerName=s", "c"),
        ("", "spec.restartPolicy=Always,", "c"),
        ("", "spec.hostNetwork=true", "d"),
        ("", "spec.hostNetwork=false,status.nominatedNodeName=m", "a"),
        ("app=x", "spec.nodeName!=n", "a"),
    ]:
        for selector in (labels, parse_selector(labels)):
            selected = client.list(Pod, label_selector=selector, field_selector=fields)[0]
            assert "".join(obj.name for obj in selected) == names, (labels, fields)


@pytest.mark.parametrize(
    ("kind", "selector", "text"),
    [
        (Pod, "spec.foo=1", "field label not supported: spec.foo"),
        (Node, "spec.nodeName=1", "field label not supported: spec.nodeName"),
        (PodDisruptionBudget, "spec.x=1", UNKNOWN_FIELD),
        (Pod, "spec.x=1,oops", "invalid selector: 'spec.x=1,oops'; can't understand 'oops'"),
    ],
)
def test_selectors_that_are_refused(client: ObjectClient, kind: Any, selector: str, text: str) -> None:
    with refused(BadRequestError, text):
        client.list(kind, field_selector=selector)
    with refused(BadRequestError, "unable to parse requirement: found 'x' expected: '('"):
        client.list(kind, label_selector="a in x")


# ---- watches ----


def test_a_watcher_has_the_objects_and_then_the_events(client: ObjectClient) -> None:
    for name in "ba":
        client.create(budget(name))
    watcher = client.follow(PodDisruptionBudget, "default")
    assert news(watcher, 1) == [("LISTED", "a b")]
    client.create(budget("c"))
    client.create(budget("d", OTHER))
    client.update(with_meta(client.get(PodDisruptionBudget, "a", "default"), labels={"x": "y"}))
    client.delete(PodDisruptionBudget, "b", "default")
    assert news(watcher, 3) == [("ADDED", "c"), ("MODIFIED", "a"), ("DELETED", "b")]
    watcher.close()
    client.delete(PodDisruptionBudget, "d", OTHER)


@pytest.mark.parametrize(
    ("selector", "begins", "ceases"),
    [
        ({"label_selector": "x"}, {"metadata": {"labels": {"x": "1"}}}, {"metadata": {"labels": None}}),
        (
            {"field_selector": "spec.unschedulable=true"},
            {"spec": {"unschedulable": True}},
            {"spec": {"unschedulable": None}},
        ),
    ],
)
def test_a_watcher_with_a_selector(client: ObjectClient, selector: Any, begins: Any, ceases: Any) -> None:
    client.create(make.make("Node", "a"))
    watcher = client.follow(Node, **selector)
    assert news(watcher, 1) == [("LISTED", "")]
    for change in (begins, ceases, begins, {"metadata": {"annotations": {"x": "y"}}}):
        client.patch(Node, "a", "", change)
    client.delete(Node, "a")
    expected = [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert news(watcher, 5) == expected
    watcher.close()


# ---- patches ----


def test_patches_of_each_type(client: ObjectClient) -> None:
    client.create(pod(meta={"labels": {"a": "1", "b": "2"}}))
    changed = patch(client, {"metadata": {"labels": {"a": None, "c": "3"}}})
    assert changed.metadata.labels == {"b": "2", "c": "3"}
    steps = [
        {"op": "test", "path": "/kind", "value": "Pod"},
        {"op": "test", "path": "/spec/containers/0/name", "value": "c"},
        {"op": "move", "from": "/metadata/labels/b", "path": "/metadata/labels/z"},
    ]
    assert patch(client, steps, type="json").metadata.labels == {"c": "3", "z": "2"}
    assert patch(client, {"metadata": {"labels": {"c": None}}}, type="strategic").metadata.labels == {
        "z": "2"
    }
    assert stored(client).metadata.labels == {"z": "2"}


def test_the_status_is_a_subresource(client: ObjectClient) -> None:
    first = client.create(pod(meta={"labels": {"a": "1"}}))
    both = {"metadata": {"labels": {"a": "2"}}, "status": {"nominatedNodeName": "m"}}
    second = patch(client, both)
    assert (second.metadata.labels, second.status) == ({"a": "2"}, first.status)
    third = patch(client, {"spec": {"nodeName": "m"}, "status": {"phase": "Failed"}}, subresource="status")
    assert (third.spec, third.status.phase) == (second.spec, "Failed")
    steps = [{"op": "replace", "path": "/status/phase", "value": "Running"}]
    assert patch(client, steps, type="json") == third
    assert patch(client, steps, type="json", subresource="status").status.phase == "Running"


def test_conditions_are_merged_by_their_type(client: ObjectClient) -> None:
    client.create(pod())

    def conditions(type_: Any, name: str, status: str) -> list[tuple[str, str]]:
        change = {"status": {"conditions": [{"type": name, "status": status}]}}
        changed = patch(client, change, type=type_, subresource="status")
        return [(condition.type, condition.status) for condition in changed.status.conditions]

    assert conditions("strategic", "Ready", "True") == [("Ready", "True")]
    assert conditions("strategic", "PodScheduled", "False") == [("PodScheduled", "False"), ("Ready", "True")]
    assert conditions("strategic", "Ready", "False") == [("PodScheduled", "False"), ("Ready", "False")]
    assert conditions("merge", "Ready", "True") == [("Ready", "True")]
    current = stored(client)
    new = Condition(type="PodScheduled", status="False")
    patch_pod_status(client, current, replace(current.status, conditions=(*current.status.conditions, new)))
    types = [condition.type for condition in stored(client).status.conditions]
    assert types == ["Ready", "PodScheduled"]


@pytest.mark.parametrize(("kind", "subresource"), [(PriorityClass, "status"), (Pod, "scale"), (Pod, "spec")])
def test_subresources_that_are_not_there(client: ObjectClient, kind: Any, subresource: str) -> None:
    obj = client.create(pod() if kind is Pod else make.make(kind.__name__, "a"))
    with refused(NotFoundError, "the server could not find the requested resource"):
        client.patch(kind, "a", obj.namespace, {}, subresource=subresource)


@pytest.mark.parametrize(
    ("change", "type_", "error", "text"),
    [
        ({"metadata": {"name": "b"}}, "merge", BadRequestError, OTHER_NAME),
        ({"metadata": {"namespace": "b"}}, "merge", BadRequestError, OTHER_NAMESPACE),
        ({"spec": {"containers": 7}}, "merge", InvalidObjectError, ""),
        ({"metadata": {"finalizers": 7}}, "strategic", InvalidObjectError, ""),
        ([{"op": "remove", "path": "/spec/affinity"}], "json", InvalidObjectError, ""),
        ([{"op": "test", "path": "/kind", "value": "Node"}], "json", InvalidObjectError, ""),
        ({"kind": "Node"}, "merge", InvalidObjectError, ""),
        ([], "merge", BadRequestError, ""),
        ({}, "json", BadRequestError, ""),
    ],
)
def test_a_patch_that_is_refused_changes_nothing(
    client: ObjectClient, change: Any, type_: Any, error: Any, text: str
) -> None:
    first = client.create(pod())
    with pytest.raises(error) as info:
        patch(client, change, type=type_)
    assert type(info.value) is error
    assert text in ("", str(info.value))
    assert stored(client) == first


# ---- deletions ----


def test_an_object_with_finalizers_goes_with_its_last(client: ObjectClient) -> None:
    client.create(pod(meta={"finalizers": ("x/a", "x/b")}))
    watcher = client.follow(Pod, "default")
    assert news(watcher, 1) == [("LISTED", "a")]
    left = client.delete(Pod, "a", "default")
    assert left == stored(client)
    assert left.metadata.deletion_timestamp is not None
    assert left.metadata.deletion_grace_period_seconds == 0
    assert client.delete(Pod, "a", "default") == left
    assert client.delete(Pod, "a", "default", grace_period_seconds=30) == left
    with refused(AlreadyExistsError, 'object is being deleted: pods "a" already exists'):
        client.create(pod())
    with refused(
        InvalidObjectError,
        'Pod "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object '
        'is being deleted, found new finalizers []string{"a/new", "b/new"}',
    ):
        client.update(with_meta(left, finalizers=("b/new", "x/a", "x/b", "a/new")))
    other = with_meta(left, deletion_timestamp="2001-01-01T00:00:00Z", resource_version="")
    assert client.update(other) == left
    less = client.update(with_meta(left, finalizers=("x/b",)))
    assert stored(client) == less
    last = client.update(with_meta(less, finalizers=()))
    assert last.metadata.finalizers == ()
    assert is_gone(client)
    assert news(watcher, 3) == [("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    watcher.close()


def test_finalizers_may_go_before_the_object_is_deleted(client: ObjectClient) -> None:
    client.create(pod(meta={"finalizers": ("x/a",)}))
    patch(client, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}, type="strategic")
    client.delete(Pod, "a", "default")
    assert is_gone(client)


def test_a_pod_stays_on_its_node_for_its_grace_period(client: ObjectClient) -> None:
    client.create(pod(node_name="n"))

    def delete(seconds: int) -> Any:
        return client.delete(Pod, "a", "default", grace_period_seconds=seconds).metadata

    first = delete(90)
    assert first.deletion_grace_period_seconds == 90
    assert delete(90) == delete(100) == first
    shorter = delete(30)
    assert shorter.deletion_grace_period_seconds == 30
    times = [datetime.fromisoformat(meta.deletion_timestamp) for meta in (first, shorter)]
    assert (times[0] - times[1]).total_seconds() == 60
    labelled = client.update(with_meta(stored(client), labels={"a": "b"})).metadata
    assert labelled.deletion_timestamp == shorter.deletion_timestamp
    delete(0)
    assert is_gone(client)


def test_a_negative_grace_period_is_one_second(client: ObjectClient) -> None:
    client.create(pod(node_name="n"))
    left = client.delete(Pod, "a", "default", grace_period_seconds=-7)
    assert left.metadata.deletion_grace_period_seconds == 1


@pytest.mark.parametrize("is_finalizer_last", [True, False])
def test_finalizers_and_a_grace_period_both_have_to_go(client: ObjectClient, is_finalizer_last: bool) -> None:
    client.create(pod(node_name="n", meta={"finalizers": ("x/y",)}))

    def end(what: str) -> None:
        if what == "finalizers":
            patch(client, {"metadata": {"finalizers": None}})
        else:
            client.delete(Pod, "a", "default", grace_period_seconds=0)

    client.delete(Pod, "a", "default", grace_period_seconds=30)
    steps = ["grace period", "finalizers"] if is_finalizer_last else ["finalizers", "grace period"]
    end(steps[0])
    assert not is_gone(client)
    end(steps[1])
    assert is_gone(client)


@pytest.mark.parametrize("what", ["a pod without a node", "a pod that has ended", "a node", "a budget"])
def test_what_runs_nowhere_has_no_grace_period(client: ObjectClient, what: str) -> None:
    kinds: dict[str, Object] = {
        "a node": make.make("Node", "a"),
        "a budget": budget(),
    }
    obj = kinds.get(what, pod(node_name="n" if what == "a pod that has ended" else ""))
    client.create(obj)
    if what == "a pod that has ended":
        patch(client, {"status": {"phase": "Failed"}}, subresource="status")
    client.delete(type(obj), "a", obj.namespace, grace_period_seconds=30)
    assert client.list(type(obj), field_selector="metadata.name=a")[0] == []


# ---- bindings ----


def test_a_binding_sets_the_node_and_the_condition(client: ObjectClient) -> None:
    first = client.create(pod())
    patch(client, {"status": {"nominatedNodeName": "m"}}, subresource="status")
    client.bind(first, "n")
    bound = stored(client)
    assert bound.spec == replace(first.spec, node_name="n")
    (condition,) = bound.status.conditions
    assert (condition.type, condition.status) == ("PodScheduled", "True")
    assert condition.last_transition_time
    assert bound.status.nominated_node_name == ""


def test_a_binding_that_is_refused_changes_nothing(client: ObjectClient) -> None:
    start = "Operation cannot be fulfilled on pods/binding"
    client.create(pod("bound", node_name="m"))
    client.create(pod("going", meta={"finalizers": ("x/y",)}))
    client.delete(Pod, "going", "default")
    client.create(pod("gated", scheduling_gates=[{"name": "x/g"}]))
    before = client.list(Pod, "default")[0]
    for name, why in [
        ("bound", 'is already assigned to node "m"'),
        ("going", "is being deleted, cannot be assigned to a host"),
        ("gated", "has non-empty .spec.schedulingGates"),
    ]:
        with refused(ConflictError, f'{start} "{name}": pod {name} {why}'):
            client.bind(pod(name), "n")
    with refused(NotFoundError, 'pods "a" not found'):
        client.bind(pod(), "n")
    with refused(InvalidObjectError, "target.name: Required value"):
        client.bind(pod("bound"), "")
    assert client.list(Pod, "default")[0] == before
    client.patch(Pod, "going", "default", {"metadata": {"finalizers": None}})
