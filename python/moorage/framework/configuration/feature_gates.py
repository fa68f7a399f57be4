"""Feature gates, on top of the defaults of v1.36."""

from __future__ import annotations

from collections.abc import Mapping

from moorage._core.base.resources import PodGates

from .gate_table import GATES, Effect, Stage

DEFAULT_GATES: Mapping[str, bool] = {name: gate.default for name, gate in GATES.items()}
"""Gate name to its default in v1.36."""

ALL = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
"""What sets all gates of a stage that are not set themselves."""


def feature_gates(changes: Mapping[str, bool] | None = None) -> dict[str, bool]:
    """All feature gates.

    Parameters
    ----------
    changes : mapping of str to bool, optional
        Gates that differ from the defaults of v1.36; ``AllAlpha`` and ``AllBeta`` are possible.

    Returns
    -------
    dict of str to bool

    Raises
    ------
    ValueError
        For a gate that is unknown or locked, or a value that is no boolean, with upstream's text; for a value
        that is not built.
    """
    gates = dict(DEFAULT_GATES)
    if not changes:
        return gates
    for name, value in changes.items():
        if name not in gates and name not in ALL:
            raise ValueError(f"unrecognized feature gate: {name}")
        if not isinstance(value, bool):
            raise ValueError(f"invalid value of {name}={value}, err: not a boolean")
    for every, stage in ALL.items():
        if every in changes:
            gates |= {name: changes[every] for name, gate in GATES.items() if gate.stage is stage}
    gates |= {name: value for name, value in changes.items() if name in GATES}
    for name, value in gates.items():
        if value != DEFAULT_GATES[name]:
            _check(name, value)
    return gates


def _check(name: str, value: bool) -> None:
    gate = GATES[name]
    default, text = str(gate.default).lower(), str(value).lower()
    if gate.is_locked:
        raise ValueError(f"cannot set feature gate {name} to {text}, feature is locked to {default}")
    if gate.effect is Effect.NOT_BUILT:
        raise ValueError(f"feature gate {name}={text} is not built, only its default {default} is")


def groups_pods(gates: Mapping[str, bool]) -> bool:
    """Whether a gate for pod groups is on; else groups are ignored."""
    return gates["GenericWorkload"] or gates["GangScheduling"]


def pod_gates(gates: Mapping[str, bool]) -> PodGates:
    """The gates that requests and tolerations of pods depend on, as the core takes them."""
    return PodGates(
        pod_level_resources=gates["PodLevelResources"],
        pod_level_resizing=gates["InPlacePodLevelResourcesVerticalScaling"],
        comparison_operators=gates["TaintTolerationComparisonOperators"],
    )
