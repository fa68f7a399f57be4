"""Extended resources that device classes provide."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.devices.make import device_class
from tests.doors.engine import ExtendedRequestsOfPods, ResourceClasses, claim_spec

from moorage import Scheduler
from moorage.kube import ContainerStatus, DeviceClass, Pod, PodStatus, ResourceRequirements, decode_object
from moorage.store import InformerFactory, ObjectStore


def followed(store: ObjectStore) -> tuple[InformerFactory, ResourceClasses]:
    informers = InformerFactory(store)
    classes = ResourceClasses(informers.informer(DeviceClass))
    informers.run_once()
    return informers, classes


def store_of(*classes: DeviceClass) -> ObjectStore:
    store = ObjectStore()
    for served in classes:
        store.create(served)
    return store


def serving(name: str, resource: str | None = None, created: str | None = None) -> DeviceClass:
    found = device_class(name, **({"extendedResourceName": resource} if resource else {}))
    return replace(found, metadata=replace(found.metadata, creation_timestamp=created))


GPU_AND_NIC = store_of(*[serving(name, f"example.com/{name}") for name in ("gpu", "nic")])
CLASSES = followed(GPU_AND_NIC)[1].by_resource
NAMES = ("cpu", "example.com/gpu", "example.com/nic", "example.com/other")


def pod(**spec: Any) -> Pod:
    found = decode_object({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert isinstance(found, Pod)
    return found


def requesting(name: str, requests: dict[str, str], **more: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}, **more}


requests = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("0", "1", "2")), max_size=3)
containers = st.builds(requesting, st.sampled_from("ab"), requests)
init_containers = st.builds(requesting, st.sampled_from("cd"), requests) | st.builds(
    requesting, st.sampled_from("cd"), requests, restartPolicy=st.just("Always")
)
pods = st.builds(
    pod,
    containers=st.lists(containers, min_size=1, max_size=2),
    initContainers=st.lists(init_containers, max_size=2),
    overhead=st.just({}) | requests,
)


@given(st.lists(pods, min_size=2, max_size=6))
def test_pods_share_the_requests_that_each_would_have(some: list[Pod]) -> None:
    together = ExtendedRequestsOfPods(CLASSES)
    for one in (*some, *some):
        assert together.of(one) == ExtendedRequestsOfPods(CLASSES).of(one)


def test_equal_pods_share_one_spec() -> None:
    found = ExtendedRequestsOfPods(CLASSES)
    one, other = [pod(containers=[requesting("a", {"example.com/gpu": "2"})]) for _ in range(2)]
    shared = found.of(one)
    assert shared is not None
    assert shared is found.of(other)
    assert (shared.spec, shared.mappings) == claim_spec(one, ["example.com/gpu"], CLASSES)


def test_requests_are_told_apart_by_what_classes_provide() -> None:
    found = ExtendedRequestsOfPods(CLASSES)
    assert found.of(pod(containers=[requesting("a", {"cpu": "1"})])) is None
    partly = found.of(pod(containers=[requesting("a", {"example.com/gpu": "1", "example.com/other": "1"})]))
    assert partly is not None
    assert partly.spec is None
    assert partly.resources == {"example.com/gpu": 1, "example.com/other": 1}


def test_what_containers_hold_is_not_asked_for() -> None:
    held = ContainerStatus(name="a", resources=ResourceRequirements(requests={"example.com/gpu": "1"}))
    status = PodStatus(container_statuses=(held,))
    one = replace(pod(containers=[requesting("a", {"cpu": "1"})]), status=status)
    assert ExtendedRequestsOfPods(CLASSES).of(one) is None


def test_only_so_many_answers_are_kept() -> None:
    found = ExtendedRequestsOfPods(CLASSES)
    found.MOST = 2
    some = [pod(containers=[requesting("a", {"example.com/gpu": str(count)})]) for count in (1, 2, 3, 1)]
    assert [one.resources["example.com/gpu"] for one in map(found.of, some) if one] == [1, 2, 3, 1]


def shown(classes: ResourceClasses) -> dict[str, str]:
    return {resource.rpartition("/")[2]: served.name for resource, served in classes.by_resource.items()}


def test_a_class_that_loses_a_shared_name_has_no_name_at_all() -> None:
    store = store_of(serving("a", "x/gpu"))
    informers, classes = followed(store)
    store.create(serving("b", "x/gpu"))
    informers.run_once()
    assert shown(classes) == {"gpu": "a", "a": "a"}
    store.create(serving("c", "x/gpu", "2026-01-01T00:00:00Z"))  # newer, so it wins
    informers.run_once()
    assert shown(classes) == {"gpu": "c", "a": "a", "c": "c"}


def test_a_class_that_goes_takes_the_shared_name_along() -> None:
    store = store_of(serving("a", "x/gpu"), serving("b", "x/gpu"))
    informers, classes = followed(store)
    store.delete(DeviceClass, "b")
    informers.run_once()
    assert shown(classes) == {"a": "a"}


def test_a_class_that_changes_its_name_gives_up_the_old_one() -> None:
    store = store_of(serving("a", "x/gpu"))
    informers, classes = followed(store)
    store.update(serving("a", "x/other"))
    informers.run_once()
    assert shown(classes) == {"other": "a", "a": "a"}
    first = classes.by_resource["x/other"]
    store.update(device_class("a", "true", extendedResourceName="x/other"))
    informers.run_once()
    assert classes.by_resource["x/other"] is first  # as upstream: it is its own rival


def test_the_order_of_events_survives_an_undo_and_a_fork() -> None:
    store = store_of(serving("a", "x/gpu"), serving("b", "x/gpu"))
    scheduler = Scheduler(store, kubernetes_version="1.36")
    classes = scheduler.context.handle.shared(ResourceClasses.of)
    scheduler.sync()
    store.delete(DeviceClass, "b")
    scheduler.sync()
    before = shown(classes)
    assert before == {"a": "a"}
    with scheduler.transaction():
        store.create(serving("b", "x/gpu"))
        store.delete(DeviceClass, "a")
        scheduler.sync()
        assert shown(classes) != before
    assert shown(classes) == before
    copied = scheduler.fork().context.handle.shared(ResourceClasses.of)
    assert shown(copied) == before
