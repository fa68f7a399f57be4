"""Feature gates: each is built, has no effect, or is refused unless at its default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.house import gates_page
from tests.house.source import ROOT

from moorage.framework.configuration import DEFAULT_GATES, dependents_off, feature_gates
from moorage.framework.configuration.feature_gates import GATES, Effect, Gate, Stage

BUILT = sorted(name for name, gate in GATES.items() if gate.effect is Effect.BUILT and not gate.is_locked)


def texts(folder: str) -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path.name != "test_feature_gates.py":
            yield path, path.read_text()


def matches(pattern: str, folder: str) -> list[str]:
    return [path.name for path, text in texts(folder) if re.search(pattern, text)]


@pytest.mark.parametrize("name", BUILT)
def test_a_gate_that_is_built_is_asked(name: str) -> None:
    assert matches(rf'gates(?:\.get\(|\[)"{name}"|feature_gate = "{name}"', "python"), "no code asks it"


@pytest.mark.parametrize("name", BUILT)
def test_a_gate_that_is_built_has_a_test(name: str) -> None:
    """That sets it to what is not its default."""
    assert matches(rf'{name}"?(?:: |=){not GATES[name].default}', "tests")


def other(gate: Gate) -> dict[str, bool]:
    """The gate set, with those that it needs; those that need it are off."""
    if gate.default:
        return {gate.name: False} | dependents_off({gate.name: False})
    needed = [other(GATES[name]) for name in gate.needs if not DEFAULT_GATES[name]]
    return {name: True for one in needed for name in one} | {gate.name: True}


@pytest.mark.parametrize("gate", GATES.values(), ids=lambda gate: gate.name)
def test_what_may_be_set(gate: Gate) -> None:
    assert feature_gates({gate.name: gate.default}) == DEFAULT_GATES
    assert gate.is_locked or gate.effect is not Effect.NOT_BUILT
    if not gate.is_locked:
        assert feature_gates(other(gate)) == DEFAULT_GATES | other(gate)
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
        ({"GangScheduling": True}, ["GangScheduling [GenericWorkload]"]),
        (
            {"GenericWorkload": True, "WorkloadAwarePreemption": True},
            ["WorkloadAwarePreemption [GangScheduling]"],
        ),
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


def test_gates_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"^unrecognized feature gate: CompositePodGroup$"):  # of v1.37
        feature_gates({"CompositePodGroup": False})
    with pytest.raises(ValueError, match=r"^invalid value of AtomicFIFO=1, err: not a boolean$"):
        feature_gates({"AtomicFIFO": 1})  # type: ignore[dict-item]


def test_all_gates_of_a_stage() -> None:
    """Those that are set themselves stay as they are set."""
    gates = feature_gates({"AllAlpha": True, "HPAScaleToZero": False})
    alpha = {name for name, gate in GATES.items() if gate.stage is Stage.ALPHA}
    assert {name for name in gates if gates[name] != DEFAULT_GATES[name]} == alpha - {"HPAScaleToZero"}
    assert feature_gates({"AllAlpha": False}) == DEFAULT_GATES
    gates = feature_gates({"AllBeta": True})
    assert {
        gate.name for gate in GATES.values() if gate.stage is Stage.BETA and not gates[gate.name]
    } == set()


def test_the_page_says_what_the_table_does() -> None:
    """``python -m tests.house.gates_page > docs/gates.md``"""
    assert (ROOT / "docs/gates.md").read_text() == gates_page.page()
