"""PodDisruptionBudget."""

from __future__ import annotations

from .meta import Int32, LabelSelector, Object, Struct


def percent(text: str) -> int:
    """The number of a percentage, with any number of leading zeros.

    Parameters
    ----------
    text : str
        Digits, and a percent sign.

    Returns
    -------
    int
        Not limited to 100.
    """
    return int(text.removesuffix("%").lstrip("0") or "0")


class PodDisruptionBudgetSpec(Struct, frozen=True):
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """`disrupted_pods`: pods on their way out that no longer count, by name, and since when."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    disrupted_pods: dict[str, str] = {}


NO_STATUS = PodDisruptionBudgetStatus()
"""This very object marks a status that was left out: all zero, which allows no disruption."""


class PodDisruptionBudget(Object, frozen=True):
    kind: str = "PodDisruptionBudget"
    api_version: str = "policy/v1"
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = NO_STATUS
