"""Validation as a pass of its own, and what objects made by hand are checked for."""

from __future__ import annotations

import pytest
from tests.make import make
from tests.objects.make import node, pod, workload

from moorage.errors import InputError, shorten
from moorage.kube import Cluster, Container, ObjectMeta, Pod, PodSpec, build_cluster, defaults, validate


def test_valid_objects_before_and_after_defaults() -> None:
    objects = [
        pod("p", {"tolerations": [{"operator": "Exists"}]}),
        node("n"),
        make("Service", "s"),
        make("Namespace", "dev"),
        *(workload(kind, "w") for kind in ("Deployment", "DaemonSet", "Job", "ReplicationController")),
    ]
    for obj in [*objects, *defaults(objects)]:
        validate(obj)


def test_error_names_object_and_field() -> None:
    with pytest.raises(InputError) as caught:
        validate(Pod(metadata=ObjectMeta(name="p", namespace="dev")))
    error = caught.value
    assert (error.source, error.obj, error.path) == ("", "Pod dev/p", "spec.containers")


def test_objects_made_by_hand() -> None:
    good = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(Container(name="c"),)))
    assert [item.key for item in build_cluster([good]).pods] == ["default/p"]
    assert len(build_cluster([good, good]).pods) == 1
    other = Pod(metadata=good.metadata, spec=PodSpec(containers=good.spec.containers, priority=1))
    with pytest.raises(InputError, match=r"^Pod p: listed twice, and different$"):
        build_cluster([good, other])


def test_no_objects_are_an_empty_cluster() -> None:
    assert build_cluster([]) == Cluster()


@pytest.mark.parametrize("length", [0, 1, 239, 240, 241, 10**6])
def test_a_long_text_keeps_its_ends(length: int) -> None:
    text = "".join(chr(97 + i % 26) for i in range(length))
    short = shorten(text)
    assert len(short) <= 240
    assert (short == text) == (length <= 240)
    assert short[:100] == text[:100]
    assert short[-50:] == text[-50:]
