"""What plugins of v1alpha1 in a profile can use: the framework handle of today's scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moorage.framework.plugin import handle as todays
from moorage.framework.plugin import waiting_pods as todays_pods
from moorage.framework.plugin.interface import PermitPlugin
from moorage.objects.model.pod import Pod

from .plugin_interface import FrameworkHandle, NodeInfoSnapshot, WaitingPod
from .v1alpha1_status import FrameworkError


@dataclass(frozen=True)
class PermitWait:
    """A pod that waits on Permit in today's framework, as a `WaitingPod`.

    Attributes
    ----------
    waiting : moorage.framework.plugin.waiting_pods.WaitingPod
    plugins : tuple of str
        The plugins of v1alpha1 of the profile: Allow speaks for these, and for all of them. Where plugins of
        today wait too, the pod waits on for them.
    clock : callable
        The scheduler's, by which the pod waits.
    """

    waiting: todays_pods.WaitingPod
    plugins: tuple[str, ...]
    clock: Callable[[], float]

    def GetPod(self) -> Pod:
        """The pod itself, as it was assumed."""
        return self.waiting.pod

    def Allow(self) -> bool:
        """Let the pod be scheduled, however many plugins asked to wait; True if the signal was delivered."""
        self.waiting.expire(self.clock())
        return self.waiting.allow(*self.plugins)

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable; True if the signal was delivered."""
        self.waiting.expire(self.clock())
        pending = self.waiting.get_pending_plugins()
        plugin = next((name for name in pending if name in self.plugins), "")
        return self.waiting.reject(plugin, f"rejected while waiting at permit: {msg}")


class ProfileHandle(FrameworkHandle):
    """The FrameworkHandle of plugins that are adapted to a profile.

    Attributes
    ----------
    today : moorage.framework.plugin.handle.FrameworkHandle or None
        None until the plugin is part of a scheduler.
    """

    def __init__(self, today: todays.FrameworkHandle | None = None) -> None:
        self.today = today
        self._snapshot: NodeInfoSnapshot | None = None

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        if self._snapshot is None:
            self._snapshot = NodeInfoSnapshot(self._todays().snapshot())
        return self._snapshot

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        self._todays().iterate_over_waiting_pods(lambda waiting: callback(self._waiting(waiting)))

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        waiting = self._todays().get_waiting_pod(uid)
        return None if waiting is None else self._waiting(waiting)

    def _waiting(self, waiting: todays_pods.WaitingPod) -> PermitWait:
        today = self._todays()
        permits = () if today.framework is None else today.framework.profile.at(PermitPlugin)
        names = tuple(plugin.name for plugin in permits if is_adapted(plugin))
        return PermitWait(waiting, names, today.cache.clock)

    def _todays(self) -> todays.FrameworkHandle:
        if self.today is None:
            raise FrameworkError("the plugin is not part of a scheduler")
        return self.today


def is_adapted(plugin: object) -> bool:
    """Whether a plugin of today's framework is one of v1alpha1."""
    return isinstance(getattr(plugin, "adapted_handle", None), ProfileHandle)
