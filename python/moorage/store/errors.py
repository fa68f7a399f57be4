"""The errors of an API server, with the texts of apimachinery v0.36 (api/errors), and what it calls kinds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from moorage.errors import MoorageError
from moorage.kube import Object, apiserver
from moorage.kube.apiserver.decode import CLUSTER_SCOPED
from moorage.kube.model.meta import group_suffix, resource

# ---- kinds -------------------------------------------------------------------------------------------------
#
# Kinds: their structs, resource names and scopes.


def _structs(base: type[Object]) -> Iterator[type[Object]]:
    """Yield all structs derived from `base`."""
    for struct in base.__subclasses__():
        yield struct
        yield from _structs(struct)


def structs() -> Iterator[type[Object]]:
    """Yield the structs of all kinds."""
    return _structs(Object)


def struct_named(kind: str) -> type[Any]:
    """Return the struct of a kind.

    Parameters
    ----------
    kind : str
        Such as "Pod".

    Raises
    ------
    ValueError
        No struct has that name.
    """
    for struct in structs():
        if struct.__name__ == kind:
            return struct
    raise ValueError(f'no matches for kind "{kind}"')


@cache
def is_namespaced(struct: type[Object]) -> bool:
    """Whether the objects of a kind have namespaces."""
    return struct.__name__ not in CLUSTER_SCOPED


@cache
def singular(struct: type[Object]) -> str:
    """Return the singular of a resource with its group, as listers name it: ``pod``, ``replicaset.apps``."""
    return struct.__name__.lower() + group_suffix(struct)


@cache
def group_kind(struct: type[Object]) -> str:
    """Return the kind with its group, as in errors about the fields of an object: ``ReplicaSet.apps``."""
    return struct.__name__ + group_suffix(struct)


# ---- errors ------------------------------------------------------------------------------------------------


class ApiError(MoorageError):
    """A request was refused; nothing has changed."""


class NotFoundError(ApiError):
    """404: the object does not exist."""


class AlreadyExistsError(ApiError):
    """409: an object of that name exists."""


class ConflictError(ApiError):
    """409: the object is not in the state that the request assumes; read it again."""


class InvalidObjectError(ApiError):
    """422: the object itself cannot be stored."""


class BadRequestError(ApiError):
    """400: the request makes no sense for this kind."""


class TooManyRequestsError(ApiError):
    """429: the request may be granted later."""


class ResourceExpiredError(ApiError):
    """410: the history does not have the events after that resource version; the client has to list again."""


class UnauthorizedError(ApiError):
    """401: the server does not know the user."""


class ForbiddenError(ApiError):
    """403: the user may not do this."""


class ServerError(ApiError):
    """5xx: the server has failed; the request may have taken effect."""


class UnreachableError(ApiError):
    """The server did not answer; the request may have taken effect."""


class NotSentError(UnreachableError):
    """The request did not reach the server, so it has no effect."""


def not_found(struct: type[Object], name: str) -> NotFoundError:
    """Return the error of an object that does not exist."""
    return NotFoundError(f'{resource(struct)} "{name}" not found')


def already_exists(current: Object) -> AlreadyExistsError:
    """Return the error of creating an object under the name of an existing one, `current`."""
    text = f'{resource(type(current))} "{current.name}" already exists'
    is_deleted = current.metadata.deletion_timestamp is not None
    return AlreadyExistsError(f"object is being deleted: {text}" if is_deleted else text)


def conflict(what: str, name: str, why: str) -> ConflictError:
    """Return the error of a write to an object that is in another state.

    Parameters
    ----------
    what : str
        The resource or the kind.
    """
    return ConflictError(apiserver.conflicts.conflict_text(what, name, why))


def stale(obj: Object) -> ConflictError:
    """Return the error of an update with a resource version that is not the latest."""
    return ConflictError(apiserver.conflicts.stale_text(obj))


def check_current(obj: Object, current: Object) -> None:
    """Check that an update is of the stored object, and of its latest state.

    Raises
    ------
    ConflictError
        The update names another UID or resource version.
    """
    meta, stored = obj.metadata, current.metadata
    if meta.uid and meta.uid != stored.uid:
        raise other_uid(obj, stored.uid)
    if meta.resource_version and meta.resource_version != stored.resource_version:
        raise stale(obj)


def other_uid(obj: Object, uid: str) -> ConflictError:
    """Return the error of a write to `obj` where the stored object has the UID `uid`."""
    return ConflictError(apiserver.conflicts.other_uid_text(obj, uid))


def invalid(struct: type[Object], name: str, why: str) -> InvalidObjectError:
    """Return the error of an object that cannot be stored; `why` names the field.

    Parameters
    ----------
    why : str
        The reason, with the field.
    """
    return InvalidObjectError(f'{group_kind(struct)} "{name}" is invalid: {why}')
