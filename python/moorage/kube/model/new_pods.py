"""What documents say of new pods that differ from the template of their workload."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from moorage.document import Count, Document


class FieldChange(Document, frozen=True):
    """A field that differs."""

    field: str
    """Its path, for example ``spec.containers[istio-proxy]``."""
    before: Any
    """In a pod of the template after admission; null where it is missing."""
    after: Any
    """In the new pods."""

    @property
    def text(self) -> str:
        """The change in a few words."""
        name = self.field.removeprefix("spec.").replace("].resources.", "].")
        if isinstance(self.after, dict):
            requests = self.after.get("resources", {}).get("requests") or {}
            amounts = ", ".join(f"{key} {amount}" for key, amount in requests.items())
            return f"{name} ({amounts})" if amounts else name
        if isinstance(self.after, list):
            return name
        instead = "" if self.before in (None, "") else f" instead of {self.before}"
        return f"{name} {self.after}{instead}"


class NewPodsDocument(Document, frozen=True):
    """A workload whose new pods differ from its template."""

    namespace: str
    workload: str
    vertical_pod_autoscaler: str | UnsetType = UNSET
    """The name of the one that sets their requests."""
    like: str | UnsetType = UNSET
    """The pod that they are like: the newest of those that were running."""
    others: Count | UnsetType = UNSET
    """How many running pods differ from that one."""
    changes: list[FieldChange] | UnsetType = UNSET
