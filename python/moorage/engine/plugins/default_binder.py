"""DefaultBinder: binds a pod in the store."""

from __future__ import annotations

from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import Pod


class DefaultBinder(fwk.BindPlugin):
    """Bind: creates the binding through the client (kube-scheduler v1.36, defaultbinder/).

    The scheduler binds many pods with one call if no other plugin takes part after Filter and Score.
    """

    name = "DefaultBinder"
    in_core = True

    def bind(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        try:
            self.required_handle().client.bind(pod, node_name)
        except MoorageError as error:
            return fwk.as_status(error)
        return None
