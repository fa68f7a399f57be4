"""Feature gates and ties of earlier releases."""

from __future__ import annotations

import pytest
from tests.house.source import ROOT

from moorage.framework.configuration.feature_gates import DEFAULT_GATES, GATES, Effect
from moorage.framework.configuration.releases import RELEASES, not_built, release_gates


def differing(version: str) -> set[str]:
    gates = release_gates(version)
    return {name for name, value in gates.items() if value != DEFAULT_GATES[name]}


def test_the_newest_release_is_the_default() -> None:
    assert differing("1.36") == set()
    assert release_gates("1.36", {"GenericWorkload": True})["GenericWorkload"]
    with pytest.raises(ValueError, match="depends on features that are disabled"):
        release_gates("1.36", {"PodLevelResources": False})


def test_defaults_of_earlier_releases() -> None:
    assert "NodeDeclaredFeatures" in differing("1.35")
    assert "OpportunisticBatching" not in differing("1.35")
    off = {"NominatedNodeNameForExpectation", "OpportunisticBatching"}
    assert differing("1.34") - differing("1.35") == off
    assert [release.tie_break for release in RELEASES.values()] == ["random", "go-heap", "go-heap"]


@pytest.mark.parametrize("version", RELEASES)
def test_gates_exist_and_are_told_where_they_are_not_built(version: str) -> None:
    release = RELEASES[version]
    assert (release.gates.keys() | release.unknown) <= GATES.keys()
    assert not any(DEFAULT_GATES[name] for name in release.unknown - release.gates.keys())
    page = (ROOT / "docs/releases.md").read_text()
    for name in not_built(version):
        assert GATES[name].effect is Effect.NOT_BUILT
        assert name in page


@pytest.mark.parametrize(
    ("version", "gate"),
    [("1.34", "OpportunisticBatching"), ("1.35", "WorkloadAwarePreemption"), ("1.34", "AllAlpha")],
)
def test_a_gate_that_a_release_does_not_have(version: str, gate: str) -> None:
    with pytest.raises(ValueError, match=f"^unrecognized feature gate in v{version}: {gate}$"):
        release_gates(version, {gate: False})


def test_changes_on_top_of_a_release() -> None:
    """Gates that the release does not have lack nothing."""
    assert not release_gates("1.35", {"PodLevelResources": False})["PodLevelResources"]
    assert release_gates("1.35", {"NodeDeclaredFeatures": True})["NodeDeclaredFeatures"]
    with pytest.raises(ValueError, match="unrecognized feature gate: Nonsense"):
        release_gates("1.35", {"Nonsense": True})
