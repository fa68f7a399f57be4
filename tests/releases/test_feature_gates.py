"""Feature gates: each is built, has no effect, or is refused unless at its default."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import GATES, Effect, Stage, settable
from tests.house import gates_page
from tests.house.source import ROOT, is_test

from moorage.kube.releases import DEFAULT_GATES, RELEASES, dependents_off, feature_gates

BUILT = sorted(name for name, gate in GATES.items() if gate.effect is Effect.BUILT and not gate.is_locked)
FEATURES = "devices/test_features.py::"
SWITCHED_OFF = FEATURES + "test_each_gate_switches_its_rule_off"
CASE = "cases/engine/gates_and_configuration.md"
BEHAVIOUR = {
    "DRAConsumableCapacity": SWITCHED_OFF,
    "DRADeviceBindingConditions": SWITCHED_OFF,
    "DRADeviceTaintRules": FEATURES + "test_taint_rules_count_with_their_gate",
    "DRADeviceTaints": SWITCHED_OFF,
    "DRAExtendedResource": FEATURES + "test_extended_resources_of_devices_need_their_gate",
    "DRAListTypeAttributes": FEATURES + "test_attributes_that_are_lists",
    "DRANodeAllocatableResources": "devices/claims/test_node_resources.py::test_devices_take_cpu_of_the_node",
    "DRAPartitionableDevices": SWITCHED_OFF,
    "DRAPrioritizedList": SWITCHED_OFF,
    "DRAResourceClaimDeviceStatus": SWITCHED_OFF,
    "DRASchedulerFilterTimeout": FEATURES + "test_a_search_has_no_limit_without_the_gate",
    "InPlacePodLevelResourcesVerticalScaling": CASE,
    "MatchLabelKeysInPodTopologySpread": "scheduler/placing/test_spread_gate.py::"
    "test_without_the_gate_they_count",
    "MaxUnavailableStatefulSet": "controllers/workloads/test_stateful_sets.py::"
    "test_max_unavailable_counts_with_its_gate",
    "NodeDeclaredFeatures": CASE,
    "NominatedNodeNameForExpectation": "scheduler/placing/test_waiting.py::"
    "test_a_waiting_pod_is_not_nominated_without_the_gate",
    "OpportunisticBatching": "scheduler/cycle/test_opportunistic_batching.py::"
    "test_without_batching_pods_take_no_hint",
    "PodLevelResources": "benchmarks/scheduler_perf/test_workloads.py::test_a_gate_changes_what_counts",
    "SchedulerPopFromBackoffQ": "sim/replay/test_replay.py::test_a_failed_pod_backs_off_in_virtual_time",
    "StorageCapacityScoring": CASE,
    "TaintTolerationComparisonOperators": CASE,
    "VolumeLimitScaling": "scheduler/placing/test_volume_engine.py::"
    "test_pods_wait_for_a_node_with_their_driver",
}
"""By gate that is built and can be set, a test or case that fails where the gate stays at its default.

DRAResourceClaimDeviceStatus acts through DRADeviceBindingConditions, which needs it.
"""


def test_each_gate_that_is_built_has_a_test_of_what_it_changes() -> None:
    """All others that can be set have no effect, and docs/gates.md says why."""
    assert sorted(BEHAVIOUR) == BUILT
    tests = {gate: test for gate, test in BEHAVIOUR.items() if test != CASE}
    assert [test for test in tests.values() if not is_test(test)] == []
    case = (ROOT / "tests" / CASE).read_text()
    assert [gate for gate in BEHAVIOUR.keys() - tests if gate not in case] == []
    others = {gate.name for gate in GATES.values() if not gate.is_locked} - BEHAVIOUR.keys()
    assert {GATES[name].effect for name in others} == {Effect.NONE, Effect.NOT_BUILT, Effect.RULES}


REFUSED = {name for name, gate in GATES.items() if gate.effect is Effect.NOT_BUILT and not gate.is_locked}


def other(gate: Any) -> dict[str, bool]:
    """The gate set, with those that it needs; those that need it are off."""
    if gate.default:
        return {gate.name: False} | dependents_off({gate.name: False})
    needed = [other(GATES[name]) for name in gate.needs if not DEFAULT_GATES[name]]
    return {name: True for one in needed for name in one} | {gate.name: True}


@pytest.mark.parametrize("gate", GATES.values(), ids=lambda gate: gate.name)
def test_what_may_be_set(gate: Any) -> None:
    assert feature_gates({gate.name: gate.default}) == DEFAULT_GATES
    if REFUSED & other(gate).keys():
        with pytest.raises(ValueError, match="=true cannot be set for Kubernetes 1"):
            feature_gates(other(gate))
        return
    assert gate.is_locked or gate.effect is not Effect.NOT_BUILT
    if not gate.is_locked:
        assert feature_gates(other(gate)) == {**DEFAULT_GATES, **other(gate)}
        return
    with pytest.raises(ValueError, match=gate.name) as caught:
        feature_gates(other(gate))
    default, value = str(gate.default).lower(), str(not gate.default).lower()
    assert str(caught.value) == (
        f"cannot set feature gate {gate.name} to {value}, feature is locked to {default}"
    )


@pytest.mark.parametrize(
    ("gates", "texts"),
    [
        (
            {"NodeDeclaredFeatures": False, "PodLevelResources": False, "ContainerRestartRules": False},
            [
                "ExtendWebSocketsToKubelet [NodeDeclaredFeatures]",
                "InPlacePodLevelResourcesVerticalScaling [NodeDeclaredFeatures PodLevelResources]",
                "InPlacePodVerticalScalingInitContainers [NodeDeclaredFeatures]",
                "RestartAllContainersOnContainerExits [ContainerRestartRules NodeDeclaredFeatures]",
            ],
        ),
    ],
)
def test_a_gate_needs_others(gates: dict[str, bool], texts: list[str]) -> None:
    with pytest.raises(ValueError, match="depends on") as caught:
        feature_gates(gates)
    told = str(caught.value).replace("is enabled, but depends on features that are disabled: ", "")
    assert told == (texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def test_what_the_gates_need_is_off_by_choice_only() -> None:
    """All gates at their defaults have what they need, and no gate needs a locked one."""
    needed = [(gate, GATES[name]) for gate in GATES.values() for name in gate.needs]
    assert not any(other.is_locked or (gate.default and not other.default) for gate, other in needed)
    assert dependents_off({"GenericWorkload": False}) == {}
    off = {"WindowsGracefulNodeShutdown": False, "GracefulNodeShutdownBasedOnPodPriority": False}
    assert dependents_off({"GracefulNodeShutdown": False}) == off
    assert dependents_off({"GracefulNodeShutdown": False, "WindowsGracefulNodeShutdown": True}) == {
        "GracefulNodeShutdownBasedOnPodPriority": False
    }


def test_of_another_releases_changes_those_are_set_that_have_what_they_need() -> None:
    """In any order: a gate may come before the one that it needs."""
    needed = {"DRADeviceTaintRules": True, "DRADeviceTaints": True}
    assert settable(needed | {"CompositePodGroup": True}, RELEASES["1.35"]) == needed
    assert settable({"DRADeviceTaintRules": True}, RELEASES["1.35"]) == {}


@pytest.mark.parametrize("version", RELEASES)
def test_gates_that_help_does_not_list_are_known(version: str) -> None:
    """kube-scheduler accepts GA and deprecated gates; no decision depends on those that are not named."""
    release = RELEASES[version]
    assert feature_gates({"KMSv1": True, "RecursiveReadOnlyMounts": True}, release)["KMSv1"]
    text = "^cannot set feature gate RecursiveReadOnlyMounts to false, feature is locked to true$"
    with pytest.raises(ValueError, match=text):
        feature_gates({"RecursiveReadOnlyMounts": False}, release)


def test_pre_queueing_hints_decide_nothing() -> None:
    release = RELEASES["1.37"]
    assert feature_gates({"SchedulerPreQueueingHints": True}, release)["SchedulerPreQueueingHints"]


def test_gates_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"^unrecognized feature gate: AllGamma; nearest: AllBeta"):
        feature_gates({"AllGamma": False})
    with pytest.raises(ValueError, match="GenericWorkloads; nearest: GenericWorkload"):
        feature_gates({"GenericWorkloads": True})
    with pytest.raises(ValueError, match=r"^unrecognized feature gate: Nonsense$"):
        feature_gates({"Nonsense": True})
    with pytest.raises(ValueError, match=r"^invalid value of AtomicFIFO=1, err: not a boolean$"):
        feature_gates({"AtomicFIFO": 1})  # type: ignore[dict-item]


def test_all_gates_of_a_stage() -> None:
    """Those that are set themselves stay as they are set."""
    off = dict.fromkeys((*REFUSED, "WorkloadWithJob", "HPAScaleToZero"), False)
    gates = feature_gates({"AllAlpha": True} | off)
    alpha = {name for name, gate in GATES.items() if gate.stage is Stage.ALPHA}
    assert {name for name in gates if gates[name] != DEFAULT_GATES[name]} == alpha - off.keys()
    with pytest.raises(ValueError, match="cannot be set for Kubernetes 1"):
        feature_gates({"AllAlpha": True})
    assert feature_gates({"AllAlpha": False}) == DEFAULT_GATES
    gates = feature_gates({"AllBeta": True})
    assert {
        gate.name for gate in GATES.values() if gate.stage is Stage.BETA and not gates[gate.name]
    } == set()


def test_the_page_says_what_the_table_does() -> None:
    """``python -m tests.house.gates_page > docs/gates.md``"""
    assert (ROOT / "docs/gates.md").read_text() == gates_page.page()
