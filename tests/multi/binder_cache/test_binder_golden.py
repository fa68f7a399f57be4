"""What Gödel's binder cache was seen to do, step by step; pods request 100 millicores. Where that was a
defect, the test says what is right instead, and so does its name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.core.make import node
from tests.doors.compat import SchedulingStatus, StoreName
from tests.doors.kube import ASSUMED_NODE, GROUP_ANNOTATION
from tests.multi.binder_cache.binder_kit import Kit, cnr, pod, refused

from moorage.objects import ObjectMeta, Pod, PodGroup, PodGroupStatus

NO_UID = "cannot get cache key for pod with empty UID"


@pytest.fixture
def kit() -> Kit:
    return Kit()


def test_01_a_pod_is_assumed_once(kit: Kit) -> None:
    kit.assume(pod("a", "n"))
    refused("pod default/a was already in binder cache", kit.assume, pod("a", "n"))
    assert kit.used("n") == (100, 1)


def test_02_corrected_add_confirms_an_assumed_pod_and_charges_it_once(kit: Kit) -> None:
    kit.assume(pod("a", "n"))
    kit.cache.add_pod(pod("a", "n"))
    assert kit.used("n") == (100, 1)
    assert not kit.is_assumed(pod("a"))


def test_03_corrected_nothing_leaks_when_it_is_deleted_then(kit: Kit) -> None:
    kit.cache.add_node(node("n"))
    kit.assume(pod("a", "n"))
    kit.cache.add_pod(pod("a", "n"))
    kit.cache.delete_pod(pod("a", "n"))
    assert kit.used("n") == (0, 0)


def test_04_corrected_a_second_add_on_another_node_charges_neither(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    refused("pod default/a was already in added state", kit.cache.add_pod, pod("a", "m"))
    assert (kit.used("n"), kit.cache.get_node_info("m")) == ((100, 1), None)


def test_05_unbound_pods_are_not_added(kit: Kit) -> None:
    kit.cache.add_pod(pod("a"))
    kit.cache.add_pod(pod(""))
    assert not kit.has(pod("a"))


def test_06_an_unknown_bound_pod_cannot_be_deleted(kit: Kit) -> None:
    text = "pod default/a is not found in binder cache, so cannot be removed from it"
    refused(text, kit.cache.delete_pod, pod("a", "n"))
    kit.cache.add_node(node("n"))
    both = f"[no corresponding pod default/a in pods of node n, {text}]"
    refused(both, kit.cache.delete_pod, pod("a", "n"))
    kit.cache.delete_pod(pod("a"))


def test_07_deletion_goes_by_the_pod_that_is_cached(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    kit.cache.delete_pod(pod("a"))
    assert not kit.has(pod("a"))
    assert kit.cache.get_node_info("n") is None


def test_08_an_assumed_pod_can_be_deleted(kit: Kit) -> None:
    kit.assume(pod("a", "n"))
    kit.cache.delete_pod(pod("a", "n"))
    assert not kit.is_assumed(pod("a"))
    assert kit.cache.get_node_info("n") is None


def test_09_only_assumed_pods_are_forgotten(kit: Kit) -> None:
    kit.forget(pod("a", "n"))
    kit.cache.add_pod(pod("a", "n"))
    kit.forget(pod("a", "n"))
    assert kit.used("n") == (100, 1)


def test_10_finishing_the_binding_of_others_does_nothing(kit: Kit) -> None:
    kit.cache.finish_binding(pod("a", "n"))
    kit.cache.add_pod(pod("a", "n"))
    kit.cache.finish_binding(pod("a", "n"))
    kit.clean(10_000)
    assert kit.has(pod("a"))
    refused(NO_UID, kit.cache.finish_binding, pod(""))


def test_11_a_confirmed_pod_that_becomes_unbound_goes(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    kit.cache.update_pod(pod("a"), pod("a"))
    assert not kit.has(pod("a"))


def test_12_an_assumed_pod_stays_while_reports_are_unbound(kit: Kit) -> None:
    kit.assume(pod("a", "n"))
    kit.cache.update_pod(pod("a"), pod("a"))
    assert kit.is_assumed(pod("a"))


def test_13_a_report_from_another_node_moves_an_assumed_pod(kit: Kit) -> None:
    kit.assume(pod("a", "n"))
    kit.cache.update_pod(pod("a"), pod("a", "m"))
    assert kit.cache.get_node_info("n") is None
    assert kit.used("m") == (100, 1)
    assert not kit.is_assumed(pod("a"))


def test_14_a_pod_whose_node_is_an_annotation_is_charged_and_does_not_expire(kit: Kit) -> None:
    one = pod("a", annotations={ASSUMED_NODE: "n"})
    kit.assume(one)
    kit.cache.finish_binding(one)
    kit.clean(3600)
    assert (kit.used("n"), kit.is_assumed(one)) == ((100, 1), True)
    kit.forget(one)
    assert kit.cache.get_node_info("n") is None


def test_15_a_pod_without_a_node_is_assumed_and_charged_nowhere(kit: Kit) -> None:
    kit.assume(pod("a"))
    assert kit.is_assumed(pod("a"))
    assert kit.cache.dump().nodes == {}
    assert kit.cache.get_node_info("") is None


def test_16_an_unfinished_binding_expires_after_900_seconds(kit: Kit) -> None:
    kit.assume(pod("a", "n"))
    kit.clean(900)
    assert kit.is_assumed(pod("a"))
    kit.clean(901)
    assert kit.used("n") == (0, 0)


def test_17_a_finished_binding_expires_after_its_ttl_not_at_it() -> None:
    kit = Kit(pod_assumed_ttl=10)
    kit.assume(pod("a", "n"))
    kit.clock.now = 100
    kit.cache.finish_binding(pod("a", "n"))
    kit.clean(110)
    assert kit.is_assumed(pod("a"))
    kit.clean(110.000000001)
    assert not kit.has(pod("a"))


def test_18_only_confirmed_pods_are_marked(kit: Kit) -> None:
    text = "pod default/a is not found in binder cache, so cannot be marked to delete"
    refused(text, kit.cache.mark_pod_to_delete, pod("a", "n"), pod("p"))
    kit.assume(pod("a", "n"))
    refused(text, kit.cache.mark_pod_to_delete, pod("a", "n"), pod("p"))
    kit.cache.add_pod(pod("a", "n"))
    kit.cache.mark_pod_to_delete(pod("a", "n"), pod("p"))
    assert kit.cache.is_pod_marked_to_delete(pod("a"))


def test_19_a_marker_is_taken_back_by_who_set_it_last(kit: Kit) -> None:
    one = pod("a", "n")
    kit.cache.add_pod(one)
    kit.cache.mark_pod_to_delete(one, pod("p1"))
    text = "Pod Marker isn't set by this preemptor {}"
    refused(text.format("p2"), kit.cache.remove_delete_pod_marker, one, pod("p2"))
    kit.cache.mark_pod_to_delete(one, pod("p2"))
    refused(text.format("p1"), kit.cache.remove_delete_pod_marker_by_key, "a", "p1")
    assert kit.cache.is_pod_marked_to_delete(one)
    kit.cache.remove_delete_pod_marker_by_key("a", "p2")
    assert not kit.cache.is_pod_marked_to_delete(one)
    kit.cache.remove_delete_pod_marker_by_key("a", "anybody")


def test_20_a_marker_outlives_an_update_and_goes_with_its_pod(kit: Kit) -> None:
    one = pod("a", "n")
    kit.cache.add_pod(one)
    kit.cache.mark_pod_to_delete(one, pod("p"))
    kit.cache.update_pod(one, pod("a", "n", {"new": "yes"}))
    assert kit.cache.is_pod_marked_to_delete(one)
    kit.cache.delete_pod(one)
    assert not kit.cache.is_pod_marked_to_delete(one)


def test_21_a_marker_goes_with_a_pod_that_becomes_unbound(kit: Kit) -> None:
    one = pod("a", "n")
    kit.cache.add_pod(one)
    kit.cache.mark_pod_to_delete(one, pod("p"))
    kit.cache.update_pod(one, pod("a"))
    assert not kit.cache.is_pod_marked_to_delete(one)
    assert not kit.has(one)


def test_22_a_marker_ends_after_600_seconds(kit: Kit) -> None:
    one = pod("a", "n")
    kit.cache.add_pod(one)
    kit.cache.mark_pod_to_delete(one, pod("p"))
    kit.clean(600)
    assert kit.cache.is_pod_marked_to_delete(one)
    kit.clean(601)
    assert not kit.cache.is_pod_marked_to_delete(one)
    assert kit.has(one)


def test_23_corrected_the_status_of_a_unit_goes_with_its_group(kit: Kit) -> None:
    key = "PodGroupUnit/default/g"
    meta = ObjectMeta(name="g", namespace="default")
    group = PodGroup(metadata=meta, status=PodGroupStatus(phase="Pending"))
    assert kit.cache.get_unit_scheduling_status(key) == SchedulingStatus.UNKNOWN
    kit.cache.add_pod_group(group)
    assert kit.cache.get_unit_scheduling_status(key) == SchedulingStatus.PENDING
    kit.cache.set_unit_scheduling_status(key, SchedulingStatus.SCHEDULED)
    assert kit.cache.get_unit_scheduling_status(key) == SchedulingStatus.SCHEDULED
    kit.cache.delete_pod_group(group)
    assert kit.cache.get_unit_scheduling_status(key) == SchedulingStatus.UNKNOWN


def test_24_assumed_pods_of_a_gang_run(kit: Kit) -> None:
    key, one = "PodGroupUnit/default/g", pod("a", "n", {GROUP_ANNOTATION: "g"})
    kit.assume(one)
    assert kit.cache.get_unit_status(key).running_pods == ("a",)
    kit.forget(one)
    unseen = kit.cache.get_unit_status("PodGroupUnit/default/other")
    assert kit.cache.get_unit_status(key) == unseen
    assert (unseen.status, unseen.running_pods) == (SchedulingStatus.UNKNOWN, ())


def test_25_corrected_asking_for_a_placeholder_without_the_gate_is_an_error(kit: Kit) -> None:
    assert kit.cache.find_store("nope") is None
    assert kit.cache.find_store("ReservationStore") is None
    assert kit.cache.find_store(StoreName.POD) is kit.cache.pods
    text = "the feature gate ResourceReservation is off"
    refused(text, kit.cache.get_available_placeholder_pod, pod("a", "n"))


def test_26_unknown_nodes_cannot_be_deleted(kit: Kit) -> None:
    refused("node x is not found", kit.cache.delete_node, node("x"))
    refused("node x is not found", kit.cache.delete_cnr, cnr("x"))
    assert kit.cache.dump().nodes == {}


def test_27_a_pod_comes_before_its_node_and_leaves_after_it(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    assert not kit.info("n").is_live
    kit.cache.add_node(node("n", cpu="4"))
    assert (kit.info("n").is_live, kit.info("n").allocatable.milli_cpu) == (True, 4000)
    kit.cache.delete_node(node("n"))
    assert (kit.info("n").is_live, kit.info("n").allocatable.milli_cpu) == (False, 0)
    assert kit.used("n") == (100, 1)
    kit.cache.delete_pod(pod("a", "n"))
    assert kit.cache.get_node_info("n") is None


def test_28_corrected_what_a_cnr_says_outlives_the_last_pod(kit: Kit) -> None:
    kit.cache.add_cnr(cnr("n", cpu="2"))
    assert not kit.info("n").is_live
    kit.cache.add_node(node("n"))
    kit.cache.delete_node(node("n"))
    assert not kit.info("n").is_live
    kit.cache.add_pod(pod("a", "n"))
    kit.cache.delete_pod(pod("a", "n"))
    assert kit.info("n").best_effort_allocatable.milli_cpu == 2000
    kit.assume(pod("a", "n"))
    kit.forget(pod("a", "n"))
    assert kit.info("n").best_effort_allocatable.milli_cpu == 2000
    kit.cache.delete_cnr(cnr("n"))
    assert kit.cache.get_node_info("n") is None


def test_29_every_change_of_a_node_raises_its_generation(kit: Kit) -> None:
    one = pod("a", "n")
    steps = (
        lambda: kit.cache.add_node(node("n")),
        lambda: kit.assume(one),
        lambda: kit.cache.update_pod(pod("a"), one),
        lambda: kit.cache.delete_pod(one),
    )
    seen = [0]
    for step in steps:
        step()
        seen.append(kit.info("n").generation)
    assert seen == sorted(set(seen))


def called(name: str, uid: str, namespace: str = "default", on: str = "") -> Pod:
    one = pod(name, on)
    return replace(one, metadata=replace(one.metadata, uid=uid, namespace=namespace))


@pytest.mark.parametrize("assumed", [False, True])
@pytest.mark.parametrize("uid", ["a", "other", ""])
def test_a_pod_is_found_by_its_namespace_and_name(kit: Kit, uid: str, assumed: bool) -> None:
    kit.cache.add_pod(pod("b", "n"))
    (kit.assume if assumed else kit.cache.add_pod)(pod("a", "n"))
    kit.cache.add_pod(called("a", "c", "elsewhere", "n"))
    found = kit.cache.get_pod(called("a", uid))
    assert (found.metadata.uid, found.namespace, found.spec.node_name) == ("a", "default", "n")
    assert kit.cache.get_pod(called("a", uid, "elsewhere")).metadata.uid == "c"


@pytest.mark.parametrize("name", [("a", "elsewhere"), ("b", "default")])
def test_a_pod_of_another_name_or_namespace_is_not_found(kit: Kit, name: tuple[str, str]) -> None:
    kit.cache.add_pod(pod("a", "n"))
    one = called(name[0], "a", name[1])
    refused(f"pod {one.key} does not exist in binder cache", kit.cache.get_pod, one)
    kit.cache.delete_pod(pod("a", "n"))
    refused("pod default/a does not exist in binder cache", kit.cache.get_pod, pod("a"))


def test_of_pods_of_one_name_the_one_with_the_uid_is_found(kit: Kit) -> None:
    for uid in ("first", "second", "third"):
        kit.cache.add_pod(called("a", uid, on="n"))
    for uid in ("first", "second", "third"):
        assert kit.cache.get_pod(called("a", uid)).metadata.uid == uid
    assert kit.cache.get_pod(called("a", "unknown")).metadata.uid == "first"
