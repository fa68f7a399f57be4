"""Made-up names, UIDs and hashes."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st
from tests.doors.kube import Names, stable_uid, template_hash
from tests.objects.make import CONTAINERS, workload

from moorage.kube import PodTemplateSpec


def test_uid_is_a_uuid_and_pinned() -> None:
    """The exact values are part of the behaviour: they must not change between versions or runs."""
    assert str(uuid.UUID(stable_uid("Pod", "default", "p"))) == stable_uid("Pod", "default", "p")
    assert stable_uid("Pod", "default", "p") == "7cba6637-a841-2f6d-5118-86a5bfb583e4"


PARTS = st.tuples(*[st.text("abc-.", max_size=3)] * 3)


@given(PARTS, PARTS)
def test_uids_differ(first: tuple[str, str, str], second: tuple[str, str, str]) -> None:
    assert (stable_uid(*first) == stable_uid(*second)) == (first == second)


def test_names_are_pinned_and_distinct() -> None:
    names = Names()
    made = [names.generate("Pod", "default", "web-") for _ in range(20_000)]
    assert made[:3] == ["web-5s4sd", "web-t5s6x", "web-lflhl"]
    assert len(set(made)) == len(made)


def test_namespaces_and_kinds_do_not_matter_to_one_another() -> None:
    names = Names()
    first = names.generate("Pod", "a", "web-")
    others = [names.generate("Pod", "b", "web-"), names.generate("Job", "a", "web-")]
    alone = Names()
    assert [alone.generate("Pod", "b", "web-"), alone.generate("Job", "a", "web-")] == others
    assert Names().generate("Pod", "a", "web-") == first


def test_taken_names_are_passed_over() -> None:
    first = Names().generate("Pod", "a", "web-")
    names = Names()
    assert names.take("Pod", "a", first)
    assert not names.take("Pod", "a", first)
    assert names.generate("Pod", "a", "web-") != first


def test_template_hash_is_pinned() -> None:
    assert template_hash(PodTemplateSpec()) == "f5ddm7vq5b"


def test_template_hash_does_not_depend_on_the_order_of_labels() -> None:
    hashes = set()
    for labels in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}):
        template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
        owner = workload("Deployment", "w", {"template": template})
        hashes.add(template_hash(owner.spec.template))  # type: ignore[attr-defined]
    assert len(hashes) == 1
