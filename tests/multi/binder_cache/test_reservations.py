"""Reservations: what deleted pods leave on their nodes, and the pods that take their place."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.core.make import node
from tests.doors.kube import (
    MATCHED_PLACEHOLDER,
    RESERVATION,
    RESERVATION_INDEX,
    deployment_of,
    placeholder_of,
    placeholder_pod,
)
from tests.multi.binder_cache.binder_kit import Kit, pod, refused, reservation

from moorage.objects import Deployment, ObjectMeta, OwnerReference, Pod

WANTS = {RESERVATION: "true", RESERVATION_INDEX: "i"}
TAKES = {RESERVATION_INDEX: "i", MATCHED_PLACEHOLDER: "default/a-placeholder"}
NOT_FOUND = "reservation info i/default/a-placeholder/n not found"


def gone(on: str = "n") -> Pod:
    """The pod that is deleted."""
    return pod("a", on, WANTS)


def back(name: str = "b") -> Pod:
    """A pod that takes its place."""
    return pod(name, "n", TAKES)


@pytest.fixture
def kit() -> Kit:
    one = Kit(resource_reservation=True, pod_assumed_ttl=10, reservation_ttl=5)
    one.cache.add_node(node("n"))
    return one


@pytest.fixture
def reserved(kit: Kit) -> Kit:
    kit.cache.add_pod(gone())
    kit.cache.delete_pod(gone())
    return kit


def is_reserved(kit: Kit) -> bool:
    """A free placeholder is charged, and can be had; or neither."""
    stands = kit.has(placeholder_pod(gone()))
    assert kit.info("n").guaranteed_reserved.milli_cpu == (100 if stands else 0)
    if stands:
        assert kit.cache.get_available_placeholder_pod(back()).name == "a-placeholder"
    return stands


def is_consumed(kit: Kit) -> bool:
    assert not kit.has(placeholder_pod(gone()))
    refused("reservation placeholder is already matched", kit.cache.get_available_placeholder_pod, back())
    return True


def is_released(kit: Kit) -> bool:
    assert not kit.has(placeholder_pod(gone()))
    refused(NOT_FOUND, kit.cache.get_available_placeholder_pod, back())
    return True


def test_30_corrected_a_pod_whose_placeholder_is_missing_is_not_assumed(kit: Kit) -> None:
    text = "failed to get reservationInfo when assume pod, reservation info not found"
    refused(text, kit.assume, back())
    assert (kit.has(back()), kit.used("n")) == (False, (0, 0))
    kit.forget(back())
    assert kit.used("n") == (0, 0)


def test_31_usage_stays_while_pods_change_places(reserved: Kit) -> None:
    assert is_reserved(reserved)
    assert reserved.used("n") == (100, 1)
    reserved.assume(back())
    assert is_consumed(reserved)
    assert reserved.used("n") == (100, 1)
    reserved.forget(back())
    assert is_reserved(reserved)
    assert reserved.used("n") == (100, 1)


def test_an_assumed_pod_that_is_deleted_gives_its_place_back(reserved: Kit) -> None:
    reserved.assume(back())
    assert is_consumed(reserved)
    reserved.cache.delete_pod(back())
    assert not reserved.has(back())
    assert is_reserved(reserved)
    assert reserved.used("n") == (100, 1)


def test_32_a_placeholder_comes_back_and_ends_in_its_time(reserved: Kit) -> None:
    reserved.assume(back())
    reserved.cache.finish_binding(back())
    reserved.clean(6)
    assert is_consumed(reserved)
    reserved.clean(11)
    assert not reserved.has(back())
    assert is_reserved(reserved)
    reserved.clean(11 + 4)
    assert is_reserved(reserved)
    reserved.clean(11 + 6)
    assert is_released(reserved)
    assert reserved.used("n") == (0, 0)


def test_an_expired_pod_gives_its_place_back(kit: Kit) -> None:
    kit.cache.add_reservation(reservation(gone()))
    kit.assume(back())
    kit.cache.finish_binding(back())
    kit.clean(11)
    assert not kit.has(back())
    assert is_reserved(kit)


def test_without_a_reservation_a_placeholder_lasts_for_the_shorter_ttl(reserved: Kit) -> None:
    reserved.clean(5)
    assert is_reserved(reserved)
    reserved.clean(5.1)
    assert is_released(reserved)
    assert reserved.used("n") == (0, 0)


def test_a_reservation_keeps_the_placeholder(reserved: Kit) -> None:
    reserved.cache.add_reservation(reservation(gone()))
    reserved.clean(1000)
    assert is_reserved(reserved)
    assert reserved.used("n") == (100, 1)


@pytest.mark.parametrize(
    ("phase", "stays"), [("", True), ("Pending", True), ("Matched", False), ("TimeOut", False)]
)
def test_which_reservations_occupy(kit: Kit, phase: str, stays: bool) -> None:
    kit.cache.add_reservation(reservation(gone(), phase))
    assert is_reserved(kit) == stays


def test_a_reservation_on_no_node_occupies_nothing(kit: Kit) -> None:
    kit.cache.add_reservation(reservation(gone(on="")))
    assert kit.cache.state.pods() == []


def test_a_deleted_reservation_is_released(kit: Kit) -> None:
    kit.cache.add_reservation(reservation(gone()))
    kit.cache.delete_reservation(reservation(gone()))
    assert is_released(kit)
    kit.cache.delete_reservation(reservation(gone()))


def test_a_matched_reservation_is_consumed_once_its_owner_is_known(kit: Kit) -> None:
    kit.cache.add_reservation(reservation(gone()))
    matched = reservation(gone(), "Matched", owner="b")
    kit.cache.update_reservation(reservation(gone()), matched)
    assert is_reserved(kit)
    kit.cache.add_pod(pod("b", "n"))
    kit.cache.update_reservation(reservation(gone()), matched)
    assert is_consumed(kit)
    kit.cache.update_reservation(matched, reservation(gone()))
    assert is_reserved(kit)
    kit.cache.update_reservation(matched, matched)
    assert is_reserved(kit)


def test_a_reservation_that_moves_is_replaced(kit: Kit) -> None:
    kit.cache.add_node(node("m"))
    kit.cache.add_reservation(reservation(gone("m")))
    kit.cache.update_reservation(reservation(gone("m")), reservation(gone()))
    assert is_reserved(kit)
    assert kit.used("m") == (0, 0)


def test_a_reservation_for_another_pod_releases_the_first(kit: Kit) -> None:
    kit.cache.add_reservation(reservation(gone()))
    other = pod("c", "n", WANTS | {RESERVATION_INDEX: "j"})
    kit.cache.update_reservation(reservation(gone()), reservation(other))
    assert is_released(kit)
    assert kit.used("n") == (100, 1)


def test_an_assumed_pod_leaves_nothing(kit: Kit) -> None:
    kit.assume(gone())
    kit.cache.delete_pod(gone())
    assert is_released(kit)


def test_a_placeholder_is_taken_once(reserved: Kit) -> None:
    reserved.assume(back())
    refused("reservation placeholder is already matched", reserved.assume, back("c"))
    assert reserved.used("n") == (100, 1)


def test_binding_keeps_the_place(reserved: Kit) -> None:
    reserved.assume(back())
    reserved.cache.update_pod(replace(back(), spec=replace(back().spec, node_name="")), back())
    assert is_consumed(reserved)
    assert reserved.used("n") == (100, 1)
    reserved.cache.delete_pod(back())
    assert is_consumed(reserved)
    reserved.clean(6)
    assert is_released(reserved)


def test_a_pod_that_was_bound_elsewhere_takes_the_place_too(reserved: Kit) -> None:
    reserved.cache.update_pod(replace(back(), spec=replace(back().spec, node_name="")), back())
    assert is_consumed(reserved)
    assert reserved.used("n") == (100, 1)


def test_a_deployment_asks_for_its_pods(kit: Kit) -> None:
    store = kit.cache.reservations
    assert store is not None
    owner = OwnerReference(kind="ReplicaSet", name="d-57b", uid="rs", controller=True)
    one = replace(gone(), metadata=replace(gone().metadata, annotations={}, owner_references=(owner,)))
    assert (deployment_of(one), placeholder_of(one)) == ("default/d", "d")
    meta = ObjectMeta(name="d", namespace="default", annotations={RESERVATION: "true"})
    store.set_deployment(Deployment(metadata=meta))
    kit.cache.add_pod(one)
    kit.cache.delete_pod(one)
    assert kit.has(placeholder_pod(one))
    kit.clean(6)
    store.set_deployment(Deployment(metadata=replace(meta, annotations={})))
    kit.cache.add_pod(one)
    kit.cache.delete_pod(one)
    assert not kit.has(placeholder_pod(one))


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (pod("b", "n"), "placeholder"),
        (pod("b", "n", {RESERVATION_INDEX: "i"}), "placeholder podKey"),
        (pod("b", "", TAKES), "node name"),
    ],
)
def test_what_a_pod_must_say_to_get_a_placeholder(kit: Kit, asked: Pod, what: str) -> None:
    text = f"failed to get reservation identifier, empty {what}"
    refused(text, kit.cache.get_available_placeholder_pod, asked)


def test_placeholders_run_in_no_unit_of_their_pod(reserved: Kit) -> None:
    assert reserved.cache.get_unit_status("SinglePodUnit/default/a").running_pods == ()


def earlier() -> Pod:
    """The pod that had the name of the deleted one before."""
    return replace(gone(), metadata=replace(gone().metadata, uid="earlier"))


def test_the_late_end_of_an_earlier_reservation_leaves_the_placeholder_to_its_time(reserved: Kit) -> None:
    reserved.cache.delete_reservation(reservation(earlier()))
    assert is_reserved(reserved)
    reserved.assume(pod("other", "n"))
    reserved.cache.finish_binding(pod("other", "n"))
    reserved.clean(6)
    assert is_released(reserved)
    reserved.clean(11)
    assert reserved.cache.state.pods() == []


def test_an_earlier_reservation_matches_nothing_of_a_later_pod(reserved: Kit) -> None:
    reserved.cache.add_pod(pod("b", "n"))
    matched = reservation(earlier(), "Matched", owner="b")
    reserved.cache.update_reservation(reservation(earlier()), matched)
    assert is_reserved(reserved)


def test_one_placeholder_stands_for_pods_that_follow_one_another(reserved: Kit) -> None:
    reserved.cache.add_reservation(reservation(earlier()))
    assert reserved.used("n") == (100, 1)
    assert reserved.cache.get_available_placeholder_pod(back()).metadata.uid == "earlier-placeholder"
    reserved.cache.delete_reservation(reservation(earlier()))
    assert reserved.cache.state.pods() == []


def test_a_fork_has_reservations_of_its_own(reserved: Kit) -> None:
    fork = reserved.cache.fork()
    reserved.clean(6)
    assert is_released(reserved)
    assert fork.get_available_placeholder_pod(back()).name == "a-placeholder"
    fork.clean(6)
    assert fork.state.pods() == []


def test_without_the_gate_reservations_are_nothing() -> None:
    kit = Kit()
    kit.cache.add_reservation(reservation(gone()))
    kit.cache.update_reservation(reservation(gone()), reservation(gone()))
    kit.cache.delete_reservation(reservation(gone()))
    kit.cache.add_pod(gone())
    kit.cache.delete_pod(gone())
    assert kit.cache.state.pods() == []
