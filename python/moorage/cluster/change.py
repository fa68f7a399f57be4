"""What a change of a cluster has written."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from moorage.controllers.api_server import admitted
from moorage.engine.scheduler import ScheduleResult
from moorage.errors import InputError
from moorage.kube import Namespace, Object
from moorage.kube.admission.request import ADMIN, AdmissionRequest, UserInfo, deletion
from moorage.kube.workloads.ownership import has_made_up_uid, stable_uid
from moorage.store import NotFoundError, ObjectClient, kind_named
from moorage.table import Table, TabularDocument


class Change(TabularDocument, frozen=True, omit_defaults=True, rename=None):
    """The objects that a change has written, each as ``Kind namespace/name``, in the order of the writes.

    What controllers do afterwards is not listed: `Questions.diff` with a fork from before shows everything.

    """

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    kept: dict[str, str] = {}
    """What a change has left as it is, such as pods on a drained node, each with the reason."""
    preempted: dict[str, str] = {}
    """Those of the deleted pods that were evicted for others, each with ``namespace/name`` of the other."""
    notes: tuple[str, ...] = ()
    """Sentences: what moorage does not know of the objects that it made, and what a server warns of in
    manifests."""

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
            Columns field (of this object), name, and reason (of what is kept), or who preempted it.
        """
        rows: list[tuple[str, str, str | None]] = []
        for field in ("created", "changed", "deleted"):
            rows += [(field, name, None) for name in getattr(self, field)[:limit]]
        rows += [("kept", name, why) for name, why in self.kept.items()]
        rows += [("preempted", name, by) for name, by in self.preempted.items()]
        rows += [("notes", note, None) for note in self.notes]
        names = ("field", "name", "reason")
        return Table({name: [row[at] for row in rows[:limit]] for at, name in enumerate(names)})

    @property
    def unfinished(self) -> dict[str, str]:
        """Pods that prevent a drain from being complete: those that stay for another reason than that they
        belong to the node, as pods of DaemonSets and mirror pods do."""
        return {name: why for name, why in self.kept.items() if why not in (DAEMON, MIRROR)}


def preemptions(result: ScheduleResult) -> Change:
    """Return as a change the pods that a run has evicted for others."""
    preempted = {f"Pod {key}": eviction.by for key, eviction in result.evicted.items()}
    return Change(deleted=tuple(preempted), preempted=preempted)


DAEMON, MIRROR = "pod of a DaemonSet", "mirror pod"


def with_own_uids(client: ObjectClient, objects: Sequence[Object]) -> list[Object]:
    """Replace the UIDs of new objects that were made up, and those in references to them and to objects of
    the store: former objects of their names may have had the made-up ones.

    Parameters
    ----------
    objects : sequence of Object
        With defaults; some may exist.

    Returns
    -------
    list of Object
        In the same order.
    """
    version, uids = client.list(Namespace)[1], dict[str, str]()

    def stored(kind: str, namespace: str, name: str) -> str:
        try:
            return client.get(kind_named(kind), name, namespace).metadata.uid
        except (NotFoundError, InputError):  # of a kind that is not followed
            return ""

    for obj in filter(has_made_up_uid, objects):
        name = obj.kind, obj.namespace, obj.name
        uids[obj.metadata.uid] = stored(*name) or stable_uid(*name[:2], f"{obj.name}@{version}")
    out = []
    for obj in objects:
        meta = obj.metadata
        for owner in meta.owner_references:
            if owner.uid not in uids and owner.uid == stable_uid(owner.kind, meta.namespace, owner.name):
                uids[owner.uid] = stored(owner.kind, meta.namespace, owner.name) or owner.uid
        owners = [
            structs.replace(owner, uid=uids.get(owner.uid, owner.uid)) for owner in meta.owner_references
        ]
        meta = structs.replace(meta, uid=uids.get(meta.uid, meta.uid), owner_references=tuple(owners))
        out.append(structs.replace(obj, metadata=meta))
    return out


# ---- requests ----------------------------------------------------------------------------------------------


def updated(client: ObjectClient, old: Object, new: Object) -> Object:
    """Replace an object, if the API server admits it; return what is stored.

    Raises
    ------
    ApiError
        It does not.
    """
    return client.update(admitted(client, AdmissionRequest(new, "UPDATE", old)))


def delete_object(
    client: ObjectClient, obj: Object, grace: int | None = None, user: UserInfo = ADMIN
) -> None:
    """Delete an object, likewise."""
    admitted(client, deletion(obj, user))
    client.delete(type(obj), obj.name, obj.namespace, grace_period_seconds=grace)
