"""Decodes lists and watch events from bytes into the structs of objects.

A first use of a type by several threads at once crashes the decoder of msgspec 0.22 (it fills tables of the
type without a lock). Therefore the decoders of all kinds are made when this module is imported.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from moorage.errors import InputError
from moorage.kube import Node, Object, Pod
from moorage.kube.model.meta import Struct
from moorage.kube.read.decode import UNREADABLE, Head, decode_kind
from moorage.kube.read.parts_reader import PartsReader
from moorage.store.errors import ServerError, is_namespaced, structs
from moorage.store.pod_binding import why_unreadable

from .server_errors import StatusAnswer, read_answer

T = TypeVar("T", bound=Object)


class _ListMeta(Struct, frozen=True):
    """Metadata of a list (meta/v1)."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(Struct, frozen=True):
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] | None = ()


class Page(NamedTuple, Generic[T]):
    """A page of a list: the resource version, and the token of the next page, "" without one."""

    objects: tuple[T, ...]
    version: str
    next: str


class RawEvent(msgspec.Struct):
    """An event of a watch. Its object depends on its type: that of a bookmark is no valid object."""

    type: str
    object: msgspec.Raw


class Bookmark(NamedTuple):
    """A resource version that a watch has reached.

    Attributes
    ----------
    version : str
    ends_list : bool
        Whether all objects that existed when the watch began have been sent.
    """

    version: str
    ends_list: bool


class _BookmarkMeta(Struct, frozen=True):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Bookmark(Struct, frozen=True):
    kind: str
    metadata: _BookmarkMeta


_EVENT = msgspec.json.Decoder(RawEvent)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_LIST = msgspec.json.Decoder(_List)
_STATUS = msgspec.json.Decoder(StatusAnswer)
_OBJECTS: dict[type[Object], msgspec.json.Decoder[Any]] = {
    struct: msgspec.json.Decoder(struct) for struct in structs()
}
_PARTS: dict[type[Object], PartsReader] = {Node: PartsReader(), Pod: PartsReader()}
"""What decodes the kinds of which there are many objects that have much in common."""
_DEFAULTS = {one: one() for one in _OBJECTS}
_HEAD = msgspec.json.Decoder(Head)
_WITH_TEMPLATE = {
    one for one in _OBJECTS if "template" in getattr(getattr(one(), "spec", None), "__struct_fields__", ())
}
"""Kinds with a pod template, whose fields that scheduling does not read are kept (see `decode_as`)."""


def decode_object_of(struct: type[T], body: bytes | msgspec.Raw, *, converts: bool = False) -> T:
    """Decode one object, and check it.

    Parameters
    ----------
    body : bytes
        JSON text.
    converts : bool, optional
        Whether it may be of another version than the struct's.

    Raises
    ------
    ServerError
        It is no object of this kind, or has not all that a stored object has.
    """
    if not converts and struct not in _WITH_TEMPLATE:
        reader = _PARTS.get(struct)
        parts = None if reader is None else reader.split(body)
        if reader is not None and parts is not None:
            shared = reader.read(parts, struct.__name__)
            if shared is not None:
                return _checked(struct, shared)
        try:
            return _checked(struct, _OBJECTS[struct].decode(body))
        except UNREADABLE:
            pass  # nulls, or an error that is explained below
    try:
        head = _HEAD.decode(body)
        read: Any = decode_kind(body if isinstance(body, msgspec.Raw) else msgspec.Raw(body), struct.__name__)
    except (InputError, *UNREADABLE) as error:
        raise ServerError(f"a {struct.__name__} of the API server cannot be read: {error}") from None
    version = struct().api_version if converts or not head.api_version else head.api_version
    kind = head.kind or struct.__name__
    return _checked(struct, msgspec.structs.replace(read, kind=kind, api_version=version))


def _checked(struct: type[T], obj: Any) -> T:
    """Return an object that was read; ServerError if it is not one that an API server has stored.

    An object without a kind is one of the kind that was asked for, as in lists.
    """
    meta, default = obj.metadata, _DEFAULTS[struct]
    if obj.kind != default.kind or obj.api_version != default.api_version:
        wrong = f"{obj.kind} ({obj.api_version})"
    elif not (meta.name and meta.uid and meta.resource_version):
        wrong = f"{obj.key!r}, which lacks a name, a UID or a resource version"
    elif bool(meta.namespace) != is_namespaced(struct):
        wrong = f"{obj.key!r}, whose namespace is {meta.namespace!r}"
    elif why := why_unreadable(obj):
        wrong = f"{obj.key!r}, whose {why}"
    else:
        checked: T = obj
        return checked
    raise ServerError(f"the API server has sent, as a {struct.__name__}, {wrong}")


def decode_list(struct: type[T], body: bytes, *, converts: bool = False) -> Page[T]:
    """Decode a page of a list, and check its objects.

    Parameters
    ----------
    struct : type
        The kind of its items.
    converts : bool, optional
        See `decode_object_of`.

    Raises
    ------
    ServerError
        It is no list of this kind.
    """
    page = read_answer(_LIST, body, "a list")
    if page.kind != f"{struct.__name__}List" or not page.metadata.resource_version:
        raise ServerError(f"the API server has sent {page.kind!r} as a list of {struct.__name__}")
    objects = tuple([decode_object_of(struct, item, converts=converts) for item in page.items or ()])
    return Page(objects, page.metadata.resource_version, page.metadata.continue_)


def decode_event(line: bytes) -> RawEvent:
    """Decode an event of a watch, without its object.

    Raises
    ------
    ServerError
        It is no event.
    """
    return read_answer(_EVENT, line, "an event")


def decode_bookmark(struct: type[Object], event: RawEvent) -> Bookmark:
    """Return what a bookmark says.

    Raises
    ------
    ServerError
        It is none of this kind.
    """
    bookmark = read_answer(_BOOKMARK, event.object, "a bookmark")
    meta = bookmark.metadata
    if bookmark.kind != struct.__name__ or not meta.resource_version:
        raise ServerError(f"the API server has sent a bookmark of {bookmark.kind!r} for {struct.__name__}")
    return Bookmark(
        meta.resource_version, (meta.annotations or {}).get("k8s.io/initial-events-end") == "true"
    )


def decode_status(event: RawEvent) -> StatusAnswer:
    """Return the object of an event of type ERROR.

    Raises
    ------
    ServerError
        It is none.
    """
    return read_answer(_STATUS, event.object)


def is_status(body: bytes) -> bool:
    """Whether an answer is a Status, as of subresources and of deletions.

    Raises
    ------
    ServerError
        It is no JSON.
    """
    return read_answer(_STATUS, body).kind == "Status"
