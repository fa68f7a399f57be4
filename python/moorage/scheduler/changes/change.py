"""What a change of a cluster has written."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct, structs

from moorage.objects import Object
from moorage.objects.workloads.ownership import has_made_up_uid
from moorage.store import ObjectClient
from moorage.tables import Table, Tabular

T = TypeVar("T", bound=Object)


class Change(Struct, Tabular, frozen=True):
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

    __repr__ = Tabular.__repr__

    def headline(self) -> str:
        """Return the number of objects by what has become of them, in one line."""
        counts = {field: len(getattr(self, field)) for field in self.__struct_fields__}
        return ", ".join(f"{field}: {n}" for field, n in counts.items() if n) or "no change"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each object.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns field (of this object), name, and reason (of what is kept).
        """
        rows: list[tuple[str, str, str | None]] = []
        for field in ("created", "changed", "deleted"):
            rows += [(field, name, None) for name in getattr(self, field)[:limit]]
        rows += [("kept", name, why) for name, why in self.kept.items()]
        names = ("field", "name", "reason")
        return Table({name: [row[at] for row in rows[:limit]] for at, name in enumerate(names)})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON value, without empty ones."""
        return {field: value for field, value in structs.asdict(self).items() if value}

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


def create(client: ObjectClient, obj: T) -> T:
    """Create an object with defaults, and return it as it is stored.

    A UID that was made up for it is left to the store: a former object of its name may have had that one.

    Parameters
    ----------
    client : ObjectClient
    obj : Object
    """
    if has_made_up_uid(obj):
        obj = structs.replace(obj, metadata=structs.replace(obj.metadata, uid=""))
    return client.create(obj)
