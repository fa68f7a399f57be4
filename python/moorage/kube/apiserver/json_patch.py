"""JSON Patch (RFC 6902), as kube-apiserver applies it (gopkg.in/evanphx/json-patch.v4)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from .merge_patch import json_text

Json = dict[str, Any]
MAX_COPIED = 3 << 20
"""Maximum bytes of JSON that the copies of a patch add (AccumulatedCopySizeLimit of the API server)."""


class PatchError(Exception):
    """A patch cannot be applied; the message is the server's."""


class PatchTestError(PatchError):
    """A ``test`` of a patch failed, so that nothing is changed."""


def patched(value: Any, operations: Sequence[Json]) -> Any:
    """Return a JSON value with operations applied in order; the value itself is not changed.

    Raises
    ------
    PatchTestError
        A test failed.
    PatchError
        An operation is malformed, its path does not exist, or the copies are too large.
    """
    holder, size = {"": deepcopy(value)}, 0
    for operation in operations:
        kind, path = operation.get("op"), operation.get("path", "")
        match kind:
            case "add":
                _add(holder, path, deepcopy(operation.get("value")), kind)
            case "remove":
                _remove(holder, path, kind)
            case "replace":
                _replace(holder, path, deepcopy(operation.get("value")))
            case "move":
                moved = _remove(holder, operation.get("from", ""), kind)
                _add(holder, path, moved, kind)
            case "copy":
                copied = _get(holder, operation.get("from", ""), kind)
                size += len(json_text(copied))
                if size > MAX_COPIED:
                    text = f"Unable to complete the copy, the accumulated size increase of copy is {size}"
                    raise PatchError(f"{text}, exceeding the limit {MAX_COPIED}")
                _add(holder, path, deepcopy(copied), kind)
            case "test":
                try:
                    actual = _get(holder, path, "test")
                except PatchError:
                    actual = None  # a null is as if there were nothing
                if json_text(actual) != json_text(operation.get("value")):
                    raise PatchTestError(f"testing value {path} failed: test failed")
            case _:
                raise PatchError(f"Unexpected kind: {kind}")
    return holder.get("")


def _missing(kind: str, path: str) -> PatchError:
    shown = f'"{path}"' if kind in ("add", "remove") else path
    return PatchError(f"{kind} operation does not apply: doc is missing path: {shown}: missing value")


def _parent(holder: Json, path: str, kind: str) -> tuple[Any, str]:
    """The map or list that holds the value of a path, and its key."""
    *parents, last = [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")]
    at: Any = holder if not path or path[0] == "/" else None
    for key in parents:
        try:
            at = at[_index(at, key)] if isinstance(at, list) else at[key]
        except (KeyError, IndexError, TypeError, ValueError):
            raise _missing(kind, path) from None
    if not isinstance(at, dict | list):
        raise _missing(kind, path)
    return at, last


def _index(values: list[Any], key: str) -> int:
    at = int(key)
    if not -len(values) <= at < len(values):
        raise IndexError
    return at


def _get(holder: Json, path: str, kind: str) -> Any:
    parent, key = _parent(holder, path, kind)
    try:
        return parent[_index(parent, key)] if isinstance(parent, list) else parent[key]
    except (KeyError, IndexError, ValueError):
        raise _missing(kind, path) from None


def _add(holder: Json, path: str, value: Any, kind: str) -> None:
    parent, key = _parent(holder, path, kind)
    if isinstance(parent, dict):
        parent[key] = value
        return
    try:
        at = len(parent) if key == "-" else int(key)
    except ValueError:
        raise _missing(kind, path) from None
    if not -len(parent) <= at <= len(parent):
        raise _missing(kind, path)
    parent.insert(at, value)


def _replace(holder: Json, path: str, value: Any) -> None:
    """Set a key of a map, which may be absent, or an item of a list."""
    parent, key = _parent(holder, path, "replace")
    if isinstance(parent, list):
        _get(holder, path, "replace")
        parent[_index(parent, key)] = value
    else:
        parent[key] = value


def _remove(holder: Json, path: str, kind: str) -> Any:
    parent, key = _parent(holder, path, kind)
    if isinstance(parent, dict) and key not in parent:
        why = f"Unable to remove nonexistent key: {key}: missing value"
        raise PatchError(f"error in {kind} for path: '{key if kind == 'move' else path}': {why}")
    value = _get(holder, path, kind)
    del parent[_index(parent, key) if isinstance(parent, list) else key]
    return value
