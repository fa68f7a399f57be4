"""Patches of objects: the checks, the kinds of patches, the subresources, and the fields that stay."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import fields, replace

from moorage.errors import InputError
from moorage.kube import Object
from moorage.kube import apiserver as server
from moorage.kube.apiserver.decode import decode_as
from moorage.kube.apiserver.unknown_fields import struct_of
from moorage.kube.plain import plain

from .errors import BadRequestError, NotFoundError, invalid, stale
from .protocol import Patch, PatchType

Json: TypeAlias = Any
T = TypeVar("T", bound=Object)

MAX_OPERATIONS = 10_000
"""Maximum number of operations of a patch (maxJSONPatchOperations of the API server)."""
MAX_DEPTH = 200
"""Maximum depth of lists and maps in a patch."""
MAX_BYTES = 3 << 20
"""Maximum bytes of a patch as JSON (MaxRequestBodyBytes of the API server)."""
_UNCHANGED = ("apiVersion", "status")
"""The fields that a patch of the object itself does not change."""


@cache
def _parts(struct: type[Object]) -> dict[str, str]:
    """Return the attribute of each wire name of a struct."""
    return {info.encode_name: info.name for info in fields(struct)}


def apply_patch(current: T, patch: Patch, type_: PatchType, subresource: str) -> T:
    """Apply a patch to an object.

    Parameters
    ----------
    patch, type_, subresource
        As for `ObjectStore.patch`.

    Returns
    -------
    Object
        The new state, to be stored as an update.

    Raises
    ------
    NotFoundError
        The kind has no such subresource.
    ConflictError
        The patch has another resource version.
    InvalidObjectError
        The patch has another UID, does not fit the object, or the result does not fit its kind.
    BadRequestError
        The patch is malformed or too large, or changes the name or the namespace.
    """
    parts = _parts(type(current))
    if subresource and (subresource != "status" or "status" not in parts):
        raise NotFoundError("the server could not find the requested resource")
    if type_ not in ("merge", "strategic", "json"):
        raise BadRequestError(f"{type_}: unimplemented patch type")
    if not isinstance(patch, list if type_ == "json" else dict):
        form = "list of operations" if type_ == "json" else "map"
        raise BadRequestError(f"error decoding patch: a {type_} patch is a {form}")
    _check_json(patch)
    # A merge patch changes only the fields that it names, so the others are not read.
    names = [name for name in parts if isinstance(patch, list) or name in patch]
    value = {name: plain(getattr(current, parts[name])) for name in dict.fromkeys((*names, "metadata"))}
    try:
        patched = decode_as(
            _apply(value, patch, type_, struct_of(current.kind, current.api_version)), type(current)
        )
    except InputError as error:
        why = f"{error.path}: {error.message}" if error.path else error.message
        raise invalid(type(current), current.name, why) from None
    _check_identity(patched, current)
    if patched.metadata.resource_version not in ("", current.metadata.resource_version):
        raise stale(current)
    if (uid := patched.metadata.uid) not in ("", current.metadata.uid):
        why = f'metadata.uid: Invalid value: "{uid}": field is immutable'
        raise invalid(type(current), current.name, why)
    if subresource:
        return replace(current, status=patched.status)  # type: ignore[attr-defined]
    changed = {parts[name]: getattr(patched, parts[name]) for name in names if name not in _UNCHANGED}
    return replace(current, **{name: new for name, new in changed.items() if new != getattr(current, name)})


def _check_json(patch: Any) -> None:
    """Check that a patch is a JSON value within the limits of depth and size. Raises BadRequestError
    otherwise."""
    pending, nodes = [(patch, 1)], 0
    while pending:
        value, depth = pending.pop()
        if not isinstance(value, dict | list | tuple):
            continue
        nodes += len(value)
        if depth > MAX_DEPTH:
            raise BadRequestError(f"error decoding patch: nested more than {MAX_DEPTH} levels deep")
        if nodes > MAX_BYTES // 2:  # each item needs a byte and a comma
            break
        pending += [(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)]
    try:
        too_large = bool(pending) or len(server.merge_patch.json_text(patch)) > MAX_BYTES
    except (TypeError, ValueError) as error:  # a lone surrogate raises UnicodeEncodeError
        raise BadRequestError(f"error decoding patch: {error}") from None
    if too_large:
        raise BadRequestError(f"Request entity too large: limit is {MAX_BYTES}")


def json_patch(value: Json, patch: list[dict[str, Any]]) -> Json:
    """Apply operations one after the other, all or none.

    Raises
    ------
    InputError
        There are too many, or one is malformed, or does not fit the value.
    """
    if len(patch) > MAX_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise InputError(most)
    try:
        return server.json_patch.patched(value, patch)
    except server.json_patch.PatchError as error:
        raise InputError(str(error)) from None
    except (AttributeError, TypeError):
        raise InputError("not the operations of a JSON patch") from None


def _apply(value: dict[str, Any], patch: Any, type_: PatchType, struct: str) -> Any:
    """Apply a patch of a type to a JSON value."""
    if type_ == "json":
        return json_patch(value, patch)
    return (
        server.merge_patch.merge_patch(value, patch)
        if type_ == "merge"
        else server.merge_patch.strategic_merge(value, patch, struct)
    )


def _check_identity(patched: Object, current: Object) -> None:
    """Check that a patch changes neither kind nor namespace nor name. Raises InvalidObjectError or
    BadRequestError otherwise."""
    if patched.kind != current.kind:
        why = f"the kind of the object ({patched.kind}) does not match ({current.kind})"
        raise invalid(type(current), current.name, why)
    if patched.namespace != current.namespace:
        raise BadRequestError(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if patched.name != current.name:
        raise BadRequestError(
            f"the name of the object ({patched.name}) does not match the name on the URL ({current.name})"
        )
