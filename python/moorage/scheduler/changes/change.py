"""What a change of a cluster has written."""

from __future__ import annotations

from msgspec import Struct

from moorage.objects import Object


class Change(Struct, frozen=True):
    """The objects that a change has written, each as ``Kind namespace/name``, in the order of the writes.

    What controllers do afterwards is not listed: `Scheduler.diff` with a fork from before shows everything.

    Attributes
    ----------
    created, changed, deleted : tuple of str
    kept : dict of str to str
        Pods that a drain has left where they are, each with the reason.
    """

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    kept: dict[str, str] = {}

    @property
    def unfinished(self) -> dict[str, str]:
        """Pods that prevent a drain from being complete: those that stay for another reason than that they
        belong to the node, as pods of DaemonSets and mirror pods do."""
        return {name: why for name, why in self.kept.items() if why not in (DAEMON, MIRROR)}


DAEMON, MIRROR = "pod of a DaemonSet", "mirror pod"


def full_name(obj: Object) -> str:
    """Return an object as ``Kind namespace/name``.

    Parameters
    ----------
    obj : Object
    """
    return f"{obj.kind} {obj.key}"
