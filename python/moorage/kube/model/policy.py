"""PodDisruptionBudget (policy/v1)."""

from __future__ import annotations

from typing import Annotated

from moorage.errors import InputError

from .field_rules import int_or_percent, one_of
from .meta import Int32, LabelSelector, Object, Struct

ALWAYS_ALLOW = "AlwaysAllow"
_POLICIES = ("IfHealthyBudget", ALWAYS_ALLOW)


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """Spec of a disruption budget."""

    min_available: Annotated[Int32 | str | None, int_or_percent()] = None
    max_unavailable: Annotated[Int32 | str | None, int_or_percent()] = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: Annotated[str | None, one_of(*_POLICIES)] = None

    def check(self) -> None:
        if self.min_available is not None and self.max_unavailable is not None:
            raise InputError("minAvailable and maxUnavailable cannot be both set")


_Count = Annotated[Int32, int_or_percent()]


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
