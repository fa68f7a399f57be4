"""DefaultBinder: binds a pod in the store."""

from __future__ import annotations

from moorage import framework as fwk
from moorage.errors import MoorageError
from moorage.objects import Pod


class DefaultBinder(fwk.BindPlugin):
    """kube-scheduler v1.36, defaultbinder/. Where a profile has nothing else to do between choosing a node
    and binding, the scheduler binds many pods at once."""

    name = "DefaultBinder"
    in_core = True

    def bind(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        try:
            self.required_handle().client.bind(pod, node_name)
        except MoorageError as error:
            return fwk.as_status(error)
        return None
