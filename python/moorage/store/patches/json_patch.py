"""JSON patches (RFC 6902) of JSON values. No value is changed in place.

The operations are written here because a library for six of them would be one more dependency for all users.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from moorage.errors import InputError
from moorage.kube.apply.merge_patch import json_text

Json: TypeAlias = Any

_INDEX = re.compile("0|[1-9][0-9]{0,8}")
MAX_OPERATIONS = 10_000
"""Maximum number of operations of a patch (maxJSONPatchOperations of the API server)."""
MAX_COPIED = 3 << 20
"""Maximum bytes of JSON that the copies of a patch add (AccumulatedCopySizeLimit of the API server)."""


def json_patch(value: Json, patch: list[dict[str, Any]]) -> Json:
    """Apply operations one after the other, all or none.

    Parameters
    ----------
    patch : list of dict
        The operations.

    Raises
    ------
    InputError
        An operation is malformed, or does not fit the value. The error names the operation.
    """
    if len(patch) > MAX_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise InputError(most)
    copied = 0
    for i, operation in enumerate(patch):
        try:
            if operation.get("op") == "copy":
                copied += len(json_text(_find(value, _tokens(operation.get("from")))))
                if copied > MAX_COPIED:
                    raise LookupError(
                        f"Unable to complete the copy, the accumulated size increase of copy is {copied}, "
                        f"exceeding the limit {MAX_COPIED}"
                    )
            value = _apply(value, operation)
        except LookupError as error:
            op, path = operation.get("op"), operation.get("path")
            raise InputError(f"{op} operation does not apply: {error.args[0]}", path=f"{path}") from None
        except (AttributeError, TypeError):
            raise InputError("not an operation of a JSON patch", path=f"[{i}]") from None
    return value


def _apply(value: Json, operation: dict[str, Any]) -> Json:
    """Apply one operation. Raises LookupError if it is malformed or does not fit."""
    op, path = operation.get("op"), _tokens(operation.get("path"))
    if op in ("move", "copy"):
        source = _tokens(operation.get("from"))
        new = _find(value, source)
        return _change(_change(value, source, "remove") if op == "move" else value, path, "add", new)
    if op == "remove":
        return _change(value, path, op)
    if op not in ("add", "replace", "test"):
        raise LookupError("there is no such operation")
    if "value" not in operation:
        raise LookupError("it has no value")
    new = operation["value"]
    if op != "test":
        return _change(value, path, op, new)
    if json_text(_find(value, path)) != json_text(new):
        raise LookupError("the value is another one")
    return value


def _tokens(pointer: str | None) -> list[str]:
    """Return the steps of a JSON pointer (RFC 6901)."""
    if pointer is None or (pointer and not pointer.startswith("/")):
        raise LookupError(f'"{pointer}" is not a JSON pointer')
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _find(value: Json, path: list[str]) -> Json:
    """Return the value at a path."""
    for token in path:
        value = value[_key(value, token, False)]
    return value


def _change(value: Json, path: list[str], op: str, new: Json = None) -> Json:
    """Return a copy of `value` with `new` added or set at `path`, or with the value there removed."""
    if not path:
        return new
    key = _key(value, path[0], op == "add" and len(path) == 1)
    copy = value.copy()
    if path[1:]:
        copy[key] = _change(value[key], path[1:], op, new)
    elif op == "remove":
        del copy[key]
    elif op == "add" and isinstance(copy, list):
        copy.insert(key, new)
    else:
        copy[key] = new
    return copy


def _key(value: Json, token: str, adding: bool) -> Any:
    """Return the key or index for a step of a pointer. It must exist unless a value is added."""
    if isinstance(value, dict) and (adding or token in value):
        return token
    if isinstance(value, list):
        if adding and token == "-":
            return len(value)
        if _INDEX.fullmatch(token) and int(token) < len(value) + adding:
            return int(token)
    raise LookupError(f'there is no "{token}"')
