"""The records of the releases, and their gates."""

from __future__ import annotations

import re

import pytest
from tests.doors.engine import IN_TREE_CLASSES
from tests.doors.kube import Effect
from tests.house import releases_page
from tests.house.source import ROOT

from moorage import Scheduler
from moorage.kube.releases import DEFAULT_GATES, RELEASES, Release, default_gates, feature_gates, gates_of

V134, V135, V136, V137, V138 = RELEASES.values()
GROUPS = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "DRAWorkloadResourceClaims",
)


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.version)
def test_a_record_names_what_exists(release: Release) -> None:
    assert RELEASES[release.version] is release
    assert release.patch.startswith(f"v{release.version}.")
    assert set(release.plugins) <= {plugin.__name__ for plugin in IN_TREE_CLASSES}
    known = {name for one in RELEASES.values() for name in gates_of(one)}
    assert release.refused_gates <= known


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.version)
def test_all_gates_of_a_release_have_what_they_need_by_default(release: Release) -> None:
    gates = gates_of(release)
    for gate in gates.values():
        assert all(name in gates and not gates[name].is_locked for name in gate.needs), gate.name
        assert not gate.default or all(gates[name].default for name in gate.needs), gate.name
    assert feature_gates({}, release) == default_gates(release)
    assert list(gates) == sorted(gates)


def test_defaults_of_releases() -> None:
    def of(name: str) -> list[bool]:
        return [default_gates(release)[name] for release in RELEASES.values()]

    assert of("NodeDeclaredFeatures") == [False, False, True, True, True]
    assert of("OpportunisticBatching") == [False, True, True, True, True]
    assert of("StorageCapacityScoring") == [False, False, False, True, True]
    assert of("DRAFractionalCapacityRange") == [False, False, False, False, True]
    assert [release.tie_break for release in RELEASES.values()] == ["random", *["go-heap"] * 4]
    assert default_gates(V136) == DEFAULT_GATES


@pytest.mark.parametrize(
    ("release", "gate", "others"),
    [
        (V134, "OpportunisticBatching", "Kubernetes 1.34 decides here, and 1.35, 1.36, 1.37, 1.38 have it"),
        (V134, "GenericWorkload", "Kubernetes 1.34 decides here, and 1.37, 1.38 have it"),
        (
            V135,
            "WorkloadAwarePreemption",
            "Kubernetes 1.35 decides here, and 1.37, 1.38 have it as GenericWorkload",
        ),
        (V137, "GangScheduling", "it is part of GenericWorkload"),
    ],
    ids=lambda one: getattr(one, "version", one),
)
def test_a_gate_that_a_release_does_not_have(release: Release, gate: str, others: str) -> None:
    """The error names the releases that have it."""
    with pytest.raises(ValueError, match=f"^{re.escape(f'unrecognized feature gate: {gate}; {others}')}$"):
        feature_gates({gate: False}, release)
    assert not default_gates(release)[gate]


@pytest.mark.parametrize(
    ("release", "gate"),
    [
        (V135, "GangScheduling"),
        (V135, "GenericWorkload"),
        (V136, "GenericWorkload"),
        (V136, "GangScheduling"),
        (V136, "WorkloadAwarePreemption"),
        (V137, "DRAListTypeAttributes"),
    ],
    ids=lambda one: getattr(one, "version", one),
)
def test_a_gate_that_is_not_built_for_a_release_is_refused_by_name(release: Release, gate: str) -> None:
    assert gates_of(release)[gate].effect is Effect.NOT_BUILT
    text = f"^feature gate {gate}=true cannot be set for Kubernetes {release.version}: moorage has only its"
    with pytest.raises(ValueError, match=text):
        feature_gates({gate: True}, release)
    assert not feature_gates({gate: False}, release)[gate]


def test_gates_of_groups_are_refused_with_the_release_that_has_them() -> None:
    text = r"GangScheduling=true .* default, false; Kubernetes 1\.37, 1\.38 have it as GenericWorkload$"
    with pytest.raises(ValueError, match=text):
        feature_gates({"GangScheduling": True, "GenericWorkload": True}, V136)
    gates = feature_gates(dict.fromkeys(GROUPS, True), V137)
    assert all(gates[name] for name in GROUPS)


def test_a_gate_is_locked_where_its_release_locks_it() -> None:
    off = {"DRAExtendedResource": False}
    assert not feature_gates(off, V136)["DRAExtendedResource"]
    with pytest.raises(ValueError, match="DRAExtendedResource to false, feature is locked to true"):
        feature_gates(off, V137)


def test_gates_of_a_release_are_taken_as_they_are() -> None:
    gates = feature_gates({"StorageCapacityScoring": False}, V137)
    assert feature_gates(gates) is gates
    assert Scheduler(feature_gates=gates).handle.release is V137
    assert Scheduler(kubernetes_version="1.35").handle.release is V135


def test_the_page_is_that_of_the_records() -> None:
    assert (ROOT / "docs/releases.md").read_text() == releases_page.page()
