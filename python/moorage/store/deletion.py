"""Deletion in two steps: an object with finalizers or a grace period is marked first and removed later.

apiserver v0.36: registry/rest/delete.go and update.go, registry/generic/registry/store.go.
"""

from __future__ import annotations

from msgspec.structs import replace

from moorage.kube import Object, ObjectMeta, Pod
from moorage.kube.workloads.ownership import FINISHED

from .clock import shifted, timestamp
from .errors import conflict, invalid
from .kinds import group_kind


def check_preconditions(obj: Object, uid: str, version: str) -> None:
    """Check the preconditions of a deletion.

    Parameters
    ----------
    obj : Object
        The stored object.
    uid, version : str
        The UID and the resource version that the request asks for; "" for any.

    Raises
    ------
    ConflictError
        The object has another UID or another resource version.
    """
    meta = obj.metadata
    why = ""
    if uid and uid != meta.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif version and version != meta.resource_version:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({meta.resource_version}). The object might have been modified"
        )
    if why:
        raise conflict(group_kind(type(obj)), meta.name, why)


def grace_period(obj: Object, asked: int | None) -> int:
    """Return the grace period of a deletion in seconds. Only pods that a kubelet may run have one.

    Parameters
    ----------
    asked : int or None
        That of the request.
    """
    if asked is None or not isinstance(obj, Pod):
        return 0
    if obj.metadata.deletion_timestamp is None and (not obj.spec.node_name or obj.status.phase in FINISHED):
        return 0
    return asked


def marked(meta: ObjectMeta, now: float, grace: int) -> ObjectMeta:
    """Return metadata with a deletion time.

    A running grace period can only be shortened, and one that has ended stays so.

    Parameters
    ----------
    meta : ObjectMeta
        Of the object to delete.
    now : float
        Seconds since 1970.
    grace : int
        Grace period in seconds; a negative one counts as 1.
    """
    grace = 1 if grace < 0 else grace
    time, current = meta.deletion_timestamp, meta.deletion_grace_period_seconds or 0
    if time is None:
        time = timestamp(int(now) + grace)
    elif grace < current:
        time = shifted(time, grace - current)
    else:
        grace = current
    return replace(meta, deletion_timestamp=time, deletion_grace_period_seconds=grace)


def is_awaited(meta: ObjectMeta) -> bool:
    """Whether finalizers or a grace period delay the removal of an object that is being deleted."""
    return bool(meta.finalizers or meta.deletion_grace_period_seconds)


def check_update(obj: Object, current: ObjectMeta) -> None:
    """Check that an update does not interfere with a deletion. It may omit the fields about the deletion.

    Parameters
    ----------
    obj : Object
        The new state.
    current : ObjectMeta
        The metadata of the stored object.

    Raises
    ------
    InvalidObjectError
        The update adds a finalizer to an object that is being deleted, or sets a deletion time or a grace
        period itself.
    """
    meta = obj.metadata
    grace, wrong = meta.deletion_grace_period_seconds, ""
    if current.deletion_timestamp is not None:
        new = ", ".join(f'"{name}"' for name in sorted({*meta.finalizers} - {*current.finalizers}))
        if new:
            wrong = (
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
                f"deleted, found new finalizers []string{{{new}}}"
            )
    elif meta.deletion_timestamp is not None:
        time = meta.deletion_timestamp
        wrong = f'metadata.deletionTimestamp: Invalid value: "{time}": field is immutable'
    if not wrong and grace not in (None, current.deletion_grace_period_seconds):
        wrong = f"metadata.deletionGracePeriodSeconds: Invalid value: {grace}: field is immutable"
    if wrong:
        raise invalid(type(obj), meta.name, wrong)


def is_finished(meta: ObjectMeta, current: ObjectMeta) -> bool:
    """Whether an update removes the last finalizer of an object that is being deleted.

    Parameters
    ----------
    meta, current : ObjectMeta
        After the update and before it.
    """
    return bool(current.deletion_timestamp and current.finalizers) and not is_awaited(meta)
