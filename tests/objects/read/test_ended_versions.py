"""Versions of APIs that have ended: in a change they are refused, elsewhere they are read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import _table, check_kind, ended_version

import moorage as mo
from moorage.errors import InputError
from moorage.kube.releases import RELEASES

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def budget(version: str, **meta: Any) -> dict[str, Any]:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    return {
        "apiVersion": version,
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"} | meta,
        "spec": spec,
    }


def test_a_scheduler_refuses_it_with_an_error() -> None:
    one = mo.Scheduler(mo.load(NODE))
    with pytest.raises(InputError, match=r"PodDisruptionBudget b: no matches for kind .* write policy/v1$"):
        one.change.apply(budget("policy/v1beta1"))


def test_releases_end_versions_one_after_the_other() -> None:
    for kind, version, last in (
        ("VolumeAttributesClass", "storage.k8s.io/v1beta1", "1.36"),
        ("CompositePodGroup", "scheduling.k8s.io/v1alpha3", "1.37"),
    ):
        ended = ended_version(kind, version)
        assert ended is not None
        assert [release for release in RELEASES if ended.is_served(release)][-1] == last
        assert ended.depends_on_release
    assert ended_version("Deployment", "apps/v1") is None


def test_what_the_table_says_to_write_exists_and_has_not_ended() -> None:
    for kind, version in _table():
        check_kind(kind, version)  # it has existed
        ended = ended_version(kind, version)
        assert ended is not None
        if ended.instead:
            check_kind(kind, ended.instead)
            later = ended_version(kind, ended.instead)
            assert later is None or not any(map(ended.is_served, RELEASES))
