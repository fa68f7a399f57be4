"""PodDisruptionBudget (policy/v1)."""

from __future__ import annotations

import re
from typing import Annotated

from moorage.errors import InputError

from .meta import Int32, LabelSelector, Object, Struct

_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def percent(text: str) -> int:
    """Parse a percentage, with any number of leading zeros.

    Parameters
    ----------
    text : str
        Digits and a percent sign.

    Returns
    -------
    int
        Percent; not limited to 100.
    """
    return int(text.removesuffix("%").lstrip("0") or "0")


def _check_int_or_percent(value: int | str | None) -> None:
    """Rule: the value is a number or percentage, with the API server's messages."""
    if isinstance(value, int) and value < 0:
        raise InputError(f"Invalid value: {value}: must be greater than or equal to 0")
    if isinstance(value, str):
        if re.fullmatch("[0-9]+%", value) is None:
            raise InputError(f'Invalid value: "{value}": {_PERCENT}')
        if len(value.lstrip("0")) > len("100%") or percent(value) > 100:
            raise InputError(f'Invalid value: "{value}": must not be greater than 100%')


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """Spec of a disruption budget."""

    min_available: Annotated[Int32 | str | None, _check_int_or_percent] = None
    max_unavailable: Annotated[Int32 | str | None, _check_int_or_percent] = None
    selector: LabelSelector | None = None

    def check(self) -> None:
        if self.min_available is not None and self.max_unavailable is not None:
            raise InputError("minAvailable and maxUnavailable cannot be both set")


_Count = Annotated[Int32, _check_int_or_percent]


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """Status of a disruption budget.

    `disrupted_pods` are pods that are being evicted and no longer count, by name, with the time of their
    eviction.
    """

    disruptions_allowed: _Count = 0
    current_healthy: _Count = 0
    desired_healthy: _Count = 0
    expected_pods: _Count = 0
    disrupted_pods: dict[str, str] = {}


NO_STATUS = PodDisruptionBudgetStatus()
"""Identifies (by ``is``) a status that was omitted: all zero, which allows no disruption."""


class PodDisruptionBudget(Object, frozen=True):
    """A pod disruption budget."""

    kind: str = "PodDisruptionBudget"
    api_version: str = "policy/v1"
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = NO_STATUS


KINDS = (PodDisruptionBudget,)
"""The kinds of this module that files are decoded to."""
