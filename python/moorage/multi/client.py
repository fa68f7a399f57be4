"""The client of a scheduler that binds through the binder: everything else goes to the store as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moorage.objects.model.pod import Pod
from moorage.store.errors import conflict

from .placement import Placement

if TYPE_CHECKING:
    from .binder import Binder


class BindingClient:
    """See `Binder.client_for`."""

    def __init__(self, binder: Binder, name: str) -> None:
        self._binder = binder
        self._name = name

    def bind(self, pod: Pod, node: str) -> None:
        """Have the binder bind a pod; ConflictError with its reason where it rejects that."""
        (outcome,) = self._binder.bind([Placement(pod, node, scheduler=self._name)])
        if outcome.status is not None:
            raise conflict("pods/binding", pod.name, outcome.reason)

    def __getattr__(self, request: str) -> Any:
        return getattr(self._binder.client, request)
