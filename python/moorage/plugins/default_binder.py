"""DefaultBinder: binds a pod in the store."""

from __future__ import annotations

from moorage.errors import MoorageError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.interface import BindPlugin, Status
from moorage.framework.plugin.status import as_status
from moorage.objects.model.pod import Pod


class DefaultBinder(BindPlugin):
    """kube-scheduler v1.36, defaultbinder/. Where a profile has nothing else to do between choosing a node
    and binding, the scheduler binds many pods at once."""

    name = "DefaultBinder"
    in_core = True

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self.handle is None:
            raise RuntimeError("DefaultBinder has no handle")
        try:
            self.handle.client.bind(pod, node_name)
        except MoorageError as error:
            return as_status(error)
        return None
