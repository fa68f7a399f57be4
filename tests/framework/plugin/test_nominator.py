"""PodNominator: nominations by UID, in order per node."""

from __future__ import annotations

from tests.make import pod

from moorage.engine.framework import NominatingInfo, PodNominator


def names(nominator: PodNominator, node: str) -> list[str]:
    return [one.name for one in nominator.nominated_pods_for_node(node)]


def test_pods_are_listed_in_the_order_of_their_nomination() -> None:
    nominator = PodNominator()
    for name in "cab":
        nominator.add_nominated_pod(pod(name), NominatingInfo("n"))
    assert names(nominator, "n") == ["c", "a", "b"]
    assert names(nominator, "other") == []
    nominator.nominated_pods_for_node("n").clear()  # a copy
    assert names(nominator, "n") == ["c", "a", "b"]


def test_another_nomination_takes_the_place_of_the_first() -> None:
    nominator = PodNominator()
    nominator.add_nominated_pod(pod("p"), NominatingInfo("n"))
    nominator.add_nominated_pod(pod("p"), NominatingInfo("m"))
    assert (names(nominator, "n"), names(nominator, "m")) == ([], ["p"])


def test_without_a_node_the_own_status_decides() -> None:
    nominator = PodNominator()
    nominator.add_nominated_pod(pod("p", nominated="n"))
    nominator.add_nominated_pod(pod("q", nominated="n"), NominatingInfo("m", noop=True))
    assert names(nominator, "n") == ["p", "q"]
    nominator.add_nominated_pod(pod("p"))  # neither says a node: the nomination is gone
    assert names(nominator, "n") == ["q"]


def test_an_override_without_a_node() -> None:
    nominator = PodNominator()
    nominator.add_nominated_pod(pod("p", nominated="n"))
    nominator.add_nominated_pod(pod("p", nominated="n"), NominatingInfo(""))
    assert names(nominator, "n") == []
    assert not nominator
    assert nominator.nominated_node(pod("p", nominated="n")) == ""
    nominator.update_nominated_pod(pod("p"), pod("p"))
    assert nominator.nominated_node(pod("p", nominated="n")) == ""


def test_pods_that_are_gone_or_bound_are_not_nominated() -> None:
    nominator = PodNominator(lambda one: one.name != "gone")
    nominator.add_nominated_pod(pod("gone", nominated="n"))
    assert names(nominator, "n") == []


def test_the_end_of_a_nomination() -> None:
    nominator = PodNominator()
    nominator.add_nominated_pod(pod("p", nominated="n"))
    assert nominator.nominated_node(pod("p")) == "n"
    nominator.delete_nominated_pod_if_exists(pod("p"))
    nominator.delete_nominated_pod_if_exists(pod("p"))
    assert names(nominator, "n") == []
    assert nominator.nominated_node(pod("p")) is None


def test_an_update_keeps_a_nomination_that_only_memory_knows() -> None:
    nominator = PodNominator()
    nominator.add_nominated_pod(pod("p"), NominatingInfo("n"))
    nominator.add_nominated_pod(pod("q"), NominatingInfo("n"))
    nominator.update_nominated_pod(pod("p"), pod("p", priority=5))
    assert names(nominator, "n") == ["q", "p"]
    assert nominator.nominated_pods_for_node("n")[1].spec.priority == 5


def test_an_update_whose_status_says_something_decides() -> None:
    nominator = PodNominator()
    nominator.add_nominated_pod(pod("p", nominated="n"))
    nominator.update_nominated_pod(pod("p", nominated="n"), pod("p", nominated="m"))
    assert names(nominator, "m") == ["p"]
    nominator.update_nominated_pod(pod("p", nominated="m"), pod("p"))
    assert names(nominator, "m") == []
