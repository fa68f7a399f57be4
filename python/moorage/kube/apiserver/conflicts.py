"""What an API server says of a write to an object in another state (apimachinery v0.36, api/errors)."""

from __future__ import annotations

from ..model.meta import Object, plural, resource


def conflict_text(what: str, name: str, why: str) -> str:
    """Return the text about a conflict.

    Parameters
    ----------
    what : str
        The resource or the kind.
    """
    return f'Operation cannot be fulfilled on {what} "{name}": {why}'


def stale_text(obj: Object) -> str:
    """Return the text about an object with a resource version that is not the latest."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict_text(resource(type(obj)), obj.name, why)


def other_uid_text(obj: Object, uid: str) -> str:
    """Return the text about an object where the stored one has the UID `uid`."""
    struct = type(obj)
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{plural(struct)}/{obj.key}, "
        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {obj.metadata.uid}, UID in object meta: {uid}"
    )
    return conflict_text(resource(struct), obj.name, why)
