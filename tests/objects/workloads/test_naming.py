"""Made-up names, UIDs and hashes: the exact values must not change between versions or runs."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.objects.make import CONTAINERS, pod, workload

from moorage import expanded
from moorage.kube import Object, build_cluster, defaults


def uid(obj: Object) -> str:
    (filled,) = defaults([obj])
    return filled.metadata.uid


def named(*namespaces: str, listed: str = "") -> list[str]:
    """The names of pods that have to get one, in these namespaces."""
    there = [pod(listed, metadata={"namespace": "a"})] if listed else []
    asking = [pod("", metadata={"generateName": "web-", "namespace": each}) for each in namespaces]
    return [obj.name for obj in defaults([*there, *asking])][len(there) :]


def set_of(**template: Any) -> str:
    """The name of the ReplicaSet of a Deployment."""
    labels = template.get("labels", {"app": "w"})
    inside = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
    return expanded(build_cluster([workload("Deployment", "w", {"template": inside})])).others[1].name


def test_uid_is_a_uuid_and_pinned() -> None:
    assert str(uuid.UUID(uid(pod("p")))) == uid(pod("p")) == "7cba6637-a841-2f6d-5118-86a5bfb583e4"


PARTS = st.tuples(st.text("abc-.", min_size=1, max_size=3), st.text("abc-.", min_size=1, max_size=3))


@given(PARTS, PARTS)
def test_uids_differ(first: tuple[str, str], second: tuple[str, str]) -> None:
    one, other = (uid(pod(name, metadata={"namespace": space})) for space, name in (first, second))
    assert (one == other) == (first == second)


def test_names_are_pinned_and_distinct() -> None:
    made = named(*["default"] * 20_000)
    assert made[:3] == ["web-5s4sd", "web-t5s6x", "web-lflhl"]
    assert len(set(made)) == len(made)


def test_namespaces_do_not_matter_to_one_another() -> None:
    first, other = named("a", "b")
    assert (named("a"), named("b")) == ([first], [other])


def test_taken_names_are_passed_over() -> None:
    (first,) = named("a")
    assert named("a", listed=first) == [named("a", "a")[1]] != [first]


def test_template_hash_is_pinned_and_knows_no_order_of_labels() -> None:
    assert set_of() == "w-9tkhgc6f7r"
    assert set_of(labels={"a": "1", "b": "2"}) == set_of(labels={"b": "2", "a": "1"})
