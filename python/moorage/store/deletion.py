"""Deletion in two steps: an object that something waits for is marked first, and goes when nothing does.

apiserver v0.36: registry/rest/delete.go and update.go, registry/generic/registry/store.go.
"""

from __future__ import annotations

from msgspec.structs import replace

from moorage.objects.model.meta import Object, ObjectMeta

from .clock import shifted, timestamp
from .errors import conflict, invalid
from .kinds import group_kind


def check_preconditions(obj: Object, uid: str, version: str) -> None:
    """Refuse to delete what is not the object, or not the state of it, that the request means.

    Raises
    ------
    ConflictError
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


def marked(meta: ObjectMeta, now: float, grace: int) -> ObjectMeta:
    """The metadata of an object that is being deleted, `grace` seconds from now (a negative grace is 1).

    Where a grace period is running, it can only become shorter; one that is over stays over.
    """
    grace = 1 if grace < 0 else grace
    time, held = meta.deletion_timestamp, meta.deletion_grace_period_seconds or 0
    if time is None:
        time = timestamp(int(now) + grace)
    elif grace < held:
        time = shifted(time, grace - held)
    else:
        grace = held
    return replace(meta, deletion_timestamp=time, deletion_grace_period_seconds=grace)


def is_awaited(meta: ObjectMeta) -> bool:
    """Whether finalizers or a grace period keep an object that is being deleted."""
    return bool(meta.finalizers or meta.deletion_grace_period_seconds)


def check_update(obj: Object, held: ObjectMeta) -> None:
    """Refuse an update that interferes with a deletion; leaving out what says that there is one does not.

    Raises
    ------
    InvalidObjectError
        It adds a finalizer to an object that is being deleted, or says itself that one is.
    """
    meta = obj.metadata
    grace, wrong = meta.deletion_grace_period_seconds, ""
    if held.deletion_timestamp is not None:
        new = ", ".join(f'"{name}"' for name in sorted({*meta.finalizers} - {*held.finalizers}))
        if new:
            wrong = (
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
                f"deleted, found new finalizers []string{{{new}}}"
            )
    elif meta.deletion_timestamp is not None:
        time = meta.deletion_timestamp
        wrong = f'metadata.deletionTimestamp: Invalid value: "{time}": field is immutable'
    if not wrong and grace not in (None, held.deletion_grace_period_seconds):
        wrong = f"metadata.deletionGracePeriodSeconds: Invalid value: {grace}: field is immutable"
    if wrong:
        raise invalid(type(obj), meta.name, wrong)


def is_finished(meta: ObjectMeta, held: ObjectMeta) -> bool:
    """Whether an update of `held` to `meta` takes away the last finalizer that a deletion waits for."""
    return bool(held.deletion_timestamp and held.finalizers) and not is_awaited(meta)
